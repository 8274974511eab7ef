"""An override begins and ends when the gate's own clock says so, though clocks are seconds apart."""

from extauthz.core.quota import overrides

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "overrides"


def planted():
    return replaced(overrides, about=lambda given, at_s: [at_s])
