"""A ledger store for races: each gate's own way to a common one, as slow and as unreliable as a test says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from extauthz.serve.ledger_store.store import Conflict, Unclear
from tests.support.memory_store import MemoryStore


class Store:
    """One gate's way to the common store: slow, and at times it conflicts or does not tell."""

    def __init__(self, inner: MemoryStore, choose: random.Random, delay_s: float, faults: float) -> None:
        self._inner, self._choose, self._delay_s, self._faults = inner, choose, delay_s, faults
        self.stored: dict[str, Any] = {}
        """The last state that this gate has written of each object."""

    async def _pause(self) -> None:
        if self._delay_s:
            await asyncio.sleep(self._choose.uniform(0, self._delay_s))

    def _fails(self) -> bool:
        return self._choose.random() < self._faults

    async def get(self, *which: Any) -> Any:
        await self._pause()
        return await self._inner.get(*which)

    async def put(self, *what: Any) -> Any:
        await self._pause()
        if self._fails():
            raise self._choose.choice((Conflict, Unclear))("nothing was written")
        stored = await self._inner.put(*what)
        self.stored[getattr(stored, "root", "")] = stored
        await self._pause()
        if self._fails():
            raise Unclear("it was written")
        return stored

    async def run(self, follower: Any) -> None:
        await self._inner.run(_Late(follower, self._delay_s) if self._delay_s else follower)


class _Late:
    """A follower that is told some time later, in the same order."""

    def __init__(self, follower: Any, delay_s: float) -> None:
        self._follower, self._delay_s = follower, delay_s
        self._loop = asyncio.get_running_loop()

    def _tell(self, told: Callable[..., None], *what: Any) -> None:
        self._loop.call_later(self._delay_s, told, *what)

    def changed(self, *what: Any) -> None:
        self._tell(self._follower.changed, *what)

    def gone(self, *what: Any) -> None:
        self._tell(self._follower.gone, *what)

    def listed(self) -> None:
        self._tell(self._follower.listed)
