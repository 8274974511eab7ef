"""Every write under a quota is growth to policies, also one that leaves fewer replicas."""

from extauthz.core.decision import policing

from .planting import replaced

CAUGHT_BY = "never in the way of less"
LEDGER = "memory"
FAULTS = "policies"
OFTEN = {"policy": 4.0}


def planted():
    return replaced(policing, _rises=lambda step: step.after.envelope.amounts)
