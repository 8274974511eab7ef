"""A write → allow or refuse, with the reason. The checks and their order are in ``chain``.

In: a write, read from whatever protocol. Out: a ``Decision`` with its evidence and its sentence.
"""
