"""The server: it takes connections, and ends them so that no answer is lost."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable

from extauthz.rpc import accepting
from extauthz.rpc.accepting import Accepted, Listener
from extauthz.rpc.bounds import Bounds
from extauthz.rpc.link import Link
from extauthz.rpc.methods import Methods

ACCEPTED = accepting.Bounds(connections=1_024, each=512)
"""An Envoy needs one for each of its workers. Without a bound of each, one peer could take all."""


class Server:
    """A gRPC server.

    Args:
        methods: what is served, by path.
        sockets: where, TCP or unix; bound. ``stop`` closes them.
        tls: offers ``link.ALPN``; for plain text ``None``.
        bounds: what the calls of a client may cost.
        accepted: how many connections there may be, and how long each may be silent.
    """

    def __init__(
        self,
        methods: Methods,
        sockets: Iterable[socket.socket],
        tls: ssl.SSLContext | None = None,
        bounds: Bounds | None = None,
        accepted: accepting.Bounds = ACCEPTED,
    ) -> None:
        self._methods = dict(methods)
        self._bounds = bounds or Bounds()
        self._links: set[Link] = set()
        self._listener = Listener(list(sockets), self._link, accepted, tls)
        self._is_leaving = False
        self._empty = asyncio.Event()

    async def start(self) -> None:
        """Take connections."""
        self._listener.start()

    async def stop(self, grace_s: float) -> None:
        """Take no more connections and calls, and end when all calls are answered; at the latest after ``grace_s``."""
        self._is_leaving = True
        self._listener.close()
        for link in list(self._links):
            link.leave()
        if self._links:
            try:
                await asyncio.wait_for(self._empty.wait(), grace_s)
            except TimeoutError:
                for link in list(self._links):
                    link.abort()
                await self._empty.wait()

    def _link(self, accepted: Accepted) -> Link:
        return Link(self._methods, self._bounds, self, accepted)

    def enter(self, link: Link) -> bool:
        """See ``link.Owner``."""
        if self._is_leaving:
            return False
        self._links.add(link)
        return True

    def quit(self, link: Link) -> None:
        """See ``link.Owner``."""
        self._links.discard(link)
        if self._is_leaving and not self._links:
            self._empty.set()
