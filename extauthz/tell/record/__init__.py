"""The record of growth: what was asked, what counted, and under which quotas, as JSON Lines in files that are bounded.

In: positions of workloads, labels of namespaces, quotas and decisions, as they come. Out: files, and their lines again.
docs/internals/record.md has the schema. Of users only service accounts come in, of annotations and headers nothing.
"""
