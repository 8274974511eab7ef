"""Grants that several gates agree upon: decided in memory, and answered once they are in the ledger objects.

While an object is being written, later arrivals collect and go with its next write (DESIGN §6.9). Whatever another
writer did first, all that is not written yet is taken out of memory and decided anew, in order of arrival. Each check
is answered once; one that cannot be written within ``WITHIN_S`` is refused as unavailable, and granted nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from traceback import format_exception
from typing import Protocol

from extauthz.core.decision import sentences
from extauthz.core.ledger import record
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.ledger.payload import TooLargeError, encode
from extauthz.core.model import Decision, Request, Verdict

from .books import Book, Books, Progress
from .store import Conflict, LedgerStore, Refused, Stored, Unclear

WITHIN_S = 1.5
"""From the first decision to the answer: less than Envoy's ext_authz timeout as ``extauthz render`` sets it (2 s)."""

CATCH_UP_S = 0.005
"""How often it is looked whether a watch has come as far as another gate's; the same event is on its way to both."""

AGAIN_S = 0.05
"""Before a write is tried again that failed for no other writer's sake."""

IDLE_AGAIN_S = 1.0
"""The same where nobody waits for it."""

HOUSEKEEPING_S = 0.25
"""How often objects are looked over for intents that have ended."""

WRITERS = 16
"""Objects that are written at once."""


class Decides(Protocol):
    """What is wanted of the gate."""

    @property
    def ledger(self) -> Ledger: ...

    def decide(self, request: Request, decision_id: str, now_s: float) -> Decision:
        """Answer ``request`` from memory; a grant is recorded there."""


@dataclass(slots=True, eq=False)
class Waiter:
    """One grant on its way into the objects."""

    request: Request
    decision: Decision
    answer: asyncio.Future[Decision]
    left: list[str]
    """Roots whose objects do not hold it yet, in the order in which they are written."""
    adoptions: int
    """``Books.adoptions`` when it was decided; -1: it must be decided anew."""
    trouble: str = ""
    """Why it is not answered yet."""


