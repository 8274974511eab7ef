"""The path of an answer: Envoy's report → its event → a consistent read → the end of the pending write.

Without an answer a read ends it, once the landing window has elapsed. ``ARCHITECTURE.md`` lists the steps of the path.
"""

from __future__ import annotations

from collections.abc import Callable

from extauthz.core.ledger.pending_write import Event
from extauthz.core.ledger.pending_writes import PendingWrites
from extauthz.settlement.answers import Fate, event
from extauthz.settlement.reads import ConsistentReads


class Settlement:
    """Ends pending writes.

    Args:
        heard: told what became of each request.
    """

    def __init__(self, pending: PendingWrites, heard: Callable[[Event], None], clock: Callable[[], float]) -> None:
        self._pending = pending
        self._heard = heard
        self._clock = clock
        self.reads: ConsistentReads | None = None
        """``None``: no source can be asked for the newest state of one workload."""
        self.is_believed: Callable[[], bool] = lambda: False
        """If no source can be asked: whether the loaded state shows all that could land so far."""

    def answered(self, decision_id: str, fate: Fate) -> None:
        """Take what became of a decided request. Most often its pending write ends now, or by the read that follows."""
        what = event(fate)
        self._heard(what)
        ref = self._pending.settle(decision_id, what, self._clock())
        if ref is not None and self.reads is not None:
            self.reads.soon(ref)

    def tick(self, now_s: float) -> None:
        """Let time pass. If a landing window has elapsed, a read ends the write, or the content of a state file."""
        self._pending.tick(now_s)
        if self.is_believed():
            self._pending.consistent_read(now_s)
