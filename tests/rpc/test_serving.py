"""The real listener, asked by grpcio's client and by hand: cancelled calls, deadlines, a graceful end, floods."""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any

import grpc
import pytest
import uvloop

from extauthz.serve.rpc.accepting import Bounds as Accepting
from extauthz.serve.rpc.connection import Connection
from extauthz.serve.rpc.frames import PREFACE, Bounds
from extauthz.serve.rpc.heads import Call, Code, Methods, Sink, StatusError, Streaming, Unary
from extauthz.serve.rpc.link import ALPN, Link, Server
from tests.rpc.client import FLOODS, block, headers, prefixed, raw, setting, spelled
from tests.servers.listening import listening
from tests.support.certs import Authority
from tests.waiting import until

U, LATER, FAILS, REFUSES, LOG, ECHO, HELD = (
    f"/a.Test/{name}" for name in ("Unary", "Later", "Fails", "Refuses", "Log", "Echo", "Held")
)


class Service:
    """One of each kind, and what they did."""

    def __init__(self) -> None:
        self.began = self.ended = 0
        self.logged: list[bytes] = []
        self.go = asyncio.Event()

    def methods(self) -> Methods:
        return {
            U: Unary(lambda message, _: message),
            LATER: Unary(self._later), FAILS: Unary(self._fails), REFUSES: Unary(self._refuses),
            LOG: Sink(self.logged.append, b"thanks"), ECHO: Streaming(self._echo), HELD: Unary(self._held),
        }  # fmt: skip

    async def _later(self, message: bytes, _: float | None) -> bytes:
        self.began += 1
        try:
            await asyncio.sleep(0.005)
            return message
        finally:
            self.ended += 1

    async def _held(self, message: bytes, _: float | None) -> bytes:
        self.began += 1
        await self.go.wait()
        return message

    def _fails(self, message: bytes, _: float | None) -> bytes:
        raise ValueError(message)

    async def _refuses(self, message: bytes, _: float | None) -> bytes:
        raise StatusError(Code.NOT_FOUND, "no such thing")

    async def _echo(self, call: Call) -> None:
        async for message in call:
            await call.write(message)


@pytest.fixture
def service() -> Service:
    return Service()


@asynccontextmanager
async def channel(address: str, credentials: grpc.ChannelCredentials | None = None) -> AsyncIterator[grpc.aio.Channel]:
    options = (("grpc.use_local_subchannel_pool", 1),)
    made = (
        grpc.aio.insecure_channel(address, options)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, options)
    )
    async with made as one:
        yield one


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code(), error.value.details()


async def closed(server: Server) -> None:
    """grpcio's client keeps its connection for as long as somebody has a call of it, an exception's traceback too."""
    await until(lambda: gc.collect() >= 0 and not server._links)


def server_context(authority: Authority) -> ssl.SSLContext:
    pair, context = authority.issue("localhost"), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    context.set_alpn_protocols([ALPN])
    return context


