"""A write that no quota covers is not followed: a quota that is made anew meanwhile gives its room to others."""

from extauthz.core.decision.gate import Gate

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "comes,late"
OFTEN = {"quota-goes": 4.0}


def pin(self, question, outcome, creates, is_known):
    return original(self, question, outcome, creates, False)


original = Gate._pin


def planted():
    return replaced(Gate, _pin=pin)
