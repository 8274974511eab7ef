"""What a client can hold of a listener: connections that say nothing, half, too slowly, or too many. That of ``--api``
stands for all three: they are of one class."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop
from aiohttp import web

from extauthz.serve.rpc.accepting import Bounds
from extauthz.serve.servers.api import routes
from extauthz.serve.servers.api.rights import ThisHost
from extauthz.serve.servers.bodies import Bodies
from extauthz.serve.servers.listener import Site, body, runner
from extauthz.serve.service import certificates, listening
from extauthz.serve.service.settings import Settings
from tests.servers.running import Running
from tests.servers.test_serve_webhook import ask, flags, scaled
from tests.support.certs import Authority

LONG_S = 60.0
QUOTAS = b"GET /api/v1/quotas HTTP/1.1\r\nhost: localhost\r\n"
BIG = 32 << 20


class Client(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def status(self) -> int:
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        length = next((int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")), 0)
        await self.reader.readexactly(length)
        return int(head.split()[1])

    async def ended(self) -> bool:
        """Whether the server ends it. Without a bound that takes a minute."""
        try:
            async with asyncio.timeout(LONG_S):
                return await self.reader.read() == b""
        except (ConnectionError, ssl.SSLError):
            return True
        except TimeoutError:
            return False


Connect = Callable[..., Awaitable[Client]]


@asynccontextmanager
async def listening_with(folder: Path, bounds: Bounds) -> AsyncIterator[Connect]:
    """The listener of ``--api``. Nothing is known behind it, so who is let in reads 503."""
    authority = Authority(folder)
    pair = authority.issue("gate")
    settings = Settings(api="127.0.0.1:0", api_cert=pair.cert)
    tls = certificates.Handshakes.of(certificates.API, settings, lambda level, event, **fields: None)
    assert tls is not None
    app = web.Application()
    app.add_routes(routes.routes(lambda: None, ThisHost()))
    app.add_routes(
        [web.get("/big", _big), web.get("/slow", _slow), web.get("/fails", _fails), web.get("/quick", _quick)]
    )
    runner, address = await listening.bind_api(app, settings, tls.context, bounds)
    context = ssl.create_default_context(cafile=str(authority.ca))
    writers = []

    async def connect(source: str = "127.0.0.1", tls: ssl.SSLContext | None = context) -> Client:
        opened = await asyncio.open_connection(address.host, address.port, ssl=tls, local_addr=(source, 0))
        client = Client(*opened)
        writers.append(client.writer)
        return client

    try:
        yield connect
    finally:
        for writer in writers:
            writer.transport.abort()
        await runner.cleanup()


async def _big(request: web.Request) -> web.Response:
    return web.Response(body=bytes(BIG))


async def _fails(request: web.Request) -> web.Response:
    raise ValueError


async def _quick(request: web.Request) -> web.Response:
    return web.Response(text="done")


async def _slow(request: web.Request) -> web.Response:
    await asyncio.sleep(1)
    return web.Response(text="done")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all were known."""
    monkeypatch.setattr(routes, "known_answers", lambda known: None)


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    return request.param


@pytest.mark.parametrize("said", [b"", b"GET /api/v1/quo", QUOTAS], ids=["nothing", "half a line", "half a header"])
def test_who_does_not_finish_asking_is_disconnected(run: Callable[..., None], tmp_path: Path, said: bytes):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(head_s=0.3)) as connect:
            client = await connect()
            client.send(said)
            assert await client.ended()

    run(main())


def test_who_has_asked_stays_connected_and_may_ask_again(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(head_s=0.3)) as connect:
            client = await connect()
            for _ in range(3):
                client.send(QUOTAS + b"\r\n")
                assert await client.status() == 503
                await asyncio.sleep(0.2)

    run(main())


def test_half_a_later_request_holds_no_connection_either(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(idle_s=0.5)) as connect:
            client = await connect()
            client.send(QUOTAS + b"\r\n")
            assert await client.status() == 503
            client.send(QUOTAS)
            assert await client.ended()

    run(main())