class TestGrpcioAsClient:
    async def test_why_a_handler_fails_is_in_the_log_and_not_in_the_answer(self, service: Service, caplog):
        async with listening(service.methods()) as (_, address), channel(address) as one:
            assert await refused(one.unary_unary(REFUSES)(b"")) == (grpc.StatusCode.NOT_FOUND, "no such thing")
            assert not caplog.records
            assert await refused(one.unary_unary(FAILS)(b"secret")) == (grpc.StatusCode.UNKNOWN, "the server failed")
            assert "a gRPC call's handler failed" in caplog.text

    async def test_a_handler_is_ended_at_its_clients_deadline_and_when_the_client_leaves(self, service: Service):
        async with listening(service.methods()) as (server, address):
            async with channel(address) as one:
                code, _ = await refused(one.unary_unary(HELD)(b"", timeout=0.1))
                assert code is grpc.StatusCode.DEADLINE_EXCEEDED
                waits = one.unary_unary(HELD)(b"")
                await until(lambda: service.began == 2)
                (link,) = server._links
                await until(lambda: len(link._tasks) == 1)
                waits.cancel()
                await until(lambda: not link._tasks)
                assert await one.unary_unary(U)(b"x") == b"x"
                cut = one.unary_unary(HELD)(b"")
                await until(lambda: service.began == 3)
            assert cut.done()
            del cut, waits
            await closed(server)
            await until(lambda: not link._tasks)

    async def test_half_of_the_calls_are_cancelled_and_the_other_half_answered(self, service: Service):
        choose = random.Random(7)
        async with listening(service.methods()) as (server, address), channel(address) as one:
            answered = cancelled = 0

            async def client(number: int) -> None:
                nonlocal answered, cancelled
                for turn in range(60):
                    message = b"%d %d" % (number, turn)
                    call = one.unary_unary(choose.choice((U, LATER)))(message)
                    if choose.random() < 0.5:
                        await asyncio.sleep(choose.choice((0, 0.001, 0.004)))
                        cancelled += call.cancel()
                    try:
                        assert await call == message
                        answered += 1
                    except asyncio.CancelledError:
                        assert call.cancelled()

            await asyncio.gather(*(client(number) for number in range(16)))
            assert answered + cancelled == 16 * 60
            assert min(answered, cancelled) > 200
            (link,) = server._links
            await until(lambda: not link._connection._streams and not link._tasks)
            assert service.began == service.ended

    async def test_over_tls_only_who_speaks_h2_is_let_in(self, tmp_path: Path):
        authority = Authority(tmp_path)
        methods = {U: Unary(lambda message, _: message)}
        async with listening(methods, tls=server_context(authority)) as (server, address):
            without = ssl.create_default_context(cafile=authority.ca)
            without.check_hostname = False
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port), ssl=without)
            assert await ends(reader) == b"", "ALPN is asked for (RFC 9113 §3.2)"
            writer.close()
            await until(lambda: not server._links)


class TestLeaving:
    async def test_no_call_is_lost_while_clients_keep_asking(self, service: Service):
        told: list[bytes] = []
        methods = {U: Unary(lambda message, _: told.append(message) or message)}
        async with listening(methods) as (server, address), channel(address) as one:
            got: list[bytes] = []

            async def client(number: int) -> None:
                for turn in range(100_000):
                    try:
                        got.append(await one.unary_unary(U)(b"%d %d" % (number, turn)))
                    except grpc.aio.AioRpcError:
                        return

            clients = [asyncio.create_task(client(number)) for number in range(8)]
            await until(lambda: len(got) > 100)
            await server.stop(30)
            await asyncio.gather(*clients)
        assert sorted(got) == sorted(told)


