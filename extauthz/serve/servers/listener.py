"""aiohttp behind ``rpc.accepting``: what counts a connection when it is accepted, and ends what takes too long."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from extauthz.serve.rpc.accepting import Accepted, Bounds, Listener

MOST_DESCRIPTORS: Final = 65_536
"""More are never asked for."""


def more_descriptors() -> None:
    """Let this process have as many as it may. The soft limit is for programs that use ``select``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


_LOG: Final = logging.getLogger("extauthz.http")


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Not what a client has sent that is no HTTP: strangers could fill a disk with tracebacks."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


_LOG.addFilter(_is_our_fault)


def runner(
    app: web.Application, bounds: Bounds, shutdown_timeout: float, *, ends_with_caller: bool = False
) -> web.AppRunner:
    """What a ``Site`` needs. Before the router, it is noted that a head has come.

    Args:
        ends_with_caller: a handler is cancelled when its caller has gone.
    """

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        with at_work(request):
            return await handler(request)

    app.middlewares.append(note)
    return web.AppRunner(
        app,
        access_log=None,
        logger=_LOG,
        handle_signals=False,
        auto_decompress=False,
        keepalive_timeout=bounds.idle_s,
        lingering_time=1.0,
        shutdown_timeout=shutdown_timeout,
        handler_cancellation=ends_with_caller,
    )


class Site(web.BaseSite):
    """A listener that aiohttp's runner stops."""

    def __init__(
        self,
        runner: web.AppRunner,
        sockets: Sequence[socket.socket],
        bounds: Bounds,
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner)
        assert runner.server is not None, "it is set up"
        server = runner.server
        self._listener = Listener(sockets, lambda accepted: server(), bounds, context)

    @property
    def name(self) -> str:
        """For errors of aiohttp's."""
        return str(self._listener.sockets)

    async def start(self) -> None:
        await super().start()
        self._server = cast(asyncio.AbstractServer, self._listener)  # of which aiohttp uses what is there
        self._listener.start()


@contextmanager
def at_work(request: web.Request) -> Iterator[None]:
    """A head has come. Inside, the gate works for it; afterwards it waits for the next request."""
    connection = _of(request)
    if connection is None:
        yield
        return
    connection.works()
    try:
        yield
    finally:
        connection.answered()


async def body(
    request: web.Request, most: int, within_s: float, arrived: Callable[[int], None] = lambda size: None
) -> bytes:
    """The body of a request. While it comes, the connection waits.

    Args:
        most: bytes.
        arrived: told of each piece that has come. It may raise.

    Raises:
        HTTPException: it is longer, or says so; it did not come in time; or it broke off.
    """
    connection = _of(request)
    if connection is not None and not request.content.is_eof():
        connection.waits()
    try:
        async with asyncio.timeout(within_s):
            return await _pieces(request, most, arrived)
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body took more than {within_s:g} s\n") from None
    except (ConnectionError, web.RequestPayloadError):
        raise web.HTTPBadRequest(text="the body broke off\n") from None
    finally:
        if connection is not None:
            connection.works()


async def _pieces(request: web.Request, most: int, arrived: Callable[[int], None]) -> bytes:
    found = bytearray()
    size = request.content_length or 0
    if size <= most:
        async for piece in request.content.iter_any():
            arrived(len(piece))
            found += piece
            size = len(found)
            if size > most:
                break
    if size > most:
        raise web.HTTPRequestEntityTooLarge(most, size, text=f"the body is longer than {most} bytes\n")
    return bytes(found)


def _of(request: web.Request) -> Accepted | None:
    """``None``: it is gone, or another server accepted it, as in a test."""
    found = request.transport.get_protocol() if request.transport is not None else None
    return found if isinstance(found, Accepted) else None
