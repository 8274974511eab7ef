"""Accepts connections of any protocol, counts them from then on, and ends what takes too long.

asyncio's own servers accept without a bound, and tell of a connection only after its TLS handshake. So this accepts
itself. Each connection either *waits* for its client (for a handshake, a head, a body, or the next request), or is at
work for it. Waiting ends at a time. Where there is no room for one more, one that waits leaves: of the same peer, if
that has its share, else of the peer that has most (``places``). So nobody is kept out by connections that do nothing,
neither a probe of ``/healthz`` nor an API server.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias, cast

from extauthz.serve.rpc.places import Place, Places

BACKLOG: Final = 128
"""Connections that the kernel keeps until they are accepted, as asyncio has it."""

AT_ONCE: Final = 32
"""Connections that are accepted before others have a turn."""

RESTS_S: Final = 0.1
"""How long nobody is accepted after the process had no descriptor left."""

SHARE: Final = 6
"""A listener takes at most one in so many of the descriptors that the process may have."""


@dataclass(frozen=True)
class Bounds:
    """What a listener's clients may have."""

    connections: int = 500
    """At a time, from when they are accepted."""
    each: int = 300
    """The same of one peer, by its address."""
    handshake_s: float = 5.0
    """For TLS."""
    head_s: float = 5.0
    """For a request's head, or HTTP/2's preface: from the handshake, or from its first byte."""
    taken_within_s: float = 30.0
    """For a client to take what it lets wait of its answers. Without a bound: CVE-2019-9517 (answers that are asked for
    and never read)."""
    idle_s: float = 75.0
    """From an answer to the next request, where who answers says so."""

    def within(self, descriptors: int) -> Self:
        """The same for a process that may have so many descriptors."""
        if descriptors == resource.RLIM_INFINITY:
            return self
        connections = min(self.connections, descriptors // SHARE)
        return replace(self, connections=connections, each=min(self.each, connections))


Factory: TypeAlias = Callable[["Accepted"], asyncio.Protocol]
"""Makes the handler of a connection that has been accepted, and has had its handshake."""


class Listener:
    """Accepts connections of bound sockets, and knows all of them.

    Args:
        make: the handler of one connection.
        context: of TLS; ``None``: plain.
    """

    def __init__(
        self, sockets: Sequence[socket.socket], make: Factory, bounds: Bounds, context: ssl.SSLContext | None
    ) -> None:
        self.sockets = sockets
        self.make = make
        self.bounds = bounds.within(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.context = context
        is_unix = any(one.family == socket.AF_UNIX for one in sockets)  # where all have the same address
        self.places = Places(self.bounds.connections, None if is_unix else self.bounds.each)
        self._connections: set[Accepted] = set()
        self._opening: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for one in self.sockets:
            one.setblocking(False)
            one.listen(BACKLOG)
            self._listen(one)

    def close(self) -> None:
        """Accept no more. Connections in a handshake end; others are their handlers'. Told twice, it is the same."""
        for one in self.sockets:
            if one.fileno() >= 0:
                asyncio.get_running_loop().remove_reader(one)
                one.close()
        for connection in list(self._connections):
            if connection.is_opening:
                connection.give_up()

    def left(self, connection: Accepted) -> None:
        """It holds nothing any more. Told twice, it is the same."""
        self._connections.discard(connection)
        self.places.leave(connection)

    def _listen(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(RESTS_S, self._listen, listening)
                return
            self._take(accepted, address[0] if isinstance(address, tuple) else "")

    def _take(self, accepted: socket.socket, address: str) -> None:
        connection = Accepted(self, address, accepted)
        if not self.places.enter(connection):
            accepted.close()
            return
        accepted.setblocking(False)
        self._connections.add(connection)
        task = asyncio.create_task(connection.open())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)


class Accepted(asyncio.Protocol, Place):
    """One connection: the handler of its protocol, and a clock."""

    def __init__(self, listener: Listener, peer: str, accepted: socket.socket) -> None:
        Place.__init__(self, peer)
        self._listener = listener
        self._socket = accepted
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._ends: asyncio.TimerHandle | None = None
        self._full: asyncio.TimerHandle | None = None
        self._is_idle = False
        """Nothing of the next head has come."""

    @property
    def is_opening(self) -> bool:
        return self._transport is None

    async def open(self) -> None:
        """The handshake, if there is TLS. Whatever fails there, the connection is gone."""
        bounds, context = self._listener.bounds, self._listener.context
        loop = asyncio.get_running_loop()
        try:
            if context is None:
                await loop.connect_accepted_socket(lambda: self, self._socket)
            else:
                await loop.connect_accepted_socket(
                    lambda: self,
                    self._socket,
                    ssl=context,
                    ssl_handshake_timeout=bounds.handshake_s,
                    ssl_shutdown_timeout=bounds.taken_within_s,
                )
        except (OSError, TimeoutError):
            self._socket.close()
        finally:
            if self._transport is None:
                self._listener.left(self)

    def give_up(self) -> None:
        """End it at once."""
        self._listener.left(self)
        if self._transport is not None:
            self._transport.abort()
            return
        with suppress(OSError):  # it is gone already
            self._socket.shutdown(socket.SHUT_RDWR)

    def waits(self, within_s: float | None = None) -> None:
        """For its client, so long at most. Without a time, who calls ends it, or it leaves where there is no room."""
        if self._listener.places.waits(self) and within_s is not None:
            self._end_in(within_s)

    def works(self) -> None:
        """Until it is told otherwise."""
        self._listener.places.works(self)
        self._is_idle = False
        if self._ends is not None:
            self._ends.cancel()

    def answered(self) -> None:
        """The next request may come."""
        self._is_idle = True
        self.waits(self._listener.bounds.idle_s)

    def leaves(self) -> None:
        """Nothing is said any more once its client has taken what waits for it."""
        self._end_in(self._listener.bounds.taken_within_s)

    def _end_in(self, within_s: float) -> None:
        if self._ends is not None:
            self._ends.cancel()
        self._ends = asyncio.get_running_loop().call_later(within_s, self.give_up)

    # What a transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop is no instance of it
        self._inner = self._listener.make(self)
        self.waits(self._listener.bounds.head_s)
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._ends, self._full):
            if timer is not None:
                timer.cancel()
        self._listener.left(self)
        inner, self._inner = self._inner, None  # which may know this one: no circle is left
        if inner is not None:
            inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        assert self._inner is not None
        if self._is_idle:
            self._is_idle = False
            self._end_in(self._listener.bounds.head_s)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        assert self._inner is not None
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        assert self._inner is not None
        self._inner.pause_writing()
        self._full = asyncio.get_running_loop().call_later(self._listener.bounds.taken_within_s, self.give_up)

    def resume_writing(self) -> None:
        assert self._inner is not None
        if self._full is not None:
            self._full.cancel()
            self._full = None
        self._inner.resume_writing()
