"""Bounds what all bodies of a server take together: each byte counts when it has arrived, whatever was announced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from aiohttp import web

from extauthz.serve.rpc.places import FullError, Place, Places, Turns
from extauthz.serve.servers.api.rights import Problem


class Bodies:
    """Those that are received or read.

    Args:
        together: bytes.
    """

    def __init__(self, together: int) -> None:
        self._places = Places(together)

    @contextmanager
    def charged(self, request: web.Request) -> Iterator[Callable[[int], None]]:
        """Gives what is to be told of each piece, in bytes. They count until the block ends.

        Where there are too many, a body that is still coming of the peer that holds most is given up. What is told of
        the pieces raises HTTPServiceUnavailable if that is this one.
        """
        mine = _Body(request)

        def arrived(size: int) -> None:
            if not self._places.resize(mine, mine.size + size):
                raise web.HTTPServiceUnavailable(text="too many bodies are being read; try again in a second\n")
            if request.content.is_eof():
                self._places.works(mine)

        self._places.enter(mine)
        try:
            yield arrived
        finally:
            self._places.leave(mine)


class _Body(Place):
    """One, and whose it is."""

    def __init__(self, request: web.Request) -> None:
        super().__init__(request.remote or "", 0)
        self._request = request

    def give_up(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()


# The part of the loop that questions may take. Decisions come first.

Result = TypeVar("Result")

REST: Final = 9
"""Times as long as one turn took, all others wait: questions take a tenth of the loop at most."""

MOST: Final = 64
"""Questions that wait. All that is asked from this host is one person's."""


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
        self._turns = Turns(MOST)

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
