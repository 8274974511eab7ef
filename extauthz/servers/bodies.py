"""Bounds what all bodies of a server take together: each byte counts when it has arrived, whatever was announced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web


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
