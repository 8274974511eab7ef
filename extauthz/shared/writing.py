"""Writes ledger objects, each by one writer at a time.

While an object is being written, later arrivals collect and go with its next write (DESIGN §6.9). Whatever another gate
did first, all that is not written yet is taken out of memory and decided anew, in order of arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from traceback import format_exception
from typing import Protocol

from extauthz.core.ledger import record
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.ledger.payload import TooLargeError, encode
from extauthz.core.model import Decision, Request

from .books import Book, Books
from .store import Conflict, LedgerStore, Refused, Stored, Unclear
from .waiting import ANEW, Waiter

CATCH_UP_S = 0.005
"""How often it is looked whether a watch has come as far as another gate's; the same event is on its way to both."""

AGAIN_S = 0.05
"""Before a write is tried again that failed for no other writer's sake."""

IDLE_AGAIN_S = 1.0
"""The same where nobody waits for it."""

AT_ONCE = 16
"""Objects that are written at the same time."""

UNSURE = "another gate has begun to grant or to end a write of the same namespace, and not come to its end"

HELD = (
    "grants no growth for now: the ledger of this quota was made a short while ago, and writes that were allowed "
    "before may still land"
)


class Decides(Protocol):
    """What is wanted of the gate."""

    @property
    def ledger(self) -> Ledger: ...

    def decide(self, request: Request, decision_id: str, now_s: float) -> Decision:
        """Answer ``request`` from memory; a grant is recorded there."""


