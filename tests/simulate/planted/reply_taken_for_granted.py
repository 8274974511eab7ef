"""A compare-and-swap whose reply got lost is taken for done."""

from extauthz.ledger_store.committing import Committer

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "lost,partition"


async def look_again(self, base, batch, trouble):
    if trouble == "other gates were first":
        return await original(self, base, batch, trouble)
    for waiter in batch:
        self._answer(waiter, waiter.decision)
        self._undo(waiter)
    return 0.05


original = Committer._look_again


def planted():
    return replaced(Committer, _look_again=look_again)
