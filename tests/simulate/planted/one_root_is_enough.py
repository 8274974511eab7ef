"""A write that counts in two trees is in the ledger of the first only."""

from extauthz.shared.writing import Writers

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "none"
GATES = 3
STEPS = 12
PACE = (0.005,)


def written(self, stored, batch):
    for waiter in batch:
        waiter.left = [stored.root]
    original(self, stored, batch)


original = Writers._written


def planted():
    return replaced(Writers, _written=written)
