"""What one quota has room for is charged before another refuses it: others are then refused for want of it."""

from extauthz.core.decision.gate import Gate

from .planting import replaced

CAUGHT_BY = "never in the way of less"
LEDGER = "memory"
FAULTS = "none"


def refusal(self, question, intent, proposal):
    refused = original(self, question, intent, proposal)
    if refused is not None and refused.shortages and question.charge:
        self.ledger.record(proposal, intent)
    return refused


original = Gate._refusal


def planted():
    return replaced(Gate, _refusal=refusal)
