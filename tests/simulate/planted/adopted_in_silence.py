"""A ReplicaSet that is given to a Deployment is charged as before, though it comes to count where that counts."""

from extauthz.core.ledger.ownership import Ownership

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
ENTRANCES = "both"
FAULTS = "adopted"
WORDS = ("roll", "rs")
STEPS = 60
OFTEN = {"adopt": 8.0, "remake": 0.0}


def planted():
    return replaced(Ownership, joined=lambda self, entry, pending_write: None)
