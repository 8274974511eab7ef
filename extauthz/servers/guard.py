"""Bounds what a client can hold of a listener that strangers reach: connections, and the time that it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

from aiohttp import web
from aiohttp.typedefs import Handler

Factory: TypeAlias = Callable[[], web.RequestHandler]


@dataclass(frozen=True)
class Bounds:
    """What a listener's clients may have."""

    connections: int = 500
    """At a time. One more is closed at once."""
    asked_within_s: float = 10.0
    """From the TLS handshake to the end of the first request's headers."""
    taken_within_s: float = 30.0
    """For a client to take what it lets wait of its answers."""
    idle_s: float = 75.0
    """From an answer to the end of the next request's headers."""


class Guard:
    """Watches over the connections of one listener. What takes too long ends; nobody else is held up."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.open: set[asyncio.BaseProtocol] = set()
        """Those that a client holds."""
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}
        """Those that have not asked yet."""

    def runner(self, app: web.Application, shutdown_timeout: float) -> web.AppRunner:
        """To be bound. Before the router, it notes that a connection has asked."""
        app.middlewares.append(self._note)
        return _Runner(app, self, shutdown_timeout)

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.quit(request.protocol)
        return await handler(request)

    def enter(self, handler: asyncio.BaseProtocol, transport: asyncio.Transport) -> bool:
        """Whether there is room for one more."""
        if len(self.open) >= self.bounds.connections:
            return False
        self.open.add(handler)
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(self.bounds.asked_within_s, transport.abort)
        return True

    def quit(self, handler: asyncio.BaseProtocol) -> None:
        """It has asked, or is gone."""
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()


class _Runner(web.AppRunner):
    def __init__(self, app: web.Application, guard: Guard, shutdown_timeout: float) -> None:
        super().__init__(
            app,
            access_log=None,
            handle_signals=False,
            auto_decompress=False,
            keepalive_timeout=guard.bounds.idle_s,
            lingering_time=1.0,
            shutdown_timeout=shutdown_timeout,
        )
        self._guard = guard

    @property
    def server(self) -> Callable[[], asyncio.Protocol] | None:  # type: ignore[override]  # sites only call it
        made = super().server
        return None if made is None else lambda: _Watched(made(), self._guard)


class _Watched(asyncio.Protocol):
    """One connection: aiohttp's own handler, and a clock."""

    def __init__(self, inner: web.RequestHandler, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard
        self._transport: asyncio.Transport | None = None
        """``None``: not let in."""
        self._full: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        both = cast(asyncio.Transport, transport)  # that of uvloop is no instance of it
        if not self._guard.enter(self._inner, both):
            both.abort()
            return
        self._transport = both
        self._inner.connection_made(transport)

    def connection_lost(self, error: BaseException | None) -> None:
        if self._transport is None:
            return
        if self._full is not None:
            self._full.cancel()
        self._guard.quit(self._inner)
        self._guard.open.discard(self._inner)
        self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> None:
        if self._transport is not None:
            self._inner.eof_received()

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._inner.pause_writing()
            loop = asyncio.get_running_loop()
            self._full = loop.call_later(self._guard.bounds.taken_within_s, self._transport.abort)

    def resume_writing(self) -> None:
        if self._full is not None:
            self._full.cancel()
            self._full = None
            self._inner.resume_writing()