def test_a_body_that_does_not_come_is_not_waited_for(
    run: Callable[..., None], tmp_path: Path, known: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(routes, "BODY_WITHIN_S", 0.3)

    async def main() -> None:
        async with listening_with(tmp_path, Bounds()) as connect:
            client = await connect()
            client.send(QUOTAS.replace(b"GET /api/v1/quotas", b"POST /api/v1/headroom"))
            client.send(b"content-length: 100\r\n\r\n{")
            assert await client.status() == 408
            assert await client.ended()

    run(main())


def test_who_takes_no_answers_is_disconnected(run: Callable[..., None], tmp_path: Path):
    """Two, because the transport holds all of the first one, and says only then that it is full."""

    async def main() -> None:
        async with listening_with(tmp_path, Bounds(taken_within_s=0.3)) as connect:
            client = await connect()
            client.send(2 * b"GET /big HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await client.reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(1.5)
            with pytest.raises((ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)):
                await client.reader.readexactly(2 * BIG)

    run(main())


async def alive(client: Client) -> bool:
    """It still gets answers."""
    client.send(b"GET /quick HTTP/1.1\r\nhost: localhost\r\n\r\n")
    try:
        return await client.status() == 200
    except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
        return False


def test_what_is_no_http_is_not_logged_and_what_a_handler_raises_is(
    run: Callable[..., None], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Each such request wrote a traceback with what it was."""
    bad = (QUOTAS + b"bad header\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxx", QUOTAS + b"content-length: x\r\n\r\n")

    async def main() -> None:
        async with listening_with(tmp_path, Bounds()) as connect:
            for each in bad:
                client = await connect()
                client.send(each)
                assert await client.status() == 400
            assert not caplog.records
            client = await connect()
            client.send(b"GET /fails HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert await client.status() == 500
            assert len(caplog.records) == 1

    run(main())


def test_nobody_is_shaken_hands_with_for_ever(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(handshake_s=0.3)) as connect:
            assert await (await connect(tls=None)).ended()

    run(main())


def test_where_there_is_no_room_who_has_waited_longest_leaves(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(connections=2)) as connect:
            first, second = await connect(), await connect()
            assert await alive(first), "so the second has waited longer"
            third = await connect()
            assert await second.ended()
            assert await alive(first)
            assert await alive(third)

    run(main())


def test_a_handshake_that_does_not_come_leaves_too(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(connections=2)) as connect:
            silent = [await connect(tls=None) for _ in range(2)]
            first, second = await connect(), await connect()
            assert await alive(first)
            assert await alive(second)
            assert [await one.ended() for one in silent] == [True, True]

    run(main())


def test_who_is_at_work_is_not_ended_for_another(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(connections=2)) as connect:
            busy = [await connect(), await connect()]
            for client in busy:
                client.send(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await asyncio.sleep(0.2)
            assert await (await connect(tls=None)).ended(), "there is no room"
            assert [await client.status() for client in busy] == [200, 200]
            assert await alive(await connect())

    run(main())


def test_a_peer_that_has_its_share_takes_it_from_itself(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(connections=10, each=2)) as connect:
            honest = await connect()
            hoard = [await connect("127.0.0.2") for _ in range(3)]
            assert await hoard[0].ended()
            assert [await alive(one) for one in (honest, *hoard[1:])] == [True, True, True]

    run(main())


def test_the_peer_that_has_most_makes_room_for_others(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(connections=6, each=4)) as connect:
            honest = await connect()
            hoard = [await connect("127.0.0.2") for _ in range(4)]
            little = await connect("127.0.0.3")
            another = await connect()
            assert await hoard[0].ended()
            assert [await alive(one) for one in (honest, little, another)] == [True, True, True]

    run(main())


def test_a_body_that_does_not_come_makes_room(run: Callable[..., None], tmp_path: Path, known: None):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(connections=2)) as connect:
            silent = [await connect(), await connect()]
            for client in silent:
                client.send(QUOTAS.replace(b"GET /api/v1/quotas", b"POST /api/v1/headroom"))
                client.send(b"content-length: 100\r\n\r\n{")
            await asyncio.sleep(0.2)
            other = await connect()
            assert await alive(other)
            ending = [asyncio.ensure_future(one.ended()) for one in silent]
            (first, *_), others = await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
            assert first.result(), "without an answer"
            for one in others:
                one.cancel()

    run(main())


def test_few_descriptors_are_few_connections():
    assert Bounds(connections=500, each=300).within(1024) == Bounds(connections=170, each=170)
    assert Bounds().within(65_536) == Bounds()
    assert Bounds().within(resource.RLIM_INFINITY) == Bounds()


def test_a_stranger_keeps_no_connection(run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def nobody(self: ThisHost, request: web.Request) -> None:
        raise routes.Problem(401, "who are you?")

    monkeypatch.setattr(ThisHost, "rights", nobody)

    async def main() -> None:
        async with listening_with(tmp_path, Bounds()) as connect:
            client = await connect()
            client.send(QUOTAS + b"\r\n")
            assert await client.status() == 401
            assert await client.ended()

    run(main())


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
