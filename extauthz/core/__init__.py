"""Everything that decides, as pure code: no I/O, no clock, no randomness, no logging.

In: requests, quotas, observed objects, and the time as an argument. Out: decisions with their evidence, and usage.
"""
