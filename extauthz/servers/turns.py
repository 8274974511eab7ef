"""Lets in one at a time: sources take turns, and those of one source come in the order of asking."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Final


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
