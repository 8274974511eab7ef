"""Of a patch at Envoy the count is read, and a template that it brings beside it is overlooked."""

from extauthz.core.intake import counts

from .planting import replaced

CAUGHT_BY = "on Envoy a write is a count"
LEDGER = "memory"
ENTRANCES = "both"
FAULTS = "none"


def planted():
    return replaced(counts, _refuse_more=lambda patch: None)
