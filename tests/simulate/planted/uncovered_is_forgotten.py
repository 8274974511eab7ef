"""A write that no quota covers is not followed: a quota that is made anew meanwhile gives its room to others."""

from extauthz.core.decision import chain, granting

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "comes,late"
STEPS = 60
OFTEN = {"quota-goes": 4.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}


def uncovered(asked):
    charge, asked.charge = asked.charge, False
    answer = granting.uncovered(asked)
    asked.charge = charge
    return answer


def planted():
    return replaced(chain, STEPS=tuple(uncovered if step is granting.uncovered else step for step in chain.STEPS))
