"""Grants that several gates agree on: decided and written into the ledger object in one step, then answered.

A write that would be granted waits for the next write of the object. When that begins, all who wait are decided, one
after the other, on what is known at that moment; the object is written on the condition that it is as this gate last
saw it. If another gate was first, nothing of it counts, and all are decided anew. So no decision is older than the
state that its commit is checked against.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from traceback import format_exception

from extauthz.core.decision import sentences
from extauthz.core.decision.gate import Gate
from extauthz.core.model import Decision, Operation, Reading, Requester, Verdict, WorkloadRef, Write
from extauthz.serve.ledger_store import payload
from extauthz.serve.ledger_store.payload import TooLargeError, decode
from extauthz.serve.ledger_store.replica import Progress, Replica
from extauthz.serve.ledger_store.store import Conflict, LedgerStore, Stored, Unclear, WriteRefusedError

WITHIN_S = 1.5
"""Time from the first decision to the answer, for an asker who does not say how long he waits."""

SPARE_S = 0.5
"""One who says so is answered so much earlier, or after half of that time."""

MOST_S = 30.0
"""No write waits longer, whatever its asker says. No API server waits for a webhook longer than this."""

AT_ONCE = 250
"""So many are decided at once, so that others have their turn: some 30 milliseconds."""

HOUSEKEEPING_S = 0.25
"""How often to check whether pending writes have ended."""

CATCH_UP_S = 0.005
"""How often to check whether a watch has come as far as another gate's. The same event is on its way to both."""

AGAIN_S = 0.05
"""Time before a write or a look is tried again, if it failed and another writer was not the reason."""

IDLE_AGAIN_S = 1.0
"""The same, if nobody waits for it."""

STANDS = "follows it from an earlier try, or for another write like it that was allowed meanwhile"

HELD = "grants no growth for now: its ledger is new, and writes that were allowed before may still land"


@dataclass(slots=True, eq=False)
class _Waiter:
    """One write that waits for the ledger object. ``answer`` is set once, with its result."""

    reading: Reading
    source: str
    decision: Decision
    requester: Requester | None
    answer: asyncio.Future[Decision]
    trouble: str = "its ledger was not written in time"
    """Why it is not answered yet."""
    rounds: int = 0
    """How often it was decided."""
    looked: int | None = None
    """How far gates had seen its kind when its workload was looked at."""

    @property
    def lowers(self) -> WorkloadRef | None:
        """The workload of a count that is no higher than what is observed."""
        decision, reading = self.decision, self.reading
        if not isinstance(reading, Write) or reading.object is not None or decision.replicas_before is None:
            return None
        return reading.ref if reading.replicas <= decision.replicas_before else None

    @property
    def remakes(self) -> bool:
        """It would replace an object that is believed to exist. If that is gone, all of it is growth."""
        decision = self.decision
        creates = not decision.scale and decision.operation is Operation.CREATE
        return creates and decision.replicas_before is not None


