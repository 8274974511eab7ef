"""Who gives up a place where there are too few, and who is next: one rule for all queues and budgets of the servers.

A peer is an address, or a person. It holds places, each of a size: 1 in a queue, bytes in a budget. **Where all are
taken, the peer that has most gives up one**: its largest that may be given up, of equal ones the one that has waited
longest. So one who asks much takes from himself, however often he comes, and nobody keeps another out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar


class Place:
    """One.

    Args:
        peer: whose it is.
        size: what it holds.
    """

    def __init__(self, peer: Hashable, size: int = 1) -> None:
        self.peer = peer
        self.size = size

    def give_up(self) -> None:
        """Called once, where another needs the room. It holds nothing any more then."""
        raise NotImplementedError


class Places:
    """All that are taken.

    Args:
        most: what all may hold together.
        each: what one peer may; ``None``: all, as long as nobody else comes.
    """

    def __init__(self, most: int, each: int | None = None) -> None:
        self._most: Final = most
        self._each: Final = most if each is None else each
        self._size = 0
        self._peers: dict[Hashable, _Peer] = {}

    def enter(self, place: Place) -> bool:
        """Take one more, which may be given up from now on. False: there is no room, and nobody gives any."""
        peer = self._peers.setdefault(place.peer, _Peer())
        peer.places.add(place)
        peer.waiting[place] = None
        self._add(peer, place.size)
        return self._within(place)

    def resize(self, place: Place, size: int) -> bool:
        """It holds so much now. False: that is too much, and it has left."""
        peer = self._peers.get(place.peer)
        if peer is None or place not in peer.places:
            return False
        self._add(peer, size - place.size)
        place.size = size
        return self._within(place)

    def leave(self, place: Place) -> None:
        """It holds nothing any more. Told twice, it is the same."""
        peer = self._peers.get(place.peer)
        if peer is None or place not in peer.places:
            return
        peer.places.discard(place)
        peer.waiting.pop(place, None)
        self._add(peer, -place.size)
        if not peer.places:
            del self._peers[place.peer]

    def waits(self, place: Place) -> bool:
        """It may be given up, as the last that began to wait unless it waits already. False: it has left."""
        peer = self._peers.get(place.peer)
        if peer is None or place not in peer.places:
            return False
        peer.waiting[place] = None
        return True

    def works(self, place: Place) -> None:
        """It may not."""
        peer = self._peers.get(place.peer)
        if peer is not None:
            peer.waiting.pop(place, None)

    def _add(self, peer: _Peer, size: int) -> None:
        peer.size += size
        self._size += size

    def _within(self, place: Place) -> bool:
        """Whether all hold no more than they may with this one in it; others leave, if need be, or it does itself."""
        while (peer := self._too_large(place)) is not None:
            leaving = peer.largest(place)
            if leaving is None:
                self.leave(place)
                return False
            self.leave(leaving)
            if leaving is place:
                return False
            leaving.give_up()
        return True

    def _too_large(self, place: Place) -> _Peer | None:
        """The peer that must give up something; ``None``: nobody."""
        own = self._peers[place.peer]
        if own.size > self._each:
            return own
        if self._size <= self._most:
            return None
        others = (peer for peer in self._peers.values() if peer is not own and peer.waiting)
        largest = max(others, key=lambda peer: peer.size, default=own)
        return largest if largest.size >= own.size else own


class _Peer:
    """What one has."""

    __slots__ = ("places", "size", "waiting")

    def __init__(self) -> None:
        self.places: set[Place] = set()
        self.waiting: dict[Place, None] = {}
        """Those that may be given up, in the order in which they began to wait."""
        self.size = 0

    def largest(self, last: Place) -> Place | None:
        """Of those that may be given up; ``last`` only if no other is as large."""
        others = (place for place in self.waiting if place is not last)
        found = max(others, key=lambda place: place.size, default=None)
        return last if last in self.waiting and (found is None or last.size > found.size) else found


Item = TypeVar("Item")


class Line(Generic[Item]):
    """What waits, peer by peer: they take turns, and those of one come in the order of asking."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Item]] = {}
        """The first one is next. None is empty."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, peer: Hashable, item: Item) -> None:
        """Stand at the end of one's own."""
        self._waiting.setdefault(peer, deque()).append(item)

    def next(self) -> Item:
        """Take the first of the next peer, which then stands behind all others."""
        peer = next(iter(self._waiting))
        queue = self._waiting.pop(peer)
        item = queue.popleft()
        if queue:
            self._waiting[peer] = queue
        return item

    def forget(self, peer: Hashable, item: Item) -> None:
        """It does not wait any more."""
        queue = self._waiting.get(peer)
        if queue is not None and item in queue:
            queue.remove(item)
            if not queue:
                del self._waiting[peer]


class FullError(Exception):
    """Enough are waiting, and most of them are this peer's."""


class _Turn(Place):
    """One that waits for it."""

    def __init__(self, peer: Hashable) -> None:
        super().__init__(peer)
        self.come: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def give_up(self) -> None:
        if not self.come.done():
            self.come.set_exception(FullError())


class Turns:
    """Lets in some at a time. All others wait: peers take turns, and there are no more than so many ``Places``.

    Args:
        most: how many may wait.
        at_once: how many are let in.
    """

    def __init__(self, most: int, at_once: int = 1) -> None:
        self._places = Places(most)
        self._free = at_once
        self._line: Line[_Turn] = Line()

    async def enter(self, peer: Hashable) -> None:
        """Returns when this peer has a turn, which ends with ``leave``.

        Raises:
            FullError: at once, or while it waits: its place was given up.
        """
        if self._free:
            self._free -= 1
            return
        turn = _Turn(peer)
        if not self._places.enter(turn):
            raise FullError
        self._line.put(peer, turn)
        try:
            await turn.come
        except asyncio.CancelledError:
            if not turn.come.cancelled() and turn.come.exception() is None:
                self.leave()  # it was let in, and leaves in the same moment
            raise
        finally:
            self._line.forget(peer, turn)
            self._places.leave(turn)

    def leave(self) -> None:
        """End a turn: the next peer has one."""
        while self._line:
            turn = self._line.next()
            if not turn.come.done():  # whoever waited may be leaving
                turn.come.set_result(None)
                return
        self._free += 1
