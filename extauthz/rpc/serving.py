"""The listener: it takes connections, bounds their number, and ends them so that no answer is lost."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable

from extauthz.rpc.bounds import Bounds
from extauthz.rpc.link import Link
from extauthz.rpc.methods import Methods

HANDSHAKE_S = 10.0


class Server:
    """A gRPC server.

    Args:
        methods: what is served, by path.
        sockets: where, TCP or unix; bound. ``stop`` closes them.
        tls: offers ``link.ALPN``; for plain text ``None``.
        bounds: what clients may cost.
    """

    def __init__(
        self,
        methods: Methods,
        sockets: Iterable[socket.socket],
        tls: ssl.SSLContext | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._methods = dict(methods)
        self._sockets = list(sockets)
        self._tls = tls
        self._bounds = bounds or Bounds()
        self._links: set[Link] = set()
        self._listeners: list[asyncio.Server] = []
        self._is_leaving = False
        self._empty = asyncio.Event()

    async def start(self) -> None:
        """Take connections."""
        loop = asyncio.get_running_loop()
        handshake_s = None if self._tls is None else HANDSHAKE_S
        for one in self._sockets:
            listen = loop.create_unix_server if one.family == socket.AF_UNIX else loop.create_server
            made = await listen(self._link, sock=one, ssl=self._tls, ssl_handshake_timeout=handshake_s)
            self._listeners.append(made)

    async def stop(self, grace_s: float) -> None:
        """Take no more connections and calls, and end when all calls are answered; at the latest after ``grace_s``."""
        self._is_leaving = True
        for listener in self._listeners:
            listener.close()
        for link in list(self._links):
            link.leave()
        if self._links:
            try:
                await asyncio.wait_for(self._empty.wait(), grace_s)
            except TimeoutError:
                for link in list(self._links):
                    link.abort()
                await self._empty.wait()

    def _link(self) -> Link:
        return Link(self._methods, self._bounds, self)

    def enter(self, link: Link) -> bool:
        """See ``link.Owner``."""
        if self._is_leaving or len(self._links) >= self._bounds.connections:
            return False
        self._links.add(link)
        return True

    def quit(self, link: Link) -> None:
        """See ``link.Owner``."""
        self._links.discard(link)
        if self._is_leaving and not self._links:
            self._empty.set()
