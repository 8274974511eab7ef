"""A pending patch is charged by what it found when it was allowed, though something else was put there since."""

from extauthz.core.ledger.pending_write import PendingWrite

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "late,ungated"
WORDS = ("deploy",)
STEPS = 300
PACE = (0.5,)
OFTEN = {"patch": 12.0, "sidecar": 4.0, "rollout": 0.0, "remake": 0.0, "past": 0.0, "tidy": 0.0}


def planted():
    return replaced(PendingWrite, find=lambda self, base: None)
