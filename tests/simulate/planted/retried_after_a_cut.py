"""A retry passes because the same write was granted before, though its quota was cut since (rule 10)."""

from extauthz.core.decision import weighing

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
GATES = 2
FAULTS = "cut,late,unheard"
WORDS = ("deploy",)
OFTEN = {"cut": 4.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}


original = weighing.exceeded


def exceeded(asked, proposal, grounds):
    granted = asked.entry.live_pending_writes() if asked.entry is not None else ()
    if any(one.effect == asked.pending_write.effect for one in granted):
        return grounds
    return original(asked, proposal, grounds)


def planted():
    return replaced(weighing, exceeded=exceeded)
