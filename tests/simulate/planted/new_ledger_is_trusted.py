"""A ledger object that was deleted is made again and grants at once, whatever the deleted one held."""

from extauthz.ledger_store.replica import Replica

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "deleted,late,crash"


def gone(self):
    for pending_id in self.payload.pending_writes:
        self._ledger.pending.forget(pending_id)
    original(self)


original = Replica.gone


def planted():
    start_over = Replica._start_over

    def trusting(self, base, *, holds):
        start_over(self, base, holds=False)

    return replaced(Replica, gone=gone, _start_over=trusting)
