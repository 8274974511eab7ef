"""A gate decides though the writers before it have seen more of the cluster."""

from extauthz.ledger_store.replica import Replica

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "lag,drop,partition"


def planted():
    return replaced(Replica, behind=lambda self: None)
