"""What was decided before another gate wrote is granted after it all the same (as in kubernetes#141904)."""

from extauthz.ledger_store.committing import Committer

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "lag"


def decide(self, waiter):
    if not waiter.rounds:
        return original(self, waiter)
    self._answer(waiter, waiter.decision)
    return False


original = Committer._decide


def planted():
    return replaced(Committer, _decide=decide)
