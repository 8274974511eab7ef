"""Bounds what all bodies of a server take together: each byte counts when it has arrived, whatever was announced."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from aiohttp import web

from extauthz.serve.servers.api.rights import Problem


class Bodies:
    """Those that are received or read.

    Args:
        together: bytes.
    """

    def __init__(self, together: int) -> None:
        self._together = together
        self._held: set[_Body] = set()
        self._size = 0

    @contextmanager
    def charged(self, request: web.Request) -> Iterator[Callable[[int], None]]:
        """Gives what is to be told of each piece, in bytes. They count until the block ends.

        Where there are too many, a body of the peer that holds most is given up. What is told of the pieces raises
        HTTPServiceUnavailable if that peer is the own one.
        """
        mine = _Body(request)
        self._held.add(mine)
        try:
            yield lambda size: self._arrived(mine, size)
        finally:
            self._free(mine)

    def _arrived(self, mine: _Body, size: int) -> None:
        mine.size += size
        self._size += size
        while self._size > self._together:
            largest = self._largest()
            if largest is None or largest.peer == mine.peer:
                raise web.HTTPServiceUnavailable(text="too many bodies are being read; try again in a second\n")
            self._free(largest)
            largest.give_up()

    def _largest(self) -> _Body | None:
        """Of the peer that holds most, the largest that has not come whole. ``None``: all of its have."""
        peers = Counter[str]()
        for one in self._held:
            peers[one.peer] += one.size
        (peer, _), *_ = peers.most_common(1)
        coming = [one for one in self._held if one.peer == peer and one.is_coming()]
        return max(coming, key=lambda one: one.size, default=None)

    def _free(self, body: _Body) -> None:
        if body in self._held:
            self._held.remove(body)
            self._size -= body.size


class _Body:
    """One, and whose it is."""

    def __init__(self, request: web.Request) -> None:
        self.peer = request.remote or ""
        self.size = 0
        self._request = request

    def is_coming(self) -> bool:
        """Something of it is still to come."""
        return not self._request.content.is_eof()

    def give_up(self) -> None:
        """End its connection."""
        if self._request.transport is not None:
            self._request.transport.abort()


# Lets in one at a time: sources take turns, and those of one source come in the order of asking.


class FullError(Exception):
    """Enough are waiting: in all, or of this source."""


class Turns:
    """One queue for each source.

    Args:
        most: how many may wait in all.
        most_each: how many of one source may wait.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most: Final = most
        self._most_each: Final = most_each
        self._taken = False
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """By source; the first one is next. None is empty."""

    async def enter(self, source: Hashable) -> None:
        """Returns when this source has its turn, which ends with ``leave``.

        Raises:
            FullError: at once.
        """
        if not self._taken:
            self._taken = True
            return
        queue = self._waiting.get(source, ())
        if len(queue) >= self._most_each or sum(map(len, self._waiting.values())) >= self._most:
            raise FullError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(source, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(source, turn)
            else:  # it was let in, and leaves in the same moment
                self.leave()
            raise

    def _forget(self, source: Hashable, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(source)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[source]

    def leave(self) -> None:
        """End a turn: the next source has one."""
        while self._waiting:
            source, queue = next(iter(self._waiting.items()))
            del self._waiting[source]
            turn = queue.popleft()
            if queue:
                self._waiting[source] = queue  # behind all others
            if not turn.done():  # whoever waited may be leaving
                turn.set_result(None)
                return
        self._taken = False


# The part of the loop that questions may take. Decisions come first.

Result = TypeVar("Result")

REST: Final = 9
"""Times as long as one turn took, all others wait: questions take a tenth of the loop at most."""

MOST: Final = 64
"""Questions that wait, in all."""

MOST_EACH: Final = 32
"""Questions of one person that wait. All that is asked from this host is one person's."""


class Share:
    """Lets questions have the loop, one after the other, each person in turn, with a rest after each turn.

    Args:
        clock: seconds of the processor.
        later: calls something after so many seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.thread_time,
        later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self._clock = clock
        self._later = later
        self._turns = Turns(MOST, MOST_EACH)

    async def of(self, person: str | None, work: Callable[[], Result]) -> Result:
        """What comes of the work, once it is this person's turn.

        Args:
            person: ``None``: whoever is on this host.

        Raises:
            Problem: too many wait; and what the work raises.
        """
        try:
            await self._turns.enter(person)
        except FullError:
            raise Problem(503, "too many questions wait; ask again in a moment") from None
        began_s = self._clock()
        try:
            return work()
        finally:
            later = self._later or asyncio.get_running_loop().call_later
            later(REST * (self._clock() - began_s), self._turns.leave)
