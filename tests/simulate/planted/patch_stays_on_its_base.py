"""A pending patch is charged by what it found when it was allowed, though something else was put there since."""

from extauthz.core.ledger.intents import Intent

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "late,unheard,ungated"
WORDS = ("deploy", "rs", "sts")
OFTEN = {"patch": 6.0, "sidecar": 6.0, "rollout": 0.0, "remake": 0.0}


def planted():
    return replaced(Intent, find=lambda self, base: None)
