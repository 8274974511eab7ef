"""The webhook charges dry runs."""

from extauthz.core.intake import admission

from .planting import replaced

CAUGHT_BY = "never in the way of less"
LEDGER = "memory"
ENTRANCES = "webhook"
FAULTS = "none"


def planted():
    return replaced(admission, boolean=lambda value, where: False)
