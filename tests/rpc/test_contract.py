"""What the server promises to gRPC's own client: every kind of call, a stop, and TLS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from extauthz.serve.service.certificates import GRPC, Handshakes
from tests.rpc.test_serving import (
    ECHO,
    HELD,
    LATER,
    LOG,
    Service,
    U,
    channel,
    refused,
)
from tests.servers.listening import listening
from tests.support.certs import Authority
from tests.waiting import until

Status = grpc.StatusCode


@pytest.fixture
def service() -> Service:
    return Service()


async def test_calls_of_every_kind_are_answered(service: Service):
    async with listening(service.methods()) as (_, address), channel(address) as one:
        for size in (0, 5, 100_000, (4 << 20) - 1):
            assert await one.unary_unary(U)(bytes(size)) == bytes(size)
        answers = await asyncio.gather(*(one.unary_unary(LATER)(b"%d" % number) for number in range(50)))
        assert answers == [b"%d" % number for number in range(50)]
        echo = one.stream_stream(ECHO)()
        for size in (1, 70_000, 0, 1_000_000):
            await echo.write(bytes(size))
            assert await echo.read() == bytes(size)
        await echo.done_writing()
        assert await echo.read() is grpc.aio.EOF
        log = one.stream_unary(LOG)()
        for number in range(100):
            await log.write(b"%d" % number)
        await log.done_writing()
        assert await log == b"thanks"
        assert service.logged == [b"%d" % number for number in range(100)]


async def test_a_stop_loses_no_answer_and_ends_streams_that_have_no_end(service: Service):
    async with listening(service.methods()) as (server, address), channel(address) as one:
        log = one.stream_unary(LOG)()
        await log.write(b"1")
        held = [one.unary_unary(HELD)(b"%d" % number) for number in range(20)]
        await until(lambda: service.began == 20 and bool(service.logged))
        stopping = asyncio.create_task(server.stop(60))
        assert await log == b"thanks"
        assert not stopping.done()
        service.go.set()
        assert [await call for call in held] == [b"%d" % number for number in range(20)]
        async with asyncio.timeout(30):
            await stopping


async def test_what_outlasts_the_grace_is_cut(service: Service):
    async with listening(service.methods()) as (server, address), channel(address) as one:
        call = one.unary_unary(HELD)(b"")
        await until(lambda: service.began == 1)
        async with asyncio.timeout(30):
            await server.stop(0.1)
        assert (await refused(call))[0] in (Status.UNAVAILABLE, Status.CANCELLED)


async def test_over_tls_only_clients_of_the_authority_are_let_in_and_a_renewal_holds(service: Service, tmp_path: Path):
    authority, other = Authority(tmp_path), Authority(tmp_path, "another CA")
    gate, client, stranger = authority.issue("localhost"), authority.issue("envoy"), other.issue("stranger")
    tls = Handshakes(GRPC, lambda level, event, **fields: None, gate.cert, authority.ca)
    async with listening(service.methods(), tls=tls.context) as (_, address):
        named = f"localhost:{address.rpartition(':')[2]}"

        async def ask(trusted: Authority, *shown: bytes) -> bytes:
            async with channel(named, grpc.ssl_channel_credentials(trusted.ca.read_bytes(), *shown)) as one:
                answer: bytes = await one.unary_unary(U)(b"x", timeout=20)
                return answer

        keys = client.key.read_bytes(), client.cert.read_bytes()
        assert await ask(authority, *keys) == b"x"
        for shown in ((stranger.key.read_bytes(), stranger.cert.read_bytes()), ()):
            with pytest.raises(grpc.aio.AioRpcError):
                await ask(authority, *shown)
        renewed = other.issue("localhost")
        gate.cert.write_bytes(renewed.cert.read_bytes())
        gate.key.write_bytes(renewed.key.read_bytes())
        tls.look()
        assert await ask(other, *keys) == b"x"
