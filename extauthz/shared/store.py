"""Where ledger objects are kept: what gates want of it, and how it may fail them."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Stored(NamedTuple):
    """One ledger object as it was at one moment."""

    root: str
    """Name of the root quota, and of the object."""
    payload: str
    """``core.ledger.payload``."""
    version: str
    """resourceVersion: a later state has a higher one, of whichever object."""
    uid: str
    """Another one: the object was deleted and made again."""


class Conflict(Exception):  # noqa: N818 (nobody's error: somebody else was first)
    """The object is not as ``before`` says. Nothing was written."""


class Unclear(Exception):  # noqa: N818
    """It may have been written, or may still be. The text says what happened."""


class Refused(Exception):  # noqa: N818
    """Nothing was written, and the reason is not another writer. The text says which, and the cure."""


class Follower(Protocol):
    """Told of every object, of each state in order, some left out; also of states that it wrote itself."""

    def changed(self, stored: Stored) -> None:
        """The object is now like this."""

    def gone(self, root: str) -> None:
        """There is no such object any more."""

    def listed(self) -> None:
        """All objects that there are have been told of, once at least."""


class LedgerStore(Protocol):
    """Keeps the objects. All methods but ``run`` end within a few seconds."""

    async def get(self, root: str) -> Stored | None:
        """The newest state. Every write that was answered before this call is in it.

        Raises:
            Refused: it could not be had.
        """

    async def put(self, root: str, payload: str, intents: int, before: Stored | None) -> Stored:
        """Write the object if it still is as ``before``; ``None``: if there is none.

        Args:
            intents: how many there are, for people who look at the object.

        Raises:
            Conflict, Unclear, Refused
        """

    async def run(self, follower: Follower) -> None:
        """Tell ``follower``, for ever. Ends by cancellation."""
