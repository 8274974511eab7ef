"""A pending write ends because a newer, lower target was observed: the slow write lands after it."""

from extauthz.core.ledger.pending_write import PendingWrite

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "late"
WORDS = ("deploy",)
OFTEN = {"rollout": 0.0, "remake": 0.0, "patch": 0.0}


def passed_by(self, before, observed):
    lower = observed is not None and self.replicas is not None and observed.replicas < self.replicas
    if lower and before is not None and before.resource_version != observed.resource_version:
        return True
    return original(self, before, observed)


original = PendingWrite.passed_by


def planted():
    return replaced(PendingWrite, passed_by=passed_by)
