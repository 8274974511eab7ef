"""Where the ledger object is kept: what gates need of a store, and how it may fail."""

from __future__ import annotations

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


class WriteRefusedError(Exception):
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
            WriteRefusedError: it could not be had.
        """

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        """Write the object if it still is as ``before``; ``None``: if there is none.

        Args:
            writes: how many pending writes there are, for people who look at the object.

        Raises:
            Conflict, Unclear, WriteRefusedError
        """

    async def run(self, follower: Follower) -> None:
        """Report states to ``follower``, for ever. Ends by cancellation."""
