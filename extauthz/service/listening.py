"""Binds the servers to their addresses: TCP or unix socket, plain or TLS, and health and reflection beside them."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from pathlib import Path
from typing import Any, Final

import grpc
from aiohttp import web
from grpc_health.v1 import health, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha import reflection

from extauthz.servers import access_log, ext_authz, ext_proc, listener, webhook
from extauthz.servers.listener import Bounds
from extauthz.service.addresses import Address, parse
from extauthz.service.settings import Settings

SERVICES = (ext_authz.SERVICE, ext_proc.SERVICE, access_log.SERVICE, health.SERVICE_NAME)

SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", ext_authz.MAX_MESSAGE_BYTES),
    # Two gates on one port would each see half of the writes, and grant twice what is there.
    ("grpc.so_reuseport", 0),
    # Envoy pings a silent connection to learn whether the gate is still there. gRPC's own limit, a ping in five
    # minutes, would have the server end the connection at the fourth, whatever is asked on it.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
)


API_BOUNDS = Bounds()

HTTP_BOUNDS = Bounds(connections=200, each=100)
"""64 live pages, probes, scrapes, and people."""

STOPS_S: Final = 1.0
"""How long a stop waits for answers to people."""

NO_FAMILY: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
"""What a kernel without IPv6 says."""


class ListenError(Exception):
    """an address cannot be listened on. The text names the flag, what is wrong and the cure."""


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # grpcio ships no types
    """Standard gRPC health, of the server as a whole and of ext_authz: serving from the start until ``leave``.

    The servicer of grpcio-health-checking keeps its watchers' streams open, and these hold up a stop.
    """

    _NAMES = ("", ext_authz.SERVICE)

    def __init__(self) -> None:
        self._left = asyncio.Event()

    def leave(self) -> None:
        """Say NOT_SERVING for good: to those who ask, and to those who watch, whose streams then end."""
        self._left.set()

    async def Check(  # noqa: N802 (the protocol's name; so is the next)
        self, request: HealthCheckRequest, context: grpc.aio.ServicerContext
    ) -> HealthCheckResponse:
        if request.service not in self._NAMES:
            await context.abort(grpc.StatusCode.NOT_FOUND)
        return self._now(request)

    async def Watch(self, request: HealthCheckRequest, context: grpc.aio.ServicerContext) -> None:  # noqa: N802
        if not self._left.is_set():
            await context.write(self._now(request))
            await self._left.wait()
        await context.write(self._now(request))

    def _now(self, request: HealthCheckRequest) -> HealthCheckResponse:
        if request.service not in self._NAMES:
            return HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        return HealthCheckResponse(
            status=HealthCheckResponse.NOT_SERVING if self._left.is_set() else HealthCheckResponse.SERVING
        )


def grpc_server(
    checks: ext_authz.Checks,
    processor: ext_proc.Processor,
    access_logs: access_log.AccessLogs,
    health_service: Health,
    settings: Settings,
) -> grpc.aio.Server:
    """The server with its services, not bound yet."""
    handlers = (checks.handler(), processor.handler(), access_logs.handler())
    server = grpc.aio.server(handlers=handlers, options=SERVER_OPTIONS)
    health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
    if settings.reflection:
        reflection.enable_server_reflection((*SERVICES, reflection.SERVICE_NAME), server)
    return server


def bind_grpc(server: grpc.aio.Server, settings: Settings, credentials: grpc.ServerCredentials | None) -> Address:
    """Bind the ext_authz server, plain without credentials; the address with the port that was really taken.

    Raises:
        ListenError: the address is taken or not ours.
    """
    address = parse(settings.grpc)
    if address.path is not None:
        check_socket("--grpc", Path(address.path))
    try:
        if credentials is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), credentials)
    except RuntimeError:
        raise ListenError(_why_not("--grpc", address)) from None
    _open_to_group(address, settings)
    return address.with_port(port)


async def bind_http(
    app: web.Application, settings: Settings, bounds: Bounds = HTTP_BOUNDS
) -> tuple[web.AppRunner, Address]:
    """Start the operators' server; the runner (to be cleaned up) and the address that was really taken.

    Raises:
        ListenError: the address is taken or not ours.
    """
    runner = listener.runner(app, bounds, shutdown_timeout=STOPS_S)
    return await _bind(runner, "--http", settings.http, settings, bounds)


async def bind_webhook(
    app: web.Application, settings: Settings, context: ssl.SSLContext, bounds: Bounds = webhook.BOUNDS
) -> tuple[web.AppRunner, Address]:
    """The same for the admission webhook, over TLS. Bodies are taken as they come, and never inflated.

    Raises:
        ListenError: the address is taken or not ours.
    """
    assert settings.webhook is not None
    runner = listener.runner(app, bounds, shutdown_timeout=settings.grace_s)
    return await _bind(runner, "--webhook", settings.webhook, settings, bounds, context)


async def bind_api(
    app: web.Application, settings: Settings, context: ssl.SSLContext, bounds: Bounds = API_BOUNDS
) -> tuple[web.AppRunner, Address]:
    """The same for the HTTP API that others may ask, over TLS.

    Raises:
        ListenError: the address is taken or not ours.
    """
    assert settings.api is not None
    runner = listener.runner(app, bounds, shutdown_timeout=STOPS_S)
    return await _bind(runner, "--api", settings.api, settings, bounds, context)


async def _bind(
    runner: web.AppRunner,
    flag: str,
    text: str,
    settings: Settings,
    bounds: Bounds,
    context: ssl.SSLContext | None = None,
) -> tuple[web.AppRunner, Address]:
    address = parse(text)
    await runner.setup()
    try:
        sockets = _sockets(flag, address)
        await listener.Site(runner, sockets, bounds, context).start()
    except OSError as error:
        await runner.cleanup()
        raise ListenError(f"{flag} {address}: {error.strerror}; {_CURE}") from None
    _open_to_group(address, settings)
    return runner, address if address.path is not None else address.with_port(runner.addresses[0][1])


def _sockets(flag: str, address: Address) -> list[socket.socket]:
    """Bound ones. Raises OSError and ListenError."""
    if address.path is not None:
        check_socket(flag, Path(address.path))
        Path(address.path).unlink(missing_ok=True)
        return [_bound(socket.AF_UNIX, address.path)]
    # "::" is IPv6 alone to a socket; without a host there is one for each family.
    host = None if address.host == "::" else address.host
    found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    missing: list[OSError] = []
    for family, where in dict.fromkeys((family, where) for family, _, _, _, where in found):
        try:
            bound.append(_bound(family, where))
        except OSError as error:
            missing.append(error)
    if missing and not (bound and all(one.errno in NO_FAMILY for one in missing)):
        for one in bound:
            one.close()
        raise missing[0]
    return bound


def _bound(family: int, where: Any) -> socket.socket:  # noqa: ANN401 (an address of this family)
    made = socket.socket(family)
    try:
        if family != socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)
    except OSError:
        made.close()
        raise
    return made


_CURE = "end the process that listens there, or choose another address"


def check_socket(flag: str, path: Path) -> None:
    """Check that no socket and no other file is in the way. gRPC and uvloop would remove either without asking. A
    socket that a killed gate has left behind is taken over.

    What a killed gate has left behind they take over by themselves.

    Raises:
        ListenError: somebody listens there, or it is not a socket, or its directory is not there.
    """
    if not path.parent.is_dir():
        raise ListenError(f"{flag} unix:{path}: there is no directory {path.parent}; create it")
    if not path.exists():
        return
    if not path.is_socket():
        raise ListenError(f"{flag} unix:{path}: a file that is not a socket is in the way; remove it")
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise ListenError(f"{flag} unix:{path}: somebody listens there; {_CURE}")


def _open_to_group(address: Address, settings: Settings) -> None:
    if address.path is not None:
        Path(address.path).chmod(int(settings.socket_mode, 8))


def _why_not(flag: str, address: Address) -> str:
    """gRPC says only that it could not bind; trying the same by hand tells why."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    kind = (socket.AF_UNIX, address.path) if address.path is not None else (family, (address.host, address.port))
    try:
        with socket.socket(kind[0]) as probe:
            probe.bind(kind[1])
    except OSError as error:
        return f"{flag} {address}: {error.strerror}; {_CURE}"
    return f"{flag} {address}: cannot listen there; {_CURE}"
