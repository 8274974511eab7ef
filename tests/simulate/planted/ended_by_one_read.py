"""A pending write ends by any consistent read of its workload, without an answer and before W has passed."""

from extauthz.core.ledger.pending_write import Event, PendingWrite, State

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "late,unheard"
WORDS = ("deploy",)


def on_read(self, started_s):
    if not original(self, started_s):
        self.on(Event.ANSWERED_OK)
        self.on(Event.SEEN)
    return self.state is State.ENDED


original = PendingWrite.on_read


def planted():
    return replaced(PendingWrite, on_read=on_read)
