"""Strangers at the listeners of a real ``extauthz serve``, beside honest clients: these lose nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from extauthz.rpc.accepting import Bounds
from extauthz.servers.bodies import Bodies
from extauthz.servers.listener import Site, body, runner
from extauthz.testing.certs import Authority
from tests.servers.running import Running
from tests.servers.test_serve_webhook import ask, flags, scaled

STRANGERS = [f"127.0.0.{last}" for last in range(2, 7)]
"""Addresses that they come from. Whoever is honest comes from 127.0.0.1."""

MIB = 1 << 20


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def connections(address: str, each: int, said: bytes = b"", tls: ssl.SSLContext | None = None) -> Iterator[None]:
    """So many from each stranger, which say this, once."""
    host, _, port = address.rpartition(":")
    with ExitStack() as stack:
        for source in STRANGERS:
            for _ in range(each):
                made = socket.create_connection((host, int(port)), timeout=10, source_address=(source, 0))
                made = stack.enter_context(tls.wrap_socket(made) if tls is not None else made)
                if said:
                    made.sendall(said)
        yield


def anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def cpu_s(gate: Running) -> float:
    """What the process has used of the processor."""
    fields = Path(f"/proc/{gate.child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_idle_connections_and_silent_bodies_keep_nobody_out(tmp_path: Path, authority: Authority) -> None:
    """Ten that claimed 8 MiB each failed 39 of 40 creates, and a thousand idle ones blocked all ports."""
    asked = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    claimed = b"POST /validate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n{" % (8 * MIB)
    with Running(tmp_path, *flags(authority.issue("gate"))) as gate:
        webhook = gate.events("serving")[-1]["webhook"]
        with connections(webhook, 220), connections(gate.http, 150), connections(gate.http, 60, asked):
            assert_nothing_is_lost(gate, authority)
            assert len(list(Path(f"/proc/{gate.child.pid}/fd").iterdir())) < 1_300
        before_s = cpu_s(gate)
        for _ in range(3):
            with connections(webhook, 10, claimed, anybody()):
                assert [ask(gate, authority, scaled(4))["allowed"] for _ in range(10)] == [True] * 10
        print(f"150 silent bodies cost {cpu_s(gate) - before_s:.2f} s of the gate's processor")


def test_few_descriptors_are_not_used_up(tmp_path: Path, authority: Authority) -> None:
    with ExitStack() as stack:
        gate = stack.enter_context(Running(tmp_path, *flags(authority.issue("gate")), descriptors=512))
        for address in (gate.events("serving")[-1]["webhook"], gate.http):
            stack.enter_context(connections(address, 110))
        assert_nothing_is_lost(gate, authority)


def assert_nothing_is_lost(gate: Running, authority: Authority) -> None:
    for _ in range(5):
        assert gate.get("/healthz")[0] == 200
        assert ask(gate, authority, scaled(4))["allowed"]
        assert gate.allows(4), "gRPC has descriptors too"


async def read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_whose_bodies_take_most_makes_room() -> None:
    """A stranger who really sends is the one that is given up."""
    bodies = Bodies(6 * MIB)

    async def take(request: web.Request) -> web.Response:
        with bodies.charged(request) as arrived:
            taken = await body(request, 8 * MIB, 30, arrived)
        return web.Response(text=str(len(taken)))

    app = web.Application()
    app.add_routes([web.post("/", take)])
    made = runner(app, Bounds(), 1.0)
    await made.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    await Site(made, [listening], Bounds()).start()
    port = listening.getsockname()[1]

    async def send(source: str, claimed: int, sent: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % claimed + bytes(sent))
        await writer.drain()
        return reader, writer

    try:
        hoard, hoarding = await send("127.0.0.2", 5 * MIB, 5 * MIB - 1)
        reader, writer = await send("127.0.0.1", 3 * MIB, 3 * MIB)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        told = await read(hoard)
        assert not told or told.startswith(b"HTTP/1.1 503 "), "its last bytes may come after the other's"
        for one in (hoarding, writer):
            one.close()
    finally:
        await made.cleanup()
