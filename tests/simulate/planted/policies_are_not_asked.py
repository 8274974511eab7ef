"""Quotas with policies are taken for quotas without: nobody asks what they say."""

from extauthz.core.decision import policing

from .planting import replaced

CAUGHT_BY = "no policy is passed over"
LEDGER = "memory"
FAULTS = "policies"
OFTEN = {"policy": 4.0}


def planted():
    return replaced(policing, let_grow=lambda asked, proposal, grounds: grounds)
