"""A gate decides though the writers before it have seen more of the cluster."""

from extauthz.shared.books import Books

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "lag,drop,partition"


def planted():
    return replaced(Books, behind=lambda self: None)
