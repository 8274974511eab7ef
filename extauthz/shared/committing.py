"""Grants that several gates agree upon: decided in memory, and answered once they are in the ledger objects.

Each check is answered once; one that cannot be written within ``WITHIN_S`` is refused as unavailable, and granted
nothing. Beside the checks, intents that have ended are taken out of the objects, and holds end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from extauthz.core.model import Decision, Request, WorkloadRef

from .books import Books, Progress
from .store import LedgerStore, Stored
from .waiting import ANEW, Waiter, refused
from .writing import Decides, Writers

WITHIN_S = 1.5
"""From the first decision to the answer: less than Envoy's ext_authz timeout as ``extauthz render`` sets it (2 s)."""

HOUSEKEEPING_S = 0.25
"""How often objects are looked over for intents that have ended."""


class Committer:
    """Takes grants into the ledger objects, and ended intents out of them.

    Args:
        window_s: W.
        look: reads one workload as it is from then on; false: it could not be read.
        list_anew: lists all that counts once more; then a hold that W has passed may end.
        holds_new: whether a new ledger holds growth back for W, as an earlier one may have been lost.
        wrote: told of each write: ``ok``, ``conflict``, ``unclear``, ``refused``, ``too-large``; and how many grants
            went with it.
        tell: a line for the log: level, event and fields.
    """

    def __init__(
        self,
        gate: Decides,
        store: LedgerStore,
        progress: Progress,
        window_s: float,
        clock: Callable[[], float],
        *,
        look: Callable[[WorkloadRef], Awaitable[bool]],
        list_anew: Callable[[], Awaitable[None]],
        holds_new: bool = True,
        wrote: Callable[[str, int], None] = lambda result, grants: None,
        tell: Callable[..., None] = lambda *event, **fields: None,
    ) -> None:
        self._gate = gate
        self._store = store
        self._clock = clock
        self._look = look
        self._list_anew = list_anew
        self.books = Books(gate.ledger, progress, window_s, clock, tell, holds_new=holds_new)
        self.known = asyncio.Event()
        """All objects that there are have been seen."""
        self._writers = Writers(gate, store, self.books, self.known, clock, wrote, tell)

    # The request path.

    async def commit(self, request: Request, decision: Decision) -> Decision:
        """The answer to a request that ``decision`` would grant by an intent which is in memory so far."""
        assert decision.intent is not None
        self.books.keep_up()
        roots = sorted(self._gate.ledger.roots_of(decision.intent))
        if not roots:
            return decision
        is_doubtful = self.books.bury() or self.books.behind() is not None
        decided = ANEW if is_doubtful else self.books.adoptions
        waiter = Waiter(request, decision, asyncio.get_running_loop().create_future(), roots, decided)
        self._writers.enter(waiter)
        granted = False
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._begin(waiter)
                answer = await waiter.answer
            granted = answer.intent is not None
        except TimeoutError:
            trouble = waiter.trouble or "its ledger was not written in time"
            why = f"could not agree upon it with the other gates: {trouble}"
            return refused(waiter.decision, "ledger-unavailable", why)
        finally:
            self._writers.leave(waiter)
            if not granted:
                waiter.answer.cancel()
                self.books.abandon(decision.id)
        return answer

    async def _begin(self, waiter: Waiter) -> None:
        """Another gate may know that an object is gone which this one still counts: only a read tells."""
        ref = waiter.decision.ref
        if waiter.remakes and ref is not None:
            waiter.trouble = "it could not be read"
            if not await self._look(ref):
                waiter.refuse("ledger-unavailable", "cannot tell whether it is there: it could not be read")
                return
            self._writers.decide_anew(waiter)
        if not waiter.answer.done():
            self._writers.queue(waiter)

    # Beside the requests. A follower of the store.

    def changed(self, stored: Stored) -> None:
        self.books.take(stored)

    def gone(self, root: str) -> None:
        self.books.gone(root)

    def listed(self) -> None:
        self.known.set()

    async def run(self) -> None:
        """Follow the objects and keep them tidy, for ever. Ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store.run(self))
            await self.known.wait()
            group.create_task(self._keep_house())
            group.create_task(self._release_holds())

    async def _keep_house(self) -> None:
        try:
            while True:
                self.books.keep_up()
                self.books.note_lacks()
                for book in self.books:
                    if self.books.wants_write(book):
                        self._writers.wake(book.root)
                await asyncio.sleep(HOUSEKEEPING_S)
        finally:
            self._writers.stop()

    async def _release_holds(self) -> None:
        """End the holds whose W has passed, on what is listed from then on."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            now_s = self._clock()
            due = [book for book in self.books if self.books.is_held_until(book) <= now_s]
            if due:
                await self._list_anew()
                for book in due:
                    book.released = True

    def notes(self) -> list[str]:
        """Which quotas grow nothing, for those who look at the gate."""
        held = [book.root for book in self.books if book.payload.holds]
        return [f"grants no growth under {', '.join(sorted(held))}: the ledger there is new"] if held else []
