"""A retry passes because the same write was granted before, though its quota was cut since (rule 10)."""

from extauthz.core.decision import chain, weighing

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
GATES = 2
FAULTS = "cut,late,unheard"
WORDS = ("deploy",)
OFTEN = {"cut": 4.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}


def exceeded(asked):
    granted = asked.entry.live_pending_writes() if asked.entry is not None else ()
    if any(one.effect == asked.pending_write.effect for one in granted):
        return None
    return weighing.exceeded(asked)


def planted():
    return replaced(chain, STEPS=tuple(exceeded if step is weighing.exceeded else step for step in chain.STEPS))