class Committer:
    """Takes grants into the ledger objects, and ended intents out of them.

    Args:
        window_s: W.
        list_anew: lists all that counts once more; then a hold that W has passed may end.
        wrote: told of each write: ``ok``, ``conflict``, ``unclear``, ``refused``; and how many grants went with it.
        tell: a line for the log: event and fields.
    """

    def __init__(
        self,
        gate: Decides,
        store: LedgerStore,
        progress: Progress,
        window_s: float,
        clock: Callable[[], float],
        *,
        list_anew: Callable[[], Awaitable[None]],
        wrote: Callable[[str, int], None] = lambda result, grants: None,
        tell: Callable[..., None] = lambda *event, **fields: None,
    ) -> None:
        self._gate = gate
        self._store = store
        self._window_s = window_s
        self._clock = clock
        self._list_anew = list_anew
        self._wrote = wrote
        self._tell = tell
        self.books = Books(gate.ledger, progress, window_s, clock, tell)
        self.known = asyncio.Event()
        """All objects that there are have been seen."""
        self._queues: dict[str, list[Waiter]] = {}
        self._writers: dict[str, asyncio.Task[None]] = {}
        self._told: dict[str, str] = {}
        """Root to what last kept it from being written."""
        self._slots = asyncio.Semaphore(WRITERS)

    # The request path.

    async def commit(self, request: Request, decision: Decision) -> Decision:
        """The answer to a request that ``decision`` would grant by an intent which is in memory so far."""
        assert decision.intent is not None
        roots = sorted(self._gate.ledger.roots_of(decision.intent))
        if not roots:
            return decision
        waiter = Waiter(request, decision, asyncio.get_running_loop().create_future(), roots, self.books.adoptions)
        granted = False
        try:
            self._queue(waiter)
            async with asyncio.timeout(WITHIN_S):
                answer = await waiter.answer
            granted = answer.intent is not None
        except TimeoutError:
            trouble = waiter.trouble or "its ledger was not written in time"
            why = f"could not agree upon it with the other gates: {trouble}"
            return _refused(waiter.decision, "ledger-unavailable", why)
        finally:
            if not granted:
                waiter.answer.cancel()
                self.books.abandon(decision.id)
        return answer

    def _queue(self, waiter: Waiter) -> None:
        root = waiter.left[0]
        self._queues.setdefault(root, []).append(waiter)
        self._wake(root)

    def _wake(self, root: str) -> None:
        if root not in self._writers:
            task = self._writers[root] = asyncio.create_task(self._write_all(root))
            task.add_done_callback(lambda task: self._slept(root, task))

    def _slept(self, root: str, task: asyncio.Task[None]) -> None:
        del self._writers[root]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tell("error", "ledger-writer-failed", root=root, traceback="".join(format_exception(error)))
        if self._queues.get(root):  # it came after the writer's last look
            self._wake(root)

    # Writing one object.

    async def _write_all(self, root: str) -> None:
        """Until nobody waits and nothing is to be told."""
        async with self._slots:
            while True:
                waiting = self._queues.pop(root, [])
                obstacle = self._obstacle(root) if waiting else None
                if obstacle is not None:
                    self._put_back(root, waiting, obstacle)
                    await asyncio.sleep(CATCH_UP_S)
                    continue
                batch = self._decided(root, waiting)
                if not batch and not self.books.wants_write(self.books[root]):
                    return
                await self._write(self.books[root], batch)

    def _obstacle(self, root: str) -> str | None:
        """Why nothing may be granted there right now; what it is passes by itself."""
        if not self.known.is_set():
            return "the ledgers have not been listed yet"
        behind = self.books.behind(root)
        if behind is not None:
            return f"another gate has seen more of {behind}"
        for other in self.books.fenced(root):
            self._wake(other)
            return f"quotas have moved here from {other}, whose ledger does not say so yet"
        return None

    def _put_back(self, root: str, waiting: list[Waiter], trouble: str) -> None:
        """Wait on, in the same order and before those that came since. Who is not waited for is left out."""
        alive = [one for one in waiting if not one.answer.done()]
        for waiter in alive:
            waiter.trouble = trouble
        if alive:
            self._queues[root] = alive + self._queues.get(root, [])

    def _decided(self, root: str, waiting: list[Waiter]) -> list[Waiter]:
        """Those that may be written: decided in knowledge of all intents that are agreed upon."""
        alive = [one for one in waiting if not one.answer.done()]
        outdated = [one for one in alive if one.adoptions != self.books.adoptions]
        for waiter in outdated:
            self._gate.ledger.forget(waiter.decision.id)
        for waiter in outdated:
            self._decide_anew(waiter)
        batch = []
        for waiter in alive:
            if waiter.answer.done():
                continue
            if waiter.left[0] != root:
                self._queue(waiter)
            elif self.books.holds(root) and waiter.decision.reason != "no-growth":
                self._answer_held(waiter)
            else:
                batch.append(waiter)
        return batch

    def _decide_anew(self, waiter: Waiter) -> None:
        waiter.decision = self._gate.decide(waiter.request, waiter.decision.id, self._clock())
        waiter.adoptions = self.books.adoptions
        waiter.left = self._roots_left(waiter.decision.id)
        if waiter.decision.intent is None or not waiter.left:
            waiter.answer.set_result(waiter.decision)

    def _roots_left(self, intent_id: str) -> list[str]:
        """Roots whose objects do not hold an intent as it is now. The others had room for it when they were written."""
        found = self._gate.ledger.intent(intent_id)
        if found is None:
            return []
        now = record.dump(*found)
        roots = self._gate.ledger.roots_of(intent_id)
        return sorted(root for root in roots if self.books[root].payload.intents.get(intent_id) != now)

    def _answer_held(self, waiter: Waiter) -> None:
        why = (
            "grants no growth for now: the ledger of this quota was made a short while ago, and writes that were "
            "allowed before may still land"
        )
        waiter.answer.set_result(_refused(waiter.decision, "hold", why))

    async def _write(self, book: Book, batch: list[Waiter]) -> None:
        root, base = book.root, book.base
        payload = self.books.next_payload(book, [one.decision.id for one in batch])
        try:
            stored = await self._store.put(root, encode(payload), len(payload.intents), base)
        except TooLargeError as error:
            self._wrote("too-large", 0)
            await self._too_large(root, batch, str(error))
        except Conflict:
            self._wrote("conflict", 0)
            await self._look_again(root, batch)
        except Unclear as error:
            self._wrote("unclear", 0)
            await self._look_again(root, batch, str(error))
        except Refused as error:
            self._wrote("refused", 0)
            await self._wait(root, batch, str(error))
        else:
            self._wrote("ok", len(batch))
            self._written(stored, batch)

    def _written(self, stored: Stored, batch: list[Waiter]) -> None:
        self._told.pop(stored.root, None)
        self.books.take(stored)
        for waiter in batch:
            waiter.left.remove(stored.root)
            if waiter.answer.done():
                continue
            if waiter.left:
                self._queue(waiter)
            else:
                waiter.answer.set_result(waiter.decision)

    async def _look_again(self, root: str, batch: list[Waiter], trouble: str = "") -> None:
        """Somebody else wrote, or we may have: the newest state tells."""
        try:
            stored = await self._store.get(root)
        except Refused as error:
            await self._wait(root, batch, trouble or str(error))
            return
        if stored is None:
            self.books.gone(root)
        else:
            self.books.take(stored)
        held = self.books[root].payload.intents
        missing = [one for one in batch if one.decision.id not in held]
        if stored is not None:
            self._written(stored, [one for one in batch if one.decision.id in held])
        self._outdate(missing)
        self._put_back(root, missing, trouble or "other gates were first")

    async def _wait(self, root: str, batch: list[Waiter], trouble: str) -> None:
        """Nothing is known to be written. Who waits waits on, and is decided anew."""
        self._outdate(batch)
        self._put_back(root, batch, trouble)
        if self._told.get(root) != trouble:
            self._told[root] = trouble
            self._tell("warning", "ledger-not-written", root=root, why=trouble)
        await asyncio.sleep(AGAIN_S if self._queues.get(root) else IDLE_AGAIN_S)

    async def _too_large(self, root: str, batch: list[Waiter], trouble: str) -> None:
        for waiter in batch:
            if not waiter.answer.done():
                waiter.answer.set_result(
                    _refused(waiter.decision, "ledger-full", f"has no room in the ledger: {trouble}")
                )
        await self._wait(root, [], trouble)

    @staticmethod
    def _outdate(waiters: list[Waiter]) -> None:
        for waiter in waiters:
            waiter.adoptions = -1

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
                self.books.plant(self._gate.ledger.scope.tree)
                for book in self.books:
                    if self.books.wants_write(book):
                        self._wake(book.root)
                await asyncio.sleep(HOUSEKEEPING_S)
        finally:
            for task in list(self._writers.values()):
                task.cancel()

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


def _refused(decision: Decision, reason: str, why: str) -> Decision:
    sentence = sentences.unavailable(decision.ref, why)
    return decision._replace(verdict=Verdict.UNAVAILABLE, reason=reason, sentence=sentence, intent=None)
