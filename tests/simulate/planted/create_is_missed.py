"""An admitted create ends as soon as its object is not there: it may not be there yet."""

from extauthz.core.ledger.pending_write import PendingWrite

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
ENTRANCES = "webhook"
FAULTS = "late,lag"
OFTEN = {"remake": 20.0}
WORDS = ("deploy", "rs")


def passed_by(self, before, observed):
    return (self.is_admitted_create and observed is None) or original(self, before, observed)


original = PendingWrite.passed_by


def planted():
    return replaced(PendingWrite, passed_by=passed_by)
