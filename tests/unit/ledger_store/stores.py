"""Ledger stores that fail or wait as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extauthz.ledger_store.memory import MemoryStore
from extauthz.ledger_store.store import Conflict, Follower, Refused, Stored, Unclear


class Odd(MemoryStore):
    """Fails as it is told to: one entry a write that holds pending writes."""

    def __init__(self, *faults: str) -> None:
        super().__init__()
        self.faults = list(faults)
        self.is_away = False
        self.puts = 0
        self.gets = 0
        self.on_fault: Callable[[], object] = lambda: None

    async def get(self) -> Stored | None:
        self.gets += 1
        if self.is_away:
            raise Refused("etcd is away")
        return await super().get()

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        self.puts += 1
        fault = self.faults.pop(0) if self.faults and writes else ""
        if fault:
            self.on_fault()
        if fault == "refused":
            raise Refused("etcd is away")
        if fault == "conflict":
            raise Conflict
        if fault == "lost before":
            raise Unclear("no answer")
        stored = await super().put(payload, writes, before)
        if fault == "lost after":
            raise Unclear("no answer")
        return stored


class Late(MemoryStore):
    """A write whose answer was lost is carried out later, if nobody was first."""

    def __init__(self) -> None:
        super().__init__()
        self.is_late = False
        self._waiting: list[tuple[str, int, Stored | None]] = []

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        if self.is_late and writes:
            self.is_late = False
            self._waiting.append((payload, writes, before))
            raise Unclear("no answer")
        return await super().put(payload, writes, before)

    async def carry_out(self) -> bool:
        """Whether what was late still could be."""
        try:
            await super().put(*self._waiting.pop())
        except Conflict:
            return False
        return True


class Barred(MemoryStore):
    """Writes wait while it is barred."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: asyncio.Event | None = None
        self.waiting = 0

    def bar(self) -> Callable[[], None]:
        """Writes that begin until ``lift`` wait until what is returned is called."""
        bar = self._bar = asyncio.Event()
        return bar.set

    def lift(self) -> None:
        """Bar no more; who waits, waits on."""
        self._bar = None

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        if self._bar is not None:
            self.waiting += 1
            await self._bar.wait()
        return await super().put(payload, writes, before)


class Deaf(MemoryStore):
    """Tells the followers that come after the first few nothing more than what there is when they come."""

    def __init__(self, hear: int) -> None:
        super().__init__()
        self._hear = hear

    async def run(self, follower: Follower) -> None:
        self._hear -= 1
        if self._hear >= 0:
            await super().run(follower)
        if self._object is not None:
            follower.changed(self._object)
        follower.listed()
        await asyncio.Event().wait()
