"""A write and what it finds → what it leaves: patches of each kind, as the API server applies them.

In: a ``Write`` and the observed workload. Out: an ``Outcome``, or an error that names what cannot be followed.
"""
