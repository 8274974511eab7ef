"""What was decided before another gate wrote is granted after it all the same (as in kubernetes#141904)."""

from extauthz.shared.writing import Writers

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "lag"


def decided(self, root, waiting):
    for waiter in waiting:
        waiter.adoptions = self._books.adoptions
    return original(self, root, waiting)


original = Writers._decided


def planted():
    return replaced(Writers, _decided=decided)
