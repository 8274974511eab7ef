"""A ledger store in memory, for gates that share a process."""

from __future__ import annotations

import asyncio
from itertools import count

from extauthz.serve.ledger_store.store import Conflict, Follower, Stored


class MemoryStore:
    """Keeps the object of any number of gates."""

    def __init__(self) -> None:
        self._object: Stored | None = None
        self._versions = count()
        self._uids = count()
        self._queues: list[asyncio.Queue[Stored | None]] = []

    async def get(self) -> Stored | None:
        await asyncio.sleep(0)
        return self._object

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        await asyncio.sleep(0)
        held = self._object
        if (held is None) != (before is None) or (held and before and held[1:] != before[1:]):
            raise Conflict
        uid = held.uid if held is not None else f"uid-{next(self._uids)}"
        stored = self._object = Stored(payload, str(next(self._versions)), uid)
        self._tell(stored)
        return stored

    def delete(self) -> None:
        """Somebody deletes the object."""
        self._object = None
        self._tell(None)

    async def run(self, follower: Follower) -> None:
        queue: asyncio.Queue[Stored | None] = asyncio.Queue()
        self._queues.append(queue)
        if self._object is not None:
            follower.changed(self._object)
        follower.listed()
        try:
            while True:
                change = await queue.get()
                if change is not None:
                    follower.changed(change)
                else:
                    follower.gone()
        finally:
            self._queues.remove(queue)

    def _tell(self, change: Stored | None) -> None:
        for queue in self._queues:
            queue.put_nowait(change)
