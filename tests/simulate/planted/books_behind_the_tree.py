"""The shared ledger's books follow a moved quota only when they are tidied: until then decision and books differ."""

import sys

from extauthz.shared.books import Books

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "move,lag"
GATES = 2
STEPS = 12
PACE = (0.01,)
OFTEN = {"move": 3.0, "hold-watch": 0.0}


def keep_up(self):
    """By whom it is called, as a stack tells."""
    if sys._getframe(1).f_code.co_name == "_keep_house":
        original(self)


original = Books.keep_up


def planted():
    return replaced(Books, keep_up=keep_up)
