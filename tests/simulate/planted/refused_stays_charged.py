"""What could not be agreed upon stays in memory and in the object as if it had been."""

from extauthz.shared.replica import Replica

from .planting import replaced

CAUGHT_BY = "nothing leaks"
LEDGER = "kubernetes"
FAULTS = "lost,partition"


def planted():
    return replaced(
        Replica,
        abandon=lambda self, intent_id: None,
    )
