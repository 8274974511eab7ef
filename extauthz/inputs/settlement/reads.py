"""Consistent reads: when a workload is read anew, for a pending write that waits for it or for a check.

A read may show what a pending write has done, and so end it. Each workload is read by one reader at a time.

Where many of a kind wait, their watch is busy, and soon shows all that a read would. So one read asks how far it must
come, and ends what all of them wait for. If the watch stays behind, they are read one by one. Nobody else waits for the
watch: a check reads its workload at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple, TypeAlias

from cachetools import TTLCache

from extauthz.core.ledger.pending_writes import PendingWrites
from extauthz.core.model import Kind, WorkloadRef
from extauthz.inputs.kube.reflector import Backoff

AT_ONCE = 16
"""Reads under way for pending writes, and as many for checks, so that neither holds up the other. The API server's
default share for a client of its own flow is some 30 requests (APF)."""

WAITING_AT_MOST = 256
"""Checks that may wait for a read; beyond that they are answered by what is known. And so many workloads that could
not be read for one are read later."""

COALESCE_S = 0.25
"""How long an answered write waits for others of its workload: autoscalers write one every 2 s, rollouts a burst."""

LOOK_AGAIN_S = 1.0
"""How long a workload that is not there is taken to stay so: a client that asks without end costs a read a second."""

SEVERAL = 4
"""So many of a kind are not read one by one, if the watch catches up."""

TICK_S = 0.1


class Result(StrEnum):
    OK = "ok"
    UNREACHABLE = "unreachable"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"
    """Any other error of the API server."""
    UNKNOWN_KIND = "unknown-kind"
    """Of a resource that is not watched."""
    BEHIND = "behind"
    """The object has gone, and the watch has not shown that yet."""


_FAILED = frozenset({Result.UNREACHABLE, Result.FORBIDDEN, Result.REFUSED, Result.BEHIND})
"""Worth another try."""


@dataclass(slots=True)
class _Wait:
    backoff: Backoff
    until_s: float = field(init=False)


class Brought(NamedTuple):
    result: Result
    is_shown: bool
    """All that there is of it has been observed, or that there is nothing."""
    why: str = ""
    """What is wrong."""


Bring: TypeAlias = Callable[[WorkloadRef], Awaitable[Brought]]
"""Reads the present state of a workload, and has it observed."""

CatchUp: TypeAlias = Callable[[Sequence[WorkloadRef]], Awaitable[Collection[WorkloadRef]]]
"""Waits until the watch of workloads of one kind has shown all that was written before the call. Returns those of which
it has, in a short time."""


class ConsistentReads:
    """Reads workloads, each by one reader at a time.

    Args:
        bring: reads one.
        catch_up: ``None``: no watch shows them.
        pending: whose writes end by that.
        told: each result, the workload, how many pending writes ended, and what is wrong.
    """

    def __init__(
        self,
        bring: Bring,
        pending: PendingWrites,
        told: Callable[[Result, WorkloadRef, int, str], None],
        clock: Callable[[], float],
        catch_up: CatchUp | None = None,
    ) -> None:
        self._bring = bring
        self._catch_up = catch_up
        self._pending = pending
        self._told = told
        self._clock = clock
        self._for_checks = asyncio.Semaphore(AT_ONCE)
        self._of_checks: set[asyncio.Task[bool]] = set()
        """Reads for checks, those that wait for their turn among them."""
        self._of_pending_writes: set[asyncio.Task[bool]] = set()
        self._under_way: dict[WorkloadRef, asyncio.Task[bool]] = {}
        self._followed: dict[WorkloadRef, asyncio.Task[bool]] = {}
        """Workloads whose watch catches up."""
        self._next: deque[WorkloadRef] = deque()
        """Workloads to read one by one, as soon as others have been read."""
        self._queue: dict[WorkloadRef, float] = {}
        """Workloads to read, and from when on."""
        self._waits: dict[WorkloadRef, _Wait] = {}
        """Waits of workloads whose last read failed."""
        self._one_by_one: set[WorkloadRef] = set()
        """Workloads whose watch did not catch up."""
        self._looked: TTLCache[WorkloadRef, None] = TTLCache(WAITING_AT_MOST * 16, LOOK_AGAIN_S, clock)

    async def look(self, ref: WorkloadRef) -> bool:
        """Read a workload that a check needs, unless that was done a moment ago. False: it was not read."""
        if ref in self._looked:
            return False
        self._looked[ref] = None
        return await self.read(ref)

    async def read(self, ref: WorkloadRef) -> bool:
        """Read a workload, or wait for a running read. False: it could not be read, and nothing has changed."""
        if (task := self._under_way.get(ref)) is not None:
            return await asyncio.shield(task)
        if len(self._of_checks) >= WAITING_AT_MOST:
            return False
        return await asyncio.shield(self._begin([ref], self._read_for_check(ref), self._under_way, self._of_checks))

    async def read_anew(self, ref: WorkloadRef) -> bool:
        """Read a workload by a read that begins after this call. False if it could not be read."""
        under_way = self._under_way.get(ref)
        if under_way is not None:
            await asyncio.shield(under_way)
        return await self.read(ref)

    def soon(self, ref: WorkloadRef) -> None:
        """Read a workload after others had time to ask for the same."""
        self._queue.setdefault(ref, self._clock() + COALESCE_S)

    async def run(self) -> None:
        """Read what is queued and what pending writes wait for, for ever. Ends by cancellation."""
        try:
            while True:
                self._begin_due()
                await asyncio.sleep(TICK_S)
        finally:
            for task in [*self._under_way.values(), *self._followed.values()]:
                task.cancel()

    def _begin_due(self) -> None:
        now_s = self._clock()
        for ref in self._pending.due(now_s):
            if not self._is_read(ref):  # what the read does not end is due afterwards
                self._queue.setdefault(ref, now_s)
        due = [ref for ref, not_before_s in self._queue.items() if not_before_s <= now_s and self._is_free(ref, now_s)]
        self._next.clear()
        for refs in self._alike(due):
            if len({*self._followed.values()}) < AT_ONCE:
                self._begin(refs, self._follow(refs), self._followed)
        self._begin_next()

    def _begin_next(self, _: object = None) -> None:
        """Read one by one, so many at once."""
        while self._next and len(self._of_pending_writes) < AT_ONCE:
            ref = self._next.popleft()
            if ref in self._queue and self._is_free(ref, self._clock()):
                task = self._begin([ref], self._read(ref), self._under_way, self._of_pending_writes)
                task.add_done_callback(self._begin_next)

    def _is_read(self, ref: WorkloadRef) -> bool:
        return ref in self._under_way or ref in self._followed

    def _is_free(self, ref: WorkloadRef, now_s: float) -> bool:
        wait = self._waits.get(ref)
        return not self._is_read(ref) and (wait is None or wait.until_s <= now_s)

    def _alike(self, due: Iterable[WorkloadRef]) -> Iterator[list[WorkloadRef]]:
        """Those that their watch may show together. The others are read next."""
        kinds: dict[Kind, list[WorkloadRef]] = {}
        for ref in due:
            kinds.setdefault(ref[:2], []).append(ref)
        for refs in kinds.values():
            several = [ref for ref in refs if ref not in self._one_by_one] if self._catch_up is not None else []
            if len(several) >= SEVERAL:
                yield several
                refs = [ref for ref in refs if ref in self._one_by_one]
            self._next.extend(refs)

    def _begin(
        self,
        refs: Iterable[WorkloadRef],
        reading: Coroutine[None, None, bool],
        under_way: dict[WorkloadRef, asyncio.Task[bool]],
        among: set[asyncio.Task[bool]] | None = None,
    ) -> asyncio.Task[bool]:
        task = asyncio.create_task(reading)
        if among is not None:
            among.add(task)
            task.add_done_callback(among.discard)
        for ref in refs:
            self._queue.pop(ref, None)
            under_way[ref] = task
            task.add_done_callback(partial(_is_done, under_way, ref))
        return task

    async def _follow(self, refs: Sequence[WorkloadRef]) -> bool:
        """See by the watch of their kind what became of their writes."""
        assert self._catch_up is not None, "else each is read by itself"
        started_s = self._clock()
        shown = await self._catch_up(refs)
        left = [ref for ref in refs if ref not in shown]
        self._one_by_one.update(left)
        self._queue.update(dict.fromkeys(left, self._clock()))
        for number, ref in enumerate(shown):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)  # decisions have their turn
            self._told(Result.OK, ref, self._pending.read(ref, started_s), "")
            self._waits.pop(ref, None)
        return True

    async def _read_for_check(self, ref: WorkloadRef) -> bool:
        async with self._for_checks:
            return await self._read(ref, is_due=False)

    async def _read(self, ref: WorkloadRef, *, is_due: bool = True) -> bool:
        started_s = self._clock()
        result, is_shown, why = await self._bring(ref)
        ended = self._pending.read(ref, started_s) if is_shown else 0
        self._told(result, ref, ended, why)
        self._one_by_one.discard(ref)
        if result in _FAILED:
            if not is_due and len(self._waits) >= WAITING_AT_MOST:
                return False
            wait = self._waits.setdefault(ref, _Wait(Backoff(self._clock)))
            wait.until_s = self._clock() + wait.backoff.failed()
            self._queue.setdefault(ref, wait.until_s)
            return False
        self._waits.pop(ref, None)
        return result is Result.OK


def _is_done(under_way: dict[WorkloadRef, asyncio.Task[bool]], ref: WorkloadRef, _: object) -> None:
    del under_way[ref]