async def ends(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other end closes."""
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def connected(address: str, source: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port), local_addr=(source, 0))


FIRST = PREFACE + raw(setting(4, 1_000))


async def greeted(
    address: str, source: str = "127.0.0.1", calls: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """One whose preface the server has answered, or that it has closed; with a call, if one is named."""
    reader, writer = await connected(address, source)
    call = headers(1, block(calls)).serialize() + spelled(0, 1, 1, prefixed(b"x")) if calls else b""
    writer.write(FIRST + call + spelled(6, 0, 0, bytes(8)))
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await reader.readuntil(spelled(6, 1, 0, bytes(8)))
    return reader, writer


class TestStrangers:
    @pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
    async def test_a_flood_ends_its_own_connection_and_honest_calls_beside_it_are_all_answered(
        self, flood, service: Service
    ):
        async with listening(service.methods()) as (server, address), channel(address) as one:
            assert await one.unary_unary(U)(b"first") == b"first"
            (honest,) = server._links
            reader, writer = await connected(address)
            said = FIRST + b"".join(raw(frame) for number in range(5_000) for frame in flood(number))
            writer.write(said)
            answers = await asyncio.gather(*(one.unary_unary(U)(b"%d" % number) for number in range(50)))
            assert answers == [b"%d" % number for number in range(50)]
            await ends(reader)
            writer.close()
            await until(lambda: server._links == {honest})

    async def test_who_never_opens_its_window_is_kept_within_bounds(self, service: Service):
        bounds = Bounds(streams=10)
        async with listening(service.methods(), bounds) as (server, address), channel(address) as one:
            assert await one.unary_unary(U)(b"first") == b"first"
            (honest,) = server._links
            _, writer = await connected(address)
            writer.write(PREFACE + raw(setting(4, 0)))
            for number in range(1, 200, 2):
                writer.write(headers(number).serialize() + spelled(0, 1, number, prefixed(bytes(1_024))))
            await until(lambda: len(server._links) == 2)
            (link,) = server._links - {honest}
            await until(lambda: len(link._connection._streams) == 10)
            assert await one.unary_unary(U)(b"x") == b"x"
            kept = sum(len(stream.unsent) for stream in link._connection._streams.values())
            assert kept == 10 * 1_029
            writer.close()
            await until(lambda: server._links == {honest})

    async def test_who_reads_no_answers_is_read_no_further_and_then_cut(self):
        accepted = Accepting(taken_within_s=0.5)
        answered = 0

        def large(_: bytes, timeout_s: float | None) -> bytes:
            nonlocal answered
            answered += 1
            return bytes(10_000)

        async with listening({U: Unary(large)}, accepted=accepted) as (server, address):
            _, writer = await connected(address)
            writer.write(PREFACE + raw(setting(4, 1 << 20)) + spelled(8, 0, 0, (0x7FFF0000).to_bytes(4, "big")))

            async def ask() -> None:
                for number in range(1, 200_001, 2):
                    writer.write(headers(number).serialize() + spelled(0, 1, number, prefixed(bytes(1_024))))
                    if number % 1_000 == 1:
                        await writer.drain()

            asking = asyncio.create_task(ask())
            await until(lambda: bool(server._links))
            await until(lambda: not server._links, 60)
            asking.cancel()
            writer.close()
            assert 0 < answered < 50_000

    async def test_one_connection_too_many_is_closed_at_once(self, service: Service):
        async with listening(service.methods(), accepted=Accepting(connections=2)) as (server, address):
            pairs = [await greeted(address, calls=HELD) for _ in range(2)]
            reader, writer = await connected(address)
            assert await ends(reader) == b""
            pairs[0][1].close()
            await until(lambda: len(server._links) == 1)
            async with channel(address) as one:
                assert await one.unary_unary(U)(b"x") == b"x"
            for each in (writer, *(pair[1] for pair in pairs)):
                each.close()

    async def test_one_peer_has_its_share_and_no_more(self, service: Service):
        """As at the HTTP servers: it is the same listener."""
        async with listening(service.methods(), accepted=Accepting(connections=9, each=2)) as (_, address):
            hoard = [await greeted(address, "127.0.0.2", HELD) for _ in range(3)]
            assert await ends(hoard[2][0]) == b"", "all of its connections are in use"
            silent = [await connected(address, "127.0.0.3") for _ in range(3)]
            assert await ends(silent[0][0]) != b"", "the one that has waited longest makes room"
            async with channel(address) as one:
                assert await one.unary_unary(U)(b"x") == b"x"
            for _, writer in (*hoard, *silent):
                writer.close()

    async def test_connections_without_calls_make_room_and_those_with_one_stay(self, service: Service):
        async with listening(service.methods(), accepted=Accepting(connections=4)) as (_, address):
            held = await greeted(address, calls=HELD)
            idle = [await greeted(address) for _ in range(3)]
            await until(lambda: service.began == 1)
            async with channel(address) as one:
                assert await one.unary_unary(U)(b"x") == b"x"
                assert await ends(idle[0][0]) == b"", "it has been idle for longest"
            service.go.set()
            await held[0].readuntil(prefixed(b"x"))
            for _, writer in (held, *idle):
                writer.close()

    async def test_who_says_nothing_is_sent_away_and_who_has_greeted_may_stay(self, service: Service):
        async with listening(service.methods(), accepted=Accepting(head_s=0.2)) as (server, address):
            silent, one = await connected(address)
            reader, other = await greeted(address)
            assert await ends(silent) != b""
            await until(lambda: len(server._links) == 1)
            await asyncio.sleep(0.3)
            assert len(server._links) == 1
            assert not reader.at_eof()
            one.close()
            other.close()

    async def test_handshakes_that_do_not_come_keep_nobody_out(self, service: Service, tmp_path: Path):
        authority = Authority(tmp_path)
        context = server_context(authority)
        credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
        accepted = Accepting(connections=9, each=3, handshake_s=0.3)
        async with listening(service.methods(), tls=context, accepted=accepted) as (_, address):
            silent = [await connected(address) for _ in range(7)]
            async with channel(f"localhost:{address.rpartition(':')[2]}", credentials) as one:
                assert await one.unary_unary(U)(b"x") == b"x"
                assert [await ends(reader) for reader, _ in silent] == [b""] * 7
                assert await one.unary_unary(U)(b"x") == b"x", "who is served stays"
            for _, writer in silent:
                writer.close()

    async def test_one_who_has_much_to_be_read_is_read_in_turns(self, service: Service):
        """Between two turns another is answered: what one sends at once is not worked on at once."""
        order: list[bytes] = []
        methods = {U: Unary(lambda message, _: order.append(message) or sleep(0.001) or message)}
        async with listening(methods) as (_, address):
            pairs = [await greeted(address, source) for source in ("127.0.0.2", "127.0.0.3")]
            for count, (_, writer) in zip((200, 1), pairs, strict=True):
                calls = range(1, 2 * count, 2)
                body = spelled(0, 1, 0, prefixed(b"%d" % count))
                writer.write(
                    b"".join(
                        headers(n, block(U)).serialize() + body[:5] + n.to_bytes(4, "big") + body[9:] for n in calls
                    )
                )
            await until(lambda: len(order) == 201, 60)
            assert order.index(b"1") < 60, "of 200"
            for _, writer in pairs:
                writer.close()

    async def test_a_mistake_of_ours_ends_its_own_connection_alone(
        self, service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        feed = Connection.feed

        def fails(self: Connection, data: bytes, *given: Any) -> Any:
            assert b"fails" not in data
            return feed(self, data, *given)

        monkeypatch.setattr(Connection, "feed", fails)
        async with listening(service.methods()) as (_, address), channel(address) as one:
            assert await one.unary_unary(U)(b"x") == b"x"
            reader, writer = await greeted(address)
            writer.write(b"fails")
            assert await one.unary_unary(U)(b"y") == b"y"
            await ends(reader)
            writer.close()
        assert "Server._work" in caplog.text
        caplog.clear()

    async def test_what_all_connections_hold_together_is_bounded_and_whose_is_most_is_closed(self, service: Service):
        async with listening(service.methods(), held_bytes=300_000) as (server, address), channel(address) as one:
            assert await one.unary_unary(U)(b"x") == b"x"
            half = headers(1, block(U)).serialize() + b"".join(
                spelled(0, 0, 1, part) for part in (prefixed(bytes(99_999))[:16_000], *[bytes(12_000)] * 6)
            )
            pairs = [await greeted(address, source) for source in ("127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.2")]
            for _, writer in pairs:
                writer.write(half)
                await writer.drain()
            await until(lambda: len(server._links) == 4)
            assert await one.unary_unary(U)(b"y") == b"y"
            assert not pairs[1][0].at_eof(), "it holds less"
            for _, writer in pairs:
                writer.close()

    async def test_who_ends_its_half_of_a_connection_has_what_it_asked_for(self, service: Service):
        async with listening(service.methods()) as (_, address):
            reader, writer = await connected(address)
            writer.write(FIRST + headers(1, block(U)).serialize() + spelled(0, 1, 1, prefixed(b"asked")))
            writer.write_eof()
            assert prefixed(b"asked") in await ends(reader)
            writer.close()


def test_a_deadline_that_has_passed_when_it_comes_ends_its_call_alone(service: Service):
    """On uvloop, as the gate: what is due at once is no timer there, and has no time."""

    async def main() -> None:
        async with listening(service.methods()) as (_, address):
            reader, writer = await greeted(address)
            late = [headers(n, block(HELD, grpc_timeout="1n")).serialize() for n in (1, 3)]
            for head in late:
                writer.write(head)
                await writer.drain()
                await asyncio.sleep(0.01)
            writer.write(headers(5, block(U)).serialize() + spelled(0, 1, 5, prefixed(b"asked")))
            async with asyncio.timeout(30):
                assert prefixed(b"asked") in await reader.readuntil(prefixed(b"asked"))
            writer.close()

    uvloop.run(main())


async def test_nothing_is_kept_of_connections_that_have_ended(service: Service):
    async with listening(service.methods()) as (server, address):
        for number in range(3):
            async with channel(address) as one:
                await one.unary_unary(LATER)(b"x")
                echo = one.stream_stream(ECHO)()
                await echo.write(b"1")
                await echo.read()
                held = one.unary_unary(HELD)(b"never answered")
                await until(lambda number=number: service.began == 2 * number + 2)
                held.cancel()
                del held, echo
        await closed(server)
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) in (Link, Connection)]