class Committer:
    """Writes grants into the ledger object, and removes pending writes that have ended.

    Args:
        window_s: the landing window.
        look: reads one workload as it is from then on; false: it could not be read.
        list_anew: lists all that counts once more; then a hold whose time has passed may end.
        holds_new: whether a new ledger holds growth back for a landing window, as an earlier one may have been lost.
        wrote: told of each write: ``ok``, ``conflict``, ``unclear``, ``refused``, ``too-large``; and how many grants
            went with it.
        tell: a line for the log: level, event and fields.
    """

    def __init__(
        self,
        gate: Gate,
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
        self._wrote = wrote
        self._tell = tell
        self.replica = Replica(gate.ledger, progress, window_s, clock, tell, holds_new=holds_new)
        self.known = asyncio.Event()
        """Whether it is known if there is an object."""
        self._queue: list[_Waiter] = []
        self._wake = asyncio.Event()
        self._told = ""
        """The last reason why the object could not be written."""

    # The request path.

    async def commit(
        self,
        reading: Reading,
        source: str,
        decision: Decision,
        requester: Requester | None = None,
        timeout_s: float | None = None,
    ) -> Decision:
        """The answer to a write that ``decision``, which recorded nothing, would grant."""
        waiter = _Waiter(reading, source, decision, requester, asyncio.get_running_loop().create_future())
        granted = False
        try:
            async with asyncio.timeout(_within(timeout_s)):
                if waiter.remakes and not await self._is_looked_at(waiter):
                    why = "cannot tell whether it is there: it could not be read"
                    return _refused(decision, "ledger-unavailable", why)
                self._queue.append(waiter)
                self._wake.set()
                answer = await self._answered(waiter)
            granted = answer.verdict is Verdict.ALLOW
        except TimeoutError:
            why = f"could not agree upon it with the other gates: {waiter.trouble}"
            return _refused(waiter.decision, "ledger-unavailable", why)
        finally:
            if not granted:
                self.replica.abandon(decision.id)
        return answer

    async def _answered(self, waiter: _Waiter) -> Decision:
        """What is less waits for no watch: while this gate is behind, its workload is read instead."""
        looking = asyncio.create_task(self._keep_looking(waiter, ref)) if (ref := waiter.lowers) is not None else None
        try:
            return await waiter.answer
        finally:
            if looking is not None:
                looking.cancel()

    async def _keep_looking(self, waiter: _Waiter, ref: WorkloadRef) -> None:
        while True:
            pause_s, mark = CATCH_UP_S, self.replica.mark(kind := ref.group_resource)
            if not self.replica.has_reached(kind) and waiter.looked != mark:
                if await self._look(ref):
                    waiter.looked = mark
                else:
                    pause_s = AGAIN_S
            await asyncio.sleep(pause_s)

    def _is_less(self, waiter: _Waiter) -> bool:
        """Whether its count is no higher than one on which no gate has granted room to others.

        Then it raises nothing at any gate, whatever else they have seen. Its workload must be known as well as by any
        gate that has written the ledger, and nothing but counts may pend on it: of an object it could make more.
        """
        ref = waiter.lowers
        entry = self._gate.ledger.get(ref) if ref is not None else None
        if ref is None or entry is None:
            return False
        kind = ref.group_resource
        is_known = waiter.looked == self.replica.mark(kind) or self.replica.has_reached(kind)
        return is_known and all(one.counts_alone for one in entry.live_pending_writes())

    async def _is_looked_at(self, waiter: _Waiter) -> bool:
        """Another gate may know that an object is gone, while this one still counts it. Only a read shows it."""
        waiter.trouble = "it could not be read"
        ref = waiter.decision.ref
        return ref is None or await self._look(ref)

    # Beside the requests. A follower of the store.

    def changed(self, stored: Stored) -> None:
        self.replica.take(stored)
        self._tell_hold()

    def gone(self) -> None:
        self.replica.gone()
        self._tell_hold()

    def listed(self) -> None:
        self._tell_hold()
        self.known.set()

    def _tell_hold(self) -> None:
        if self.replica.holds and not self.replica.unreadable:
            self._gate.hold(self._clock() + self.replica.hold_left_s)
        else:
            self._gate.release()

    async def run(self) -> None:
        """Follow the object and write it, for ever. Ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store.run(self))
            await self.known.wait()
            group.create_task(self._keep_writing())
            group.create_task(self._release_holds())

    async def _release_holds(self) -> None:
        """End a hold whose time has passed, after everything was listed again."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            held = self.replica.base
            if held is not None and self.replica.hold_is_over and not self.replica.released:
                await self._list_anew()
                base = self.replica.base
                is_the_same = base is not None and base.uid == held.uid
                self.replica.released = is_the_same and self.replica.hold_is_over

    def notes(self) -> list[str]:
        if self.replica.unreadable:
            return [f"grants no growth: the ledger cannot be read ({self.replica.unreadable})"]
        return ["grants no growth: the ledger is new"] if self.replica.holds else []

    # Writing.

    async def _keep_writing(self) -> None:
        while True:
            if not self._queue:
                self._wake.clear()
                try:
                    async with asyncio.timeout(HOUSEKEEPING_S):
                        await self._wake.wait()
                except TimeoutError:
                    pass
            try:
                pause_s = await self._round()
            except Exception as error:  # noqa: BLE001 (whoever waits is refused in time; the writer goes on)
                self._tell("error", "ledger-writer-failed", traceback="".join(format_exception(error)))
                pause_s = AGAIN_S
            self._tell_hold()
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _round(self) -> float:
        """Decide all who wait, and write the object. Returns how long to pause before the next round, in seconds."""
        waiting = self._waiting()
        obstacle = self._obstacle()
        if obstacle is None:
            waiting, self._queue = waiting[:AT_ONCE], waiting[AT_ONCE:]
            batch = [waiter for waiter in waiting if self._decide(waiter)]
        else:
            batch = self._less(waiting, obstacle)
        if not batch and (obstacle is not None or not self.replica.wants_write()):
            return CATCH_UP_S if self._queue else 0.0
        return await self._write(batch)

    def _less(self, waiting: list[_Waiter], obstacle: str) -> list[_Waiter]:
        """Those that may be granted while this gate is behind. All others wait."""
        batch, wait = [], []
        for waiter in waiting:
            if self.replica.unreadable or not self._is_less(waiter):
                wait.append(waiter)
            elif self._decide(waiter):
                if self._is_less(waiter):
                    batch.append(waiter)
                else:  # what the look has shown
                    self._undo(waiter)
                    wait.append(waiter)
        self._put_back(wait, obstacle)
        return batch

    def _waiting(self) -> list[_Waiter]:
        queue, self._queue = self._queue, []
        return [one for one in queue if not one.answer.done()]

    def _put_back(self, waiting: list[_Waiter], trouble: str) -> None:
        """They wait on, before later arrivals, and are decided again."""
        for waiter in waiting:
            waiter.trouble = trouble
        self._queue = waiting + self._queue

    def _obstacle(self) -> str | None:
        """Why nothing may be granted now. The reason passes by itself, or the text has the cure."""
        if self.replica.unreadable:
            return f"the ledger cannot be read: {self.replica.unreadable}"
        behind = self.replica.behind()
        return f"another gate has seen more of {behind}" if behind is not None else None

    def _decide(self, waiter: _Waiter) -> bool:
        """Decide it by what is known now. True: it is granted once the object is written. Else it is answered."""
        if waiter.decision.pending_write == waiter.decision.id and self.replica.agrees(waiter.decision.id):
            return self._answer(waiter, waiter.decision)  # a write that was in doubt was carried out
        if waiter.rounds and waiter.remakes:  # what the look has shown may be outdated
            return self._answer(waiter, _refused(waiter.decision, "ledger-unavailable", "is behind another gate"))
        waiter.rounds += 1
        self._undo(waiter)  # a write in doubt, seen in an object that cannot be read any more
        decision_id = waiter.decision.id
        if self._gate.ledger.pending.follows(decision_id):
            return self._answer(waiter, _refused(waiter.decision, "ledger-unavailable", STANDS))
        decision = self._gate.decide(
            waiter.reading, decision_id, self._clock(), source=waiter.source, requester=waiter.requester
        )
        waiter.decision = decision
        if decision.pending_write is None:
            return self._answer(waiter, decision)
        if self.replica.holds and decision.evidence.grows:
            return self._take_back(waiter, "hold", HELD)
        if waiter.lowers is None and self.replica.is_full(decision.pending_write):
            why = "has no room in the ledger: too many writes under this quota may still land; try again shortly"
            return self._take_back(waiter, "ledger-full", why)
        return True

    def _take_back(self, waiter: _Waiter, reason: str, why: str) -> bool:
        self._undo(waiter)
        return self._answer(waiter, _refused(waiter.decision, reason, why))

    @staticmethod
    def _answer(waiter: _Waiter, decision: Decision) -> bool:
        if not waiter.answer.done():
            waiter.answer.set_result(decision)
        return False

    def _undo(self, *waiters: _Waiter) -> None:
        """Nothing of them counts, unless the object has it. A pending write that they only renewed was there before,
        and stays. So does one that stands for a request of somebody else."""
        requests = Counter(one.decision.pending_write for one in waiters)
        for waiter in waiters:
            decision = waiter.decision
            if decision.pending_write == decision.id and not self.replica.agrees(decision.id):
                self.replica.undo(decision.id, requests[decision.id])

    async def _write(self, batch: list[_Waiter]) -> float:
        base, times_gone = self.replica.base, self.replica.times_gone
        begun_s = self._clock()
        grows = any(waiter.lowers is None for waiter in batch)
        try:
            text, writes = self.replica.next_text(payload.GROWTH_TEXT_BYTES if grows else payload.MAX_TEXT_BYTES)
            begun_s = self._clock()
            stored = await self._store.put(text, writes, base)
        except TooLargeError as error:
            self._wrote("too-large", 0)
            return self._too_large(batch, str(error))
        except Conflict:
            self._wrote("conflict", 0)
            return await self._look_again(base, batch, "other gates were first")
        except Unclear as error:
            self._wrote("unclear", 0)
            return await self._look_again(base, batch, str(error))
        except WriteRefusedError as error:
            self._wrote("refused", 0)
            return self._failed(batch, str(error))
        if times_gone != self.replica.times_gone:  # maybe it is that write which has gone
            return await self._look_again(base, batch, "the ledger was deleted")
        self._written(stored, batch, begun_s)
        return 0.0

    def _too_large(self, batch: list[_Waiter], trouble: str) -> float:
        """Growth is refused. Less is written without it."""
        self._undo(*batch)
        less = [waiter for waiter in batch if waiter.lowers is not None]
        for waiter in batch:
            if waiter.lowers is None:
                self._take_back(waiter, "ledger-full", f"has no room in the ledger: {trouble}")
        if len(less) == len(batch):
            return self._failed(less, trouble)
        self._put_back(less, trouble)
        return 0.0

    def _written(self, stored: Stored, batch: list[_Waiter], begun_s: float | None = None) -> None:
        self._wrote("ok", len(batch))
        self._told = ""
        self.replica.take(stored, begun_s)
        for waiter in batch:
            self._answer(waiter, waiter.decision)

    async def _look_again(self, base: Stored | None, batch: list[_Waiter], trouble: str) -> float:
        """Somebody else wrote, or this gate may have: read the newest state. Until it is known, the batch counts."""
        try:
            stored = await self._store.get()
        except WriteRefusedError as error:
            return self._failed(batch, f"{trouble}; {error}")
        if stored is not None and self._holds(stored, batch):
            self._written(stored, batch)
            return 0.0
        self._undo(*batch)
        if stored is None:
            self.replica.gone()
        else:
            self.replica.take(stored)
        self._put_back(batch, trouble)
        is_newer = stored is not None and (base is None or stored[1:] != base[1:])
        return 0.0 if is_newer else AGAIN_S

    def _holds(self, stored: Stored, batch: list[_Waiter]) -> bool:
        """Whether the doubtful write was carried out: the object has all of its batch, or nothing."""
        new = [one.decision.id for one in batch if one.decision.pending_write == one.decision.id]
        if not new:
            return False
        try:
            return all(one in decode(stored.payload).pending_writes for one in new)
        except ValueError:
            return False

    def _failed(self, batch: list[_Waiter], trouble: str) -> float:
        """Nothing is known to be written. Who waits goes on waiting, and is decided again."""
        self._undo(*batch)
        self._put_back(batch, trouble)
        if self._told != trouble:
            self._told = trouble
            self._tell("warning", "ledger-not-written", why=trouble)
        return AGAIN_S if self._queue else IDLE_AGAIN_S


def _within(timeout_s: float | None) -> float:
    """How long a write may wait for other gates, in seconds."""
    return WITHIN_S if timeout_s is None else min(max(timeout_s - SPARE_S, timeout_s / 2), MOST_S)


def _refused(decision: Decision, reason: str, why: str) -> Decision:
    sentence = sentences.unavailable(decision.ref, why)
    return decision._replace(
        verdict=Verdict.UNAVAILABLE, reason=reason, sentence=sentence, pending_write=None, todo=None
    )
