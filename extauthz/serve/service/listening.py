"""Binds the servers to their addresses: TCP or unix socket, plain or TLS, and health and reflection beside them."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path
from typing import Final

from aiohttp import web

from extauthz.serve.rpc.accepting import Bounds
from extauthz.serve.rpc.frames import Bounds as RpcBounds
from extauthz.serve.rpc.heads import Methods
from extauthz.serve.rpc.link import Server
from extauthz.serve.servers import ext_authz, listener, webhook
from extauthz.serve.service.setting_types import Address, parse
from extauthz.serve.service.settings import Settings

API_BOUNDS = Bounds()

HTTP_BOUNDS = Bounds(connections=200, each=100)
"""64 live pages, probes, scrapes, and people."""

SOCKET_MODE: Final = 0o660
"""Of a unix socket: only processes of the same group can connect, as Envoy in another container."""

STOPS_S: Final = 1.0
"""How long a stop waits for answers to people."""


class ListenError(Exception):
    """an address cannot be listened on. The text names the flag, what is wrong and the cure."""


def grpc_server(methods: Methods, settings: Settings, context: ssl.SSLContext | None) -> tuple[Server, Address]:
    """The server with these methods, bound but not started; and the address with the port that was really taken.

    Raises:
        ListenError: the address is taken or not ours.
    """
    sockets, address = _bind_grpc(settings)
    return Server(methods, sockets, context, RpcBounds(message_bytes=ext_authz.MAX_MESSAGE_BYTES)), address


def _bind_grpc(settings: Settings) -> tuple[list[socket.socket], Address]:
    address = parse(settings.grpc)
    try:
        if address.path is not None:
            sockets, port = [_bind_unix("--grpc", Path(address.path))], 0
            _open_to_group(address)
        else:
            sockets = _bind_tcp(address)
            port = sockets[0].getsockname()[1]
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error.strerror  # without what Python adds to it
        raise ListenError(f"--grpc {address}: {reason}; {_CURE}") from None
    return sockets, address.with_port(port)


def _bind_unix(flag: str, path: Path) -> socket.socket:
    """A socket that a killed gate has left behind is taken over."""
    check_socket(flag, path)
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    return made


def _bind_tcp(address: Address) -> list[socket.socket]:
    """One for each address that the name has, all with one port; for all interfaces one for both families. No other
    process shares the port: two gates there would each see half of the writes, and grant twice what is there."""
    if address.host == "::" and socket.has_dualstack_ipv6():
        return [socket.create_server(("::", address.port), family=socket.AF_INET6, dualstack_ipv6=True)]
    host = "0.0.0.0" if address.host == "::" else address.host  # noqa: S104 (that is what was asked for)
    made: list[socket.socket] = []
    for family, _, _, _, place in socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM):
        port = made[0].getsockname()[1] if made else address.port
        try:
            made.append(socket.create_server((str(place[0]), port), family=family))
        except OSError:
            for one in made:
                one.close()
            raise
    return made


async def bind_http(
    app: web.Application, settings: Settings, bounds: Bounds = HTTP_BOUNDS
) -> tuple[web.AppRunner, Address]:
    """Start the operators' server; the runner (to be cleaned up) and the address that was really taken.

    Raises:
        ListenError: the address is taken or not ours.
    """
    return await _bind("--http", settings.http, listener.runner(app, bounds, shutdown_timeout=STOPS_S), bounds)


async def bind_webhook(
    app: web.Application, settings: Settings, context: ssl.SSLContext, bounds: Bounds = webhook.BOUNDS
) -> tuple[web.AppRunner, Address]:
    """The same for the admission webhook, over TLS. Bodies are taken as they come, and never inflated. An API server
    that has gone is granted nothing.

    Raises:
        ListenError: the address is taken or not ours.
    """
    assert settings.webhook is not None
    runner = listener.runner(app, bounds, shutdown_timeout=settings.numbers.grace_s, ends_with_caller=True)
    return await _bind("--webhook", settings.webhook, runner, bounds, context)


async def bind_api(
    app: web.Application, settings: Settings, context: ssl.SSLContext, bounds: Bounds = API_BOUNDS
) -> tuple[web.AppRunner, Address]:
    """The same for the HTTP API that others may ask, over TLS.

    Raises:
        ListenError: the address is taken or not ours.
    """
    assert settings.api is not None
    return await _bind("--api", settings.api, listener.runner(app, bounds, shutdown_timeout=STOPS_S), bounds, context)


async def _bind(
    flag: str, text: str, runner: web.AppRunner, bounds: Bounds, context: ssl.SSLContext | None = None
) -> tuple[web.AppRunner, Address]:
    address = parse(text)
    await runner.setup()
    try:
        sockets = [_bind_unix(flag, Path(address.path))] if address.path is not None else _bind_tcp(address)
        await listener.Site(runner, sockets, bounds, context).start()
    except OSError as error:
        await runner.cleanup()
        raise ListenError(f"{flag} {address}: {error.strerror}; {_CURE}") from None
    _open_to_group(address)
    return runner, address if address.path is not None else address.with_port(runner.addresses[0][1])


_CURE = "end the process that listens there, or choose another address"


def check_socket(flag: str, path: Path) -> None:
    """Check that no socket in use and no other file is in the way: uvloop would remove either without asking.

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


def _open_to_group(address: Address) -> None:
    if address.path is not None:
        Path(address.path).chmod(SOCKET_MODE)
