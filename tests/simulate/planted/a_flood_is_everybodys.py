"""The bound of writes under way in one tree counts those of all trees: one tenant's flood stops the others."""

from extauthz.core.ledger.pending_writes import PendingWrites

from .planting import replaced

CAUGHT_BY = "a flood ends for its sender alone"
LEDGER = "memory"
FAULTS = "flood,late,unheard"
OFTEN = {"flood": 4.0}
STEPS = 12


def planted():
    return replaced(PendingWrites, of_tree=lambda self, root: len(self))