class Writers:
    """The writers of all objects."""

    def __init__(
        self,
        gate: Decides,
        store: LedgerStore,
        books: Books,
        known: asyncio.Event,
        clock: Callable[[], float],
        wrote: Callable[[str, int], None],
        tell: Callable[..., None],
    ) -> None:
        self._gate = gate
        self._store = store
        self._books = books
        self._known = known
        self._clock = clock
        self._wrote = wrote
        self._tell = tell
        self._alive: dict[Waiter, None] = {}
        """All who wait, at whatever stage, in order of arrival."""
        self._queues: dict[str, list[Waiter]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._told: dict[str, str] = {}
        """Root to what last kept it from being written."""
        self._slots = asyncio.Semaphore(AT_ONCE)

    def stop(self) -> None:
        """Stop writing; who waits is not answered."""
        for task in list(self._tasks.values()):
            task.cancel()

    def enter(self, waiter: Waiter) -> None:
        """One more waits. If it was decided beside one that must be decided anew, it may rest on that: so must it."""
        if any(one.adoptions != self._books.adoptions for one in self._unanswered({waiter.namespace})):
            waiter.adoptions = ANEW
        self._alive[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        """It was answered, or nobody waits for it any more."""
        self._alive.pop(waiter, None)

    def _unanswered(self, namespaces: set[str]) -> list[Waiter]:
        return [one for one in self._alive if one.namespace in namespaces and not one.answer.done()]

    def queue(self, waiter: Waiter) -> None:
        root = waiter.left[0]
        self._queues.setdefault(root, []).append(waiter)
        self.wake(root)

    def wake(self, root: str) -> None:
        if root not in self._tasks:
            task = self._tasks[root] = asyncio.create_task(self._write_all(root))
            task.add_done_callback(lambda task: self._slept(root, task))

    def _slept(self, root: str, task: asyncio.Task[None]) -> None:
        del self._tasks[root]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tell("error", "ledger-writer-failed", root=root, traceback="".join(format_exception(error)))
        if self._queues.get(root):  # it came after the writer's last look
            self.wake(root)

    # Writing one object.

    async def _write_all(self, root: str) -> None:
        """Until nobody waits and nothing is to be told."""
        while True:
            self._books.keep_up()
            batch = self._decided(root, self._ready(root))
            if batch or not self._queues.get(root):
                if not batch and not self._books.wants_write(self._books[root]):
                    return
                await self._write(self._books[root], batch)
            else:
                await asyncio.sleep(CATCH_UP_S)

    def _ready(self, root: str) -> list[Waiter]:
        """Those who need not wait for anything else; the others wait on."""
        waiting = self._queues.pop(root, [])
        obstacle = self._obstacle(root) if waiting else None
        if obstacle is not None:
            self._put_back(root, waiting, obstacle)
            return []
        own = {one.decision.id for one in self._alive}
        unsure = {name for name in {one.namespace for one in waiting} if self._books.is_unsure(name, own)}
        self._put_back(root, (one for one in waiting if one.namespace in unsure), UNSURE)
        return [one for one in waiting if one.namespace not in unsure and not one.answer.done()]

    def _obstacle(self, root: str) -> str | None:
        """Why nothing may be granted there right now; what it is passes by itself."""
        if not self._known.is_set():
            return "the ledgers have not been listed yet"
        behind = self._books.behind()
        if behind is not None:
            return f"another gate has seen more of {behind}"
        self._books.bury()
        for other in self._books.fenced(root):
            self.wake(other)
            return f"quotas have moved here from {other}, whose ledger does not say so yet"
        return None

    def _put_back(self, root: str, waiting: Iterable[Waiter], trouble: str) -> None:
        """Wait on, in the same order and before those that came since, to be decided anew. Who is not waited for is
        left out."""
        alive = [one for one in waiting if not one.answer.done()]
        for waiter in alive:
            waiter.trouble = trouble
            waiter.adoptions = ANEW
        if alive:
            self._queues[root] = alive + self._queues.get(root, [])

    def _decided(self, root: str, waiting: list[Waiter]) -> list[Waiter]:
        """Those that may be written: decided in knowledge of all intents that are agreed upon."""
        holds = self._books.holds(root)
        self._doubt(one for one in waiting if holds or one.adoptions != self._books.adoptions)
        batch = []
        for waiter in waiting:
            if waiter.adoptions == ANEW:
                self._decide(waiter)
            if waiter.answer.done():
                continue
            if waiter.left[0] != root:
                self.queue(waiter)
            elif holds and waiter.decision.reason != "no-growth":
                waiter.refuse("hold", HELD)
                self._gate.ledger.forget(waiter.decision.id)  # at once: the next one must not rest on it
            else:
                batch.append(waiter)
        return batch

    def _doubt(self, waiters: Iterable[Waiter]) -> None:
        """Take grants that are not agreed upon out of memory, and with them those that may have been found to grow
        nothing only because they were there: else each of two would pass for the other's sake."""
        for one in self._unanswered({waiter.namespace for waiter in waiters}):
            self._gate.ledger.forget(one.decision.id)
            one.adoptions = ANEW

    def decide_anew(self, waiter: Waiter) -> None:
        """Decide it by what is known now. A refusal is its answer."""
        self._doubt([waiter])
        self._decide(waiter, looked=True)

    def _decide(self, waiter: Waiter, *, looked: bool = False) -> None:
        self._gate.ledger.forget(waiter.decision.id)  # an object may have brought it back
        if waiter.remakes and not looked:  # what is known of it may be outdated too
            waiter.refuse("ledger-unavailable", "is behind another gate; try again")
            return
        waiter.decision = self._gate.decide(waiter.request, waiter.decision.id, self._clock())
        waiter.adoptions = self._books.adoptions
        waiter.left = self._roots_left(waiter.decision.id)
        if not waiter.answer.done() and (waiter.decision.intent is None or not waiter.left):
            waiter.answer.set_result(waiter.decision)

    def _roots_left(self, intent_id: str) -> list[str]:
        """Roots whose objects do not hold an intent as it is now. The others had room for it when they were written."""
        return sorted(root for root in self._gate.ledger.roots_of(intent_id) if not self._holds(root, intent_id))

    def _holds(self, root: str, intent_id: str) -> bool:
        """Whether an object holds an intent as it is now, be it that it does not count there any more."""
        found = self._gate.ledger.intent(intent_id)
        return found is not None and self._books[root].payload.intents.get(intent_id) == record.dump(*found)

    async def _write(self, book: Book, batch: list[Waiter]) -> None:
        root, base = book.root, book.base
        payload = self._books.next_payload(book, [one.decision.id for one in batch])
        try:
            text = encode(payload)
            async with self._slots:
                stored = await self._store.put(root, text, len(payload.intents), base)
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
        self._books.take(stored)
        for waiter in batch:
            if waiter.answer.done():
                continue
            waiter.left.remove(stored.root)
            if waiter.adoptions == ANEW:  # doubted on the way: the answer is what is decided now
                waiter.left.insert(0, stored.root)
            if waiter.left:
                self.queue(waiter)
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
            self._books.gone(root)
        else:
            self._books.take(stored)
        sure = [one for one in batch if one.adoptions != ANEW]
        written = [one for one in sure if self._holds(root, one.decision.id)]
        if stored is not None:
            self._written(stored, written)
        self._put_back(root, (one for one in batch if one not in written), trouble or "other gates were first")

    async def _wait(self, root: str, batch: list[Waiter], trouble: str) -> None:
        """Nothing is known to be written. Who waits waits on, and is decided anew."""
        self._put_back(root, batch, trouble)
        if self._told.get(root) != trouble:
            self._told[root] = trouble
            self._tell("warning", "ledger-not-written", root=root, why=trouble)
        await asyncio.sleep(AGAIN_S if self._queues.get(root) else IDLE_AGAIN_S)

    async def _too_large(self, root: str, batch: list[Waiter], trouble: str) -> None:
        for waiter in batch:
            waiter.refuse("ledger-full", f"has no room in the ledger: {trouble}")
        await self._wait(root, [], trouble)
