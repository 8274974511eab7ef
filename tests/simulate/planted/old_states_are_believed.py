"""A watch that lags behind a consistent read takes back what that has shown."""

from extauthz.core.ledger.observations import Observations

from .planting import replaced

CAUGHT_BY = "nothing leaks"
LEDGER = "memory"
FAULTS = "lag"
WORDS = ("deploy",)


def planted():
    return replaced(Observations, is_late=lambda self, ref, version: False)
