"""Planted bugs of a ledger that gates share."""

from extauthz.core.ledger.line import Lines
from extauthz.serve.ledger_store.committing import Committer
from extauthz.serve.ledger_store.replica import Replica
from tests.simulate.planted.planting import bug, changes, replaced


@bug("nothing leaks", ledger="kubernetes", faults="late,unheard,crash", gates=3)
@changes(Replica, "_adopt")
def adopted_for_ever(original, self, ref, pending_write):
    """A pending write of another gate never expires here: its gate dies, and the room is gone for good."""
    pending_write.expires_s += 1e9
    original(self, ref, pending_write)


@bug("never over", ledger="kubernetes", faults="lag,drop,partition", first=110)
def behind_the_watermark():
    """A gate decides though the writers before it have seen more of the cluster."""
    return replaced(Replica, behind=lambda self: None)


@bug("never over", ledger="kubernetes", gates=3, steps=12, pace=(0.005,))
def decided_before_the_write():
    """A grant is decided when it is asked for, and its write begins on what another gate wrote since."""
    original = Committer.commit

    async def commit(self, reading, source, decision, requester=None, timeout_s=None):
        early = self._gate.decide(reading, decision.id, self._clock(), source=source)
        if early.pending_write is None:
            return early
        return await original(self, reading, source, early)

    def decide(self, waiter):
        return True

    return replaced(Committer, commit=commit, _decide=decide)


@bug("never over", ledger="kubernetes", faults="deleted,late,crash")
def new_ledger_is_trusted():
    """A ledger object that was deleted is made again and grants at once, whatever the deleted one held."""
    original = Replica.gone

    def gone(self):
        for pending_id in self.payload.pending_writes:
            self._ledger.pending.forget(pending_id)
        original(self)

    start_over = Replica._start_over

    def trusting(self, base, *, holds):
        start_over(self, base, holds=False)

    return replaced(Replica, gone=gone, _start_over=trusting)


@bug(
    "the line is right",
    ledger="kubernetes",
    faults="turns,lost",
    gates=3,
    steps=50,
    often={"scale": 40.0, "turns": 0.0},
    pace=(0.1, 0.3),
)
@changes(Lines, "sent")
def line_lost_on_conflict(sent, self):
    """What a gate has written of the line counts as known to the others, though another one was faster."""
    for line in self.lines.values():
        for one in line.waiters.values():
            one.told = one.news
            one.is_here = False
    return sent(self)


@bug("never over", ledger="kubernetes", faults="lost,partition")
@changes(Committer, "_look_again")
async def reply_taken_for_granted(original, self, base, batch, trouble):
    """A compare-and-swap whose reply got lost is taken for done."""
    if trouble == "other gates were first":
        return await original(self, base, batch, trouble)
    for waiter in batch:
        self._answer(waiter, waiter.decision)
        self._undo(waiter)
    return 0.05


@bug("never over", ledger="kubernetes", faults="lag")
@changes(Committer, "_decide")
def verdict_lost_on_conflict(original, self, waiter):
    """What was decided before another gate wrote is granted after it all the same (as in kubernetes#141904)."""
    if not waiter.rounds:
        return original(self, waiter)
    self._answer(waiter, waiter.decision)
    return False
