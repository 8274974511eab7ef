"""A write that no quota covers is not followed: a quota that is made anew meanwhile gives its room to others."""

from extauthz.core.decision import gate

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "comes,late"
STEPS = 60
OFTEN = {"quota-goes": 4.0, "rollout": 0.0, "remake": 0.0, "patch": 0.0}


original = gate._uncovered


def uncovered(asked):
    return original(asked._replace(question=asked.question._replace(charge=False)))


def planted():
    return replaced(gate, _uncovered=uncovered)
