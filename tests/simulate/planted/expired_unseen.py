"""An intent ends when W has passed, without a read: the watch that would show what it did is stalled."""

from extauthz.core.ledger.ledger import Ledger

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "lag,late"
STEPS = 100
FIRST = 540  # it is rare: from seed 0 it took 555 worlds


def tick(self, now_s):
    for _, intent in list(self._pending.expired(now_s)):
        self.forget(intent.id)
    return 0


def due(self, now_s):
    return [entry.ref for entry in self._pending._answered.values()]


def planted():
    return replaced(Ledger, tick=tick, due=due)
