"""Of two that were decided side by side only one is decided anew: each passes for the other's sake."""

from extauthz.shared.waiting import ANEW
from extauthz.shared.writing import Writers

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "none"
GATES = 3
STEPS = 40
PACE = (0.003,)
OFTEN = {"rollout": 0.0, "remake": 0.0}


def doubt(self, waiters):
    for one in list(waiters):
        self._gate.ledger.forget(one.decision.id)
        one.adoptions = ANEW


def planted():
    return replaced(Writers, _doubt=doubt)
