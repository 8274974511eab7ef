"""A StatefulSet that is made again under other quotas finds its claims there, and nobody has charged them to these."""

from extauthz.core.ledger.ownership import Ownership

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
ENTRANCES = "both"
FAULTS = "remade"
WORDS = ("sts",)
STEPS = 60
OFTEN = {"remake-claimed": 6.0, "rollout": 0.0, "patch": 0.0}


def planted():
    return replaced(Ownership, find_claims=lambda self, entry: None)
