"""While a Deployment rolls out, its replicas are charged at the new template alone: the old ones still run."""

from extauthz.core.ledger import envelope

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "memory"
ENTRANCES = "both"
FAULTS = "none"
WORDS = ("roll",)


def planted():
    return replaced(envelope, _running=lambda entry: [], _members=lambda entry: [])
