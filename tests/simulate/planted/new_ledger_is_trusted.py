"""A ledger object that was deleted is made again and grants at once, whatever the deleted one held."""

from extauthz.shared.books import Books

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "deleted,late"


def planted():
    return replaced(Books, holds=lambda self, root: False, _note_lacks=lambda self, books: None, _lose=Books._drop)
