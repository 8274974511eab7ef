"""A clean stop amid a recovery hold leaves what is known since the start, and the next start takes that for all."""

from extauthz.service.holding import Holding

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "again,late"
WORDS = ("deploy",)
STEPS = 60
PACE = (0.2,)
OFTEN = {"restart": 1.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}


def hand_over(self):
    self._until_s = None
    original(self)


original = Holding.hand_over


def planted():
    return replaced(Holding, hand_over=hand_over)
