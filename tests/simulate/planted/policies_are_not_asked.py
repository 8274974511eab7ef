"""Quotas with policies are taken for quotas without: nobody asks what they say."""

from extauthz.core.decision import chain, policing

from .planting import replaced

CAUGHT_BY = "no policy is passed over"
LEDGER = "memory"
FAULTS = "policies"
OFTEN = {"policy": 4.0}


def planted():
    return replaced(chain, STEPS=tuple(step for step in chain.STEPS if step is not policing.filtered))
