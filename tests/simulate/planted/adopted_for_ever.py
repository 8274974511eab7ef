"""A pending write of another gate never expires here: its gate dies, and the room is gone for good."""

from extauthz.ledger_store.replica import Replica

from .planting import replaced

CAUGHT_BY = "nothing leaks"
LEDGER = "kubernetes"
FAULTS = "late,unheard,crash"
GATES = 3


def adopt(self, ref, pending_write):
    pending_write.expires_s += 1e9
    original(self, ref, pending_write)


original = Replica._adopt


def planted():
    return replaced(Replica, _adopt=adopt)
