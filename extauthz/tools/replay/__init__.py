"""Replays a record of growth against other quotas: what they would have refused, whose, and for how long.

In: a record, quotas. Out: a table, quotas that fit, a page. The gate that decides is the product's own, on
virtual time. docs/internals/record.md says what is taken how.
"""
