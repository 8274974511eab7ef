"""A pending write ends when W has passed, without a read: the watch that would show what it did is stalled."""

from extauthz.core.ledger.pending_writes import PendingWrites

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "lag,late"
WORDS = ("rs", "deploy")
STEPS = 150
PACE = (0.5,)
OFTEN = {"hold-watch": 4.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}


def tick(self, now_s):
    for _, pending_write in list(self._expired(now_s)):
        self.forget(pending_write.id)
    return 0


def due(self, now_s):
    return [entry.ref for entry in self._answered.values()]


def planted():
    return replaced(PendingWrites, tick=tick, due=due)
