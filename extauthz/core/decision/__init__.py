"""A request → allow or refuse, with the reason. The order of the checks is in ``gate``.

In: bytes of a request, or what was read of it. Out: a ``Decision`` with its evidence and its sentence.
"""
