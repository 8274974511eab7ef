"""An admitted write is taken for stored: a read that shows nothing new ends it."""

from extauthz.core.ledger.pending_write import PendingWrite

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
ENTRANCES = "both"
RARE = True
FAULTS = "late"


def on_read(self, started_s):
    return self.precondition.resource_version is not None or original(self, started_s)


original = PendingWrite.on_read


def planted():
    return replaced(PendingWrite, on_read=on_read)
