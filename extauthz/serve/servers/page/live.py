"""Streams of server-sent events: the part of a page that lives, whenever it has changed.

A stream writes its page anew every second and sends it if it differs. All streams take turns, and after each turn
everybody rests nine times as long as it took. So they take a tenth of the event loop at most, however many they are and
however large a quota they show.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from extauthz.serve.servers.api.rights import ALL, Problem, Rights, Scope
from extauthz.serve.servers.page import rendering

EVENT = "live"

PAUSE_S: Final = 1.0
"""Between two looks of one stream."""

REST: Final = 9
"""Times as long as a turn took, everybody rests after it."""

MOST: Final = 64
"""Streams at once."""

MOST_EACH: Final = 16
"""Streams of one person at once."""

LASTS_S: Final = 600.0
"""Then the browser connects anew. So a client that is gone, or whose certificate has ended, takes no place for long."""

WRITE_WITHIN_S: Final = 10.0
"""A client that takes nothing for so long is gone."""

SILENT_S: Final = 15.0
"""After that a comment is sent, so that proxies on the way keep the stream."""

Write = Callable[[], Awaitable[str]]
"""Writes the living part of a page. Raises Problem."""


class Client(NamedTuple):
    """Who takes a stream."""

    write: Callable[[bytes], Awaitable[None]]
    is_gone: Callable[[], bool]


class Streams:
    """All that are open.

    Args:
        clock: any clock in seconds.
        sleep: waits for so many seconds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._open: Counter[str | None] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._left = False

    async def leave(self) -> None:
        """End all, for good."""
        self._left = True
        for task in self._tasks:
            task.cancel()

    def admit(self, person: str | None) -> None:
        """Raises Problem where there are enough: in all, or of one person. ``None``: whoever is on this host."""
        of_theirs = self._open[person] if person is not None else 0
        if self._left or self._open.total() >= MOST or of_theirs >= MOST_EACH:
            raise Problem(503, "too many pages are live; this one is not, until others are closed")

    async def follow(self, client: Client, person: str | None, seen: str, write: Write) -> None:
        """Send the page whenever it is not as ``seen``, until the client goes, or no longer may see it."""
        self._open[person] += 1
        task = asyncio.create_task(self._following(client, seen, write))
        self._tasks.add(task)
        try:
            await task
        except asyncio.CancelledError:
            task.cancel()
            if not self._left:
                raise
        except (ConnectionError, TimeoutError, Problem):
            pass
        finally:
            self._tasks.discard(task)
            self._open.subtract([person])
            self._open += Counter()  # without those who have none

    async def _following(self, client: Client, seen: str, write: Write) -> None:
        ends_s = self._clock() + LASTS_S
        told_s = self._clock()
        while self._clock() < ends_s and not client.is_gone():
            text = await self._written(write)
            found = digest(text)
            if found != seen:
                await self._send(client, event(text))
                seen, told_s = found, self._clock()
            elif self._clock() >= told_s + SILENT_S:
                await self._send(client, b":\n\n")
                told_s = self._clock()
            await self._sleep(PAUSE_S)

    async def _written(self, write: Write) -> str:
        async with self._turn:
            began_s = self._clock()
            text = await write()
            await self._sleep(REST * (self._clock() - began_s))
            return text

    async def _send(self, client: Client, data: bytes) -> None:
        async with asyncio.timeout(WRITE_WITHIN_S):
            await client.write(data)


def digest(text: str) -> str:
    """Tells whether two pages are the same."""
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=9).hexdigest()


def event(text: str) -> bytes:
    """One message of a stream (HTML Living Standard, server-sent events)."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {EVENT}\n{lines}\n".encode(errors="replace")


# What the gate knows, and how fresh it is.


class Knowledge(NamedTuple):
    """What the gate says of itself. ``service`` fills it in."""

    version: str
    stale: str = ""
    """Why growth cannot rely on what is known; empty: it can."""
    notes: Sequence[str] = ()
    """As ``/readyz`` has them. They may name quotas."""
    quotas: int = 0
    workloads: int = 0
    pending: int = 0
    watches: Sequence[tuple[str, float]] = ()
    """Resources that are watched, and for how many seconds nothing came of them. Empty: all is read from files."""


class Shown(NamedTuple):
    version: str
    is_stale: bool
    lines: Sequence[str]


async def shown(known: Knowledge, rights: Rights) -> Shown:
    """What of it may be shown. Who may not see all quotas is told no names and no numbers of others."""
    is_all = await rights.visible(Scope.QUOTA, ()) is ALL
    return Shown(known.version, bool(known.stale), _lines(known) if is_all else _for_some(known))


def _for_some(known: Knowledge) -> list[str]:
    return ["What the gate knows is out of date, and growth may be refused." if known.stale else "All is known."]


def _lines(known: Knowledge) -> list[str]:
    counted = (
        rendering.count(known.quotas, "quota"),
        rendering.count(known.workloads, "object"),
        rendering.count(known.pending, "pending write"),
    )
    return [
        f"It knows {counted[0]} and {counted[1]}, and has {counted[2]}.",
        _freshness(known),
        *([f"Stale: {known.stale}."] if known.stale else []),
        *known.notes,
    ]


def _freshness(known: Knowledge) -> str:
    if not known.watches:
        return "It reads files, and reads them again when they change."
    resource, age_s = max(known.watches, key=lambda watch: watch[1])
    watched = rendering.count(len(known.watches), "resource")
    return f"It watches {watched}. The quietest, {resource}, was last heard of {rendering.lasting(age_s)} ago."
