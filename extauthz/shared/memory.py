"""A ledger store in memory, for gates that share a process: tests and simulations."""

from __future__ import annotations

import asyncio
from itertools import count

from .store import Conflict, Follower, Stored


class MemoryStore:
    """Holds the objects of any number of gates."""

    def __init__(self) -> None:
        self._objects: dict[str, Stored] = {}
        self._versions = count(1)
        self._uids = count(1)
        self._queues: list[asyncio.Queue[Stored | str]] = []

    async def get(self, root: str) -> Stored | None:
        await asyncio.sleep(0)
        return self._objects.get(root)

    async def put(self, root: str, payload: str, intents: int, before: Stored | None) -> Stored:
        await asyncio.sleep(0)
        held = self._objects.get(root)
        if (held is None) != (before is None) or (held and before and held[2:] != before[2:]):
            raise Conflict
        uid = held.uid if held is not None else f"uid-{next(self._uids)}"
        stored = self._objects[root] = Stored(root, payload, str(next(self._versions)), uid)
        self._tell(stored)
        return stored

    def delete(self, root: str) -> None:
        """Somebody deletes the object."""
        del self._objects[root]
        self._tell(root)

    async def run(self, follower: Follower) -> None:
        queue: asyncio.Queue[Stored | str] = asyncio.Queue()
        self._queues.append(queue)
        for stored in self._objects.values():
            follower.changed(stored)
        follower.listed()
        try:
            while True:
                change = await queue.get()
                if isinstance(change, Stored):
                    follower.changed(change)
                else:
                    follower.gone(change)
        finally:
            self._queues.remove(queue)

    def _tell(self, change: Stored | str) -> None:
        for queue in self._queues:
            queue.put_nowait(change)
