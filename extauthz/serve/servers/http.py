"""The operators' server: /healthz, /readyz and /metrics over plain HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from extauthz.serve.rpc.heads import Call, Code, Methods, StatusError, Streaming, Unary
from extauthz.serve.servers import ext_authz


class Readiness(NamedTuple):
    """Whether checks should be sent here, and why not. ``notes`` are worth knowing and do not count against it."""

    reasons: Sequence[str]
    """What stands in the way; empty: ready."""
    notes: Sequence[str] = ()


Ready: TypeAlias = Callable[[], Readiness]
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0"

Scrape: TypeAlias = Callable[[str], Awaitable[tuple[bytes, str]]]
"""The value of ``accept`` → the exposition and its content type."""


EVERY_S: Final = 1.0
"""A copy of 800 quotas takes 120 ms, and shares the interpreter with decisions."""


class Copies:
    """Makes one copy a second. Whoever asks meanwhile waits for the next, all for the same one, so that nobody reads
    numbers that are older than his question."""

    def __init__(self, scrape: Scrape, every_s: float = EVERY_S) -> None:
        self._scrape = scrape
        self._every_s = every_s
        self._made_s: float | None = None
        self._next: dict[str, asyncio.Task[tuple[bytes, str]]] = {}
        """By format."""
        self._turn = asyncio.Lock()

    async def next(self, accept: str) -> tuple[bytes, str]:
        """In the format that ``accept`` asks for: OpenMetrics, or that of Prometheus."""
        form = OPEN_METRICS if OPEN_METRICS.partition(";")[0] in accept else ""
        if form not in self._next:
            self._next[form] = asyncio.create_task(self._make(form))
        return await asyncio.shield(self._next[form])  # whoever leaves must not take it from the others

    async def _make(self, form: str) -> tuple[bytes, str]:
        loop = asyncio.get_running_loop()
        async with self._turn:
            if self._made_s is not None:
                await asyncio.sleep(self._made_s + self._every_s - loop.time())
            self._made_s = loop.time()
            del self._next[form]
            return await self._scrape(form)


def application(ready: Ready, scrape: Scrape, names: Collection[str] = ()) -> web.Application:
    """The three pages. None of them shows more than names of quotas and amounts; bind them to an operators' network.

    Args:
        names: under which it may be asked, besides addresses, ``localhost`` and the name of this host.
    """

    copies = Copies(scrape)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def readyz(_: web.Request) -> web.Response:
        reasons, notes = ready()
        lines = [f"not ready: {reason}" for reason in reasons] or ["ready"]
        lines += [f"note: {note}" for note in notes]
        return web.Response(text="".join(f"{line}\n" for line in lines), status=503 if reasons else 200)

    async def metrics(request: web.Request) -> web.Response:
        body, content_type = await copies.next(request.headers.get("accept", ""))
        return web.Response(body=body, headers={"content-type": content_type})

    app = web.Application(middlewares=[_named({"localhost", socket.gethostname().lower(), *names})])
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app


def _named(names: Collection[str]) -> Middleware:
    """Lets nobody ask under a name of their own: a page in somebody's browser could, whose name leads here (DNS
    rebinding). A client that names no host is no browser."""

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Host")
        if given is not None and not _is_one_of(given, names):
            raise web.HTTPMisdirectedRequest(
                text=f"{given[:100]!a} is no name of this server; ask by address, or set http-names\n"
            )
        return await handler(request)

    return checked


def _is_one_of(given: str, names: Collection[str]) -> bool:
    try:
        host = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return False
    try:
        ip_address(host)
    except ValueError:
        return host.removesuffix(".") in names
    return True


# Standard gRPC health (https://github.com/grpc/grpc/blob/master/doc/health-checking.md).

SERVICE = "grpc.health.v1.Health"


class Health:
    """Of the server as a whole and of ext_authz: serving from the start until ``leave``."""

    _NAMES = ("", ext_authz.SERVICE)

    def __init__(self) -> None:
        self._left = asyncio.Event()

    def leave(self) -> None:
        """Say NOT_SERVING for good: to those who ask, and to those who watch, whose streams then end."""
        self._left.set()

    def methods(self) -> Methods:
        return {f"/{SERVICE}/Check": Unary(self._check), f"/{SERVICE}/Watch": Streaming(self._watch)}

    def _check(self, raw: bytes, _: float | None) -> bytes:
        service = _asked(raw)
        if service not in self._NAMES:
            raise StatusError(Code.NOT_FOUND, f"{service}: nobody asks the health of that here")
        return self._now(service)

    async def _watch(self, call: Call) -> None:
        service = _asked(await call.read() or b"")
        if not self._left.is_set():
            await call.write(self._now(service))
            await self._left.wait()
        await call.write(self._now(service))

    def _now(self, service: str) -> bytes:
        status = HealthCheckResponse.NOT_SERVING if self._left.is_set() else HealthCheckResponse.SERVING
        if service not in self._NAMES:
            status = HealthCheckResponse.SERVICE_UNKNOWN
        response: bytes = HealthCheckResponse(status=status).SerializeToString()
        return response


def _asked(raw: bytes) -> str:
    """The name of the service that is asked for."""
    try:
        service: str = HealthCheckRequest.FromString(raw).service
    except DecodeError:
        raise StatusError(Code.INTERNAL, "this is no HealthCheckRequest") from None
    return service
