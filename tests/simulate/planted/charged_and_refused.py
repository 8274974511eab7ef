"""What one quota has room for is charged before another refuses it: others are then refused for want of it."""

from extauthz.core.decision import weighing
from extauthz.core.model import Decision

from .planting import replaced

CAUGHT_BY = "never in the way of less"
LEDGER = "memory"
FAULTS = "none"


original = weighing.exceeded


def exceeded(asked, proposal, grounds):
    found = original(asked, proposal, grounds)
    if isinstance(found, Decision) and asked.question.charge:
        asked.state.ledger.record(proposal, asked.pending_write)
    return found


def planted():
    return replaced(weighing, exceeded=exceeded)
