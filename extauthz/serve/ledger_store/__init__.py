"""One ledger for several gates: the pending writes of all of them, in one WorkspaceLedger object.

In: writes that a gate would grant. Out: grants that every gate knows of, or refusals. Each grant is in the object, by a
compare-and-swap, before it is answered; etcd is the arbiter.
"""
