"""Where the ledger object is kept: what gates need of a store, and how it may fail."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import NamedTuple, Protocol


class Stored(NamedTuple):
    """The ledger object as it was at one moment."""

    payload: str
    """``ledger_store.payload``."""
    version: str
    """resourceVersion: a later state has a higher one."""
    uid: str
    """Another value: the object was deleted and made again."""


class Conflict(Exception):  # noqa: N818 (nobody's error: somebody else was first)
    """The object is not as ``before`` says. Nothing was written."""


class Unclear(Exception):  # noqa: N818
    """It may have been written, or may still be. The text says what happened."""


class Refused(Exception):  # noqa: N818
    """Nothing was written, and the reason is not another writer. The text says which, and the cure."""


class Follower(Protocol):
    """Receives the states of the object in order. Some may be left out; own writes come too."""

    def changed(self, stored: Stored) -> None:
        """The object is now like this."""

    def gone(self) -> None:
        """There is no such object any more."""

    def listed(self) -> None:
        """The first state of the object has come, or there is none."""


class LedgerStore(Protocol):
    """Stores the object. All methods but ``run`` end within a few seconds."""

    async def get(self) -> Stored | None:
        """The newest state. Every write that was answered before this call is in it.

        Raises:
            Refused: it could not be had.
        """

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        """Write the object if it still is as ``before``; ``None``: if there is none.

        Args:
            writes: how many pending writes there are, for people who look at the object.

        Raises:
            Conflict, Unclear, Refused
        """

    async def run(self, follower: Follower) -> None:
        """Report states to ``follower``, for ever. Ends by cancellation."""


# A ledger store in memory, for gates that share a process: tests and simulations.


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
