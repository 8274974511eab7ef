"""What a client can hold of the API's listener: connections that say nothing, half, too slowly, or too many."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop
from aiohttp import web

from extauthz.servers.api import routes
from extauthz.servers.api.rights import ThisHost
from extauthz.servers.guard import Bounds
from extauthz.service import certificates, listening
from extauthz.service.settings import Settings
from extauthz.testing.certs import Authority

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


Connect = Callable[[], Awaitable[Client]]


@asynccontextmanager
async def listening_with(folder: Path, bounds: Bounds) -> AsyncIterator[Connect]:
    """The listener of ``--api``. Nothing is known behind it, so who is let in reads 503."""
    authority = Authority(folder)
    pair = authority.issue("gate")
    settings = Settings(api="127.0.0.1:0", api_cert=pair.cert, api_key=pair.key)
    tls = certificates.of_api(settings, lambda level, event, **fields: None)
    assert tls is not None
    app = web.Application()
    app.add_routes(routes.routes(lambda: None, ThisHost()))
    app.add_routes([web.get("/big", _big)])
    runner, address = await listening.bind_api(app, settings, tls.context, bounds)
    context = ssl.create_default_context(cafile=str(authority.ca))
    writers = []

    async def connect() -> Client:
        client = Client(*await asyncio.open_connection(address.host, address.port, ssl=context))
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


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    return request.param


@pytest.mark.parametrize("said", [b"", b"GET /api/v1/quo", QUOTAS], ids=["nothing", "half a line", "half a header"])
def test_who_does_not_finish_asking_is_disconnected(run: Callable[..., None], tmp_path: Path, said: bytes):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(asked_within_s=0.3)) as connect:
            client = await connect()
            client.send(said)
            assert await client.ended()

    run(main())


def test_who_has_asked_stays_connected_and_may_ask_again(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(asked_within_s=0.3)) as connect:
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
    run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(routes, "BODY_WITHIN_S", 0.3)
    monkeypatch.setattr(routes, "_answers", lambda known: None)  # as if all were known

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


def test_one_connection_too_many_is_ended_and_a_free_place_is_given_again(run: Callable[..., None], tmp_path: Path):
    async def main() -> None:
        async with listening_with(tmp_path, Bounds(connections=2)) as connect:
            first, second = await connect(), await connect()
            assert await (await connect()).ended()
            for client in (first, second):
                client.send(QUOTAS + b"\r\n")
                assert await client.status() == 503
            first.writer.transport.abort()
            await asyncio.sleep(0.3)
            third = await connect()
            third.send(QUOTAS + b"\r\n")
            assert await third.status() == 503

    run(main())


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
