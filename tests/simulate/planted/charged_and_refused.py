"""What one quota has room for is charged before another refuses it: others are then refused for want of it."""

from extauthz.core.decision import chain, weighing

from .planting import replaced

CAUGHT_BY = "never in the way of less"
LEDGER = "memory"
FAULTS = "none"


def exceeded(asked):
    refused = weighing.exceeded(asked)
    if refused is not None and asked.charge:
        asked.state.ledger.record(asked.proposal, asked.pending_write)
    return refused


def planted():
    return replaced(chain, STEPS=tuple(exceeded if step is weighing.exceeded else step for step in chain.STEPS))
