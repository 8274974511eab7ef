"""Several gates over one memory store, for tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from extauthz.core.decision.gate import Gate
from extauthz.core.model import COMMIT, Decision, Request, Requester, WorkloadRef
from extauthz.core.quota.tree import QuotaTree
from extauthz.serve.ledger_store.committing import Committer
from extauthz.serve.ledger_store.store import LedgerStore
from extauthz.testing import gate as make_gate
from extauthz.testing import shown
from tests.support.memory_store import MemoryStore
from tests.waiting import until

W = 135.0


class Sight:
    """What a gate has seen, as a test says."""

    def __init__(self) -> None:
        self.at: dict[str, int] = {}
        self.shown: dict[str, int] = {}

    def seen(self) -> Mapping[str, int]:
        return self.shown

    def has_reached(self, kind: str, version: int) -> bool:
        return self.at.get(kind, 0) >= version


class Member:
    """One gate of several."""

    _ids = count(1)

    def __init__(self, gate: Gate, store: LedgerStore, window_s: float = W) -> None:
        self.gate = gate
        self.sight = Sight()
        self.writes: list[tuple[str, int]] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.lists = 0
        self.looks: list[WorkloadRef] = []
        self.can_look = True
        self.committer = Committer(
            gate,
            store,
            self.sight,
            window_s,
            time.monotonic,
            look=self._look,
            list_anew=self._list_anew,
            wrote=lambda result, grants: self.writes.append((result, grants)),
            tell=lambda level, event, **fields: self.told.append((event, {"level": level, **fields})),
        )

    async def _look(self, ref: WorkloadRef) -> bool:
        self.looks.append(ref)
        return self.can_look

    async def _list_anew(self) -> None:
        self.lists += 1

    async def ask(self, request: Request, by: Requester | None = None, timeout_s: float | None = None) -> Decision:
        """As ``service.deciding``."""
        reading, decision_id = shown(self.gate, request), f"d{next(self._ids)}"
        decision = self.gate.decide(reading, decision_id, time.monotonic(), charge=False, requester=by)
        if decision.todo is not COMMIT:
            return decision
        if decision.evidence.afterwards:
            return self.gate.decide(reading, decision_id, time.monotonic())
        return await self.committer.commit(reading, "", decision, by, timeout_s)

    @property
    def agreed(self) -> set[str]:
        """Ids of the pending writes in the object, as this gate last saw it."""
        return set(self.committer.replica.payload.pending_writes)

    @property
    def reserved(self) -> dict[str, int]:
        return {row.resource: row.reserved for row in self.gate.usage() if row.reserved}


@asynccontextmanager
async def members(
    number: int,
    quotas: Sequence[Any],
    *objects: Any,
    store: LedgerStore | None = None,
    window_s: float = W,
    released: bool = True,
    **known: Any,
) -> AsyncIterator[list[Member]]:
    """Gates that have listed everything. ``released``: the ledger is old, so that nothing is held. ``known``: what a
    gate takes besides."""
    store = store if store is not None else MemoryStore()
    made = [Member(make_gate(quotas, *objects, **known), store, window_s) for _ in range(number)]
    tasks = [asyncio.create_task(one.committer.run()) for one in made]
    try:
        for one in made:
            await one.committer.known.wait()
        if released:
            await until(lambda: all(one.committer.replica.base is not None for one in made))
            made[0].committer.replica.released = True
            await until(lambda: not any(one.committer.notes() for one in made))
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def tree(*quotas: Any) -> QuotaTree:
    return QuotaTree.build(quotas)
