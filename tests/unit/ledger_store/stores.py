"""Ledger stores that fail or wait as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from extauthz.core.ledger.entry import PendingWrite
from extauthz.core.model import Request
from extauthz.serve.ledger_store.replica import Replica
from extauthz.serve.ledger_store.store import Conflict, Follower, Stored, Unclear, WriteRefusedError
from extauthz.testing import Asker, gate, quota, workload
from tests.support.memory_store import MemoryStore
from tests.unit.ledger_store.gates import Sight


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
            raise WriteRefusedError("etcd is away")
        return await super().get()

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        self.puts += 1
        fault = self.faults.pop(0) if self.faults and writes else ""
        if fault:
            self.on_fault()
        if fault == "refused":
            raise WriteRefusedError("etcd is away")
        if fault == "conflict":
            raise Conflict
        if fault == "lost before":
            raise Unclear("no answer")
        stored = await super().put(payload, writes, before)
        if fault == "lost after":
            raise Unclear("no answer")
        return stored


class Slow(Odd):
    """It takes a while to say that it is away."""

    async def get(self) -> Stored | None:
        await asyncio.sleep(0.05)
        return await super().get()


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


W = 90.0
TEN = [quota("acme", {"requests.cpu": "10"})]


class Seat:
    """One gate with its replica, and a clock that has nothing to do with that of others."""

    def __init__(self, prefix: str, now_s: float = 1000.0, quotas: Any = TEN, **flags: bool) -> None:
        self.now_s = now_s
        self.told: list[tuple[str, str]] = []
        self.sight = Sight()
        self.gate = made = gate(quotas, workload("web", 1), workload("api", 1))
        self._ask = Asker(made, prefix)
        self.ledger = made.ledger
        self.replica = Replica(made.ledger, self.sight, W, lambda: self.now_s, self._tell, **flags)

    def _tell(self, level: str, event: str, **fields: str) -> None:
        self.told.append((level, event))

    def ask(self, request: Request) -> str:
        self._ask.now_s = self.now_s
        decision = self._ask(request)
        assert decision.pending_write, decision
        return decision.pending_write

    def write(self, version: int, uid: str = "u") -> Stored:
        """The object as this gate writes it now, and takes it."""
        text, _ = self.replica.next_text()
        stored = Stored(text, str(version), uid)
        self.replica.take(stored, self.now_s)
        return stored

    def left_s(self, pending_id: str) -> float:
        return self.pending(pending_id).expires_s - self.now_s

    def pending(self, pending_id: str) -> PendingWrite:
        found = self.ledger.pending.get(pending_id)
        assert found is not None
        return found[1]
