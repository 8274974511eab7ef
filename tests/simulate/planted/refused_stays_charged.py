"""What could not be agreed upon stays in memory as if it had been."""

from extauthz.shared.books import Books

from .planting import replaced

CAUGHT_BY = "nothing leaks"
LEDGER = "kubernetes"
FAULTS = "none"


def planted():
    return replaced(Books, abandon=lambda self, intent_id: None, _is_over=lambda self, root, intent_id: False)
