"""A time-out of Envoy is taken for a refusal of the API server."""

from extauthz.core.ledger import pending_write
from extauthz.core.ledger.pending_write import TRANSITIONS, Event, State

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
FAULTS = "late"


def planted():
    rows = {state: dict(row) for state, row in TRANSITIONS.items()}
    rows[State.OPEN][Event.ANSWERED_UNCLEAR] = State.ENDED
    return replaced(pending_write, TRANSITIONS=rows)
