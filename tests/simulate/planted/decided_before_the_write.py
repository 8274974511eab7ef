"""A grant is decided when it is asked for, and the write that carries it begins on what another gate wrote since."""

from extauthz.ledger_store.committing import Committer

from .planting import replaced

CAUGHT_BY = "never over"
LEDGER = "kubernetes"
FAULTS = "none"
GATES = 3
STEPS = 12
PACE = (0.005,)


async def commit(self, reading, source, decision, requester=None):
    early = self._gate.decide(reading, decision.id, self._clock(), source=source)
    if early.pending_write is None:
        return early
    return await original(self, reading, source, early)


def decide(self, waiter):
    return True


original = Committer.commit


def planted():
    return replaced(Committer, commit=commit, _decide=decide)
