"""What else strangers may write: answers of a quota service, questions at the API, and raw bytes at the listeners. Each
row draws one, and tells what it cost, as a share of what it may; an error that is not the row's own is raised."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from aiohttp import web

from extauthz.core.errors import BodyError
from extauthz.core.queries import Queries
from extauthz.core.wire import gojson
from extauthz.core.wire.gojson import VALUE, Work
from extauthz.inputs.sources.gathering import Gathered, read
from extauthz.inputs.sources.http import MAX_VALUES, SourceError, listed
from extauthz.serve.rpc import accepting
from extauthz.serve.rpc.frames import PREFACE
from extauthz.serve.rpc.heads import Unary
from extauthz.serve.rpc.link import Server
from extauthz.serve.servers.api import routes
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.rights import ThisHost
from extauthz.serve.servers.listener import Site, runner
from extauthz.testing import gate, quota, workload
from tests.servers.test_hostile_api import SHAPES, turns

from .frames import PATHS, Client
from .measure import LOOP, _timed

SPOILT = 0.5
"""How many texts are changed in some bytes after they were made."""


def spoilt(draw: random.Random, raw: bytes) -> bytes:
    """Some bytes changed, doubled or cut out."""
    made = bytearray(raw)
    for _ in range(draw.choice((0, 1, 1, 2, 8)) if draw.random() < SPOILT else 0):
        at = draw.randrange(len(made) + 1)
        size = draw.choice((1, 1, 5, 100))
        made[at : at + draw.choice((0, size))] = draw.choice((b"", made[at : at + size], draw.randbytes(size)))
    return bytes(made)


# Answers of a quota service.


def _quota(draw: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {"hard": {"pods": draw.choice(("3", "1e999", 7, None, "9" * 400))}}
    spec |= draw.choice(({}, {"parent": "acme"}, {"mode": draw.choice(("Clamp", 1, []))}))
    spec |= draw.choice(({}, {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}))
    kind = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota"}
    return kind | {"metadata": {"name": draw.choice(("acme", "b", "", None, "A", "x" * 300))}, "spec": spec}


def of_sources(draw: random.Random, floor_s: float) -> float:
    """It is read beside the loop, so only its errors count."""
    quotas = [_quota(draw) for _ in range(draw.choice((0, 1, 2, 30)))]
    tree: Any = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuotaList", "items": quotas}
    if draw.random() < 0.3:
        tree = {"workspaces": {str(each["metadata"]["name"]): each["spec"]["hard"] for each in quotas}}
    raw = spoilt(draw, json.dumps(tree).encode())
    if draw.random() < 0.1:
        raw = raw.replace(b"[", b"[" * draw.choice((100, 1_000, 100_000)))
    gathered = Gathered()
    with suppress(SourceError, BodyError):
        found = gojson.loads(raw, work=Work(MAX_VALUES * VALUE))
        gathered.replace([read(one) for one in listed(found)])
        gathered.quotas()
    return 0.0


# Questions at the API.


def _answers() -> Answers:
    known = gate([quota("acme", {"pods": "10", "requests.cpu": "10"})], workload("web", 2))
    return Answers(Queries(known.ledger), lambda reading: known.decide(reading, "q", 0.0, charge=False), lambda: 0.0)


_ANSWERS = _answers()


def of_questions(draw: random.Random, floor_s: float) -> float:
    """The longest turn of a question."""
    body = SHAPES[draw.choice(sorted(SHAPES))](int(10 ** draw.uniform(0, 3.3)))
    raw = spoilt(draw, json.dumps(body).encode())[: routes.MAX_BODY_BYTES]
    longest_s = 0.0
    with suppress(routes.Problem):
        for turn in turns(_ANSWERS, raw):
            longest_s = max(longest_s, min(_timed(turn)[0] for _ in range(2)))
    return longest_s / (LOOP * floor_s)


# Connections.

_REQUESTS = (
    b"GET /api/v1/quotas HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"POST /api/v1/headroom HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}",
    b"POST /api/v1/decisions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"GET /api/v1/quotas HTTP/1.1\r\nhost: localhost\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
)
BOUNDS = accepting.Bounds(connections=20, each=10)
AT_ONCE = 30


def _drawn(draw: random.Random) -> Iterator[bytes]:
    client = Client(draw.randrange(10**9))
    for _ in range(draw.choice((0, 1, 3, 20))):
        yield spoilt(draw, draw.choice(_REQUESTS)) if draw.random() < 0.5 else client.bytes()


def of_connections(draw: random.Random, floor_s: float) -> float:
    """Thirty at both kinds of listener, then an honest one of each: who asks is answered, and nothing is left."""
    asyncio.run(_served(draw))
    return 0.0


@asynccontextmanager
async def _listening() -> AsyncIterator[tuple[list[int], tuple[accepting.Listener, accepting.Listener]]]:
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: failed.append(told))
    app = web.Application()
    app.add_routes(routes.routes(lambda: _ANSWERS, ThisHost()))
    made = runner(app, BOUNDS, 0.1)
    await made.setup()
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    site = Site(made, sockets[:1], BOUNDS)
    server = Server({PATHS[0]: Unary(lambda raw, _: raw)}, sockets[1:], accepted=BOUNDS)
    await site.start()
    await server.start()
    yield [one.getsockname()[1] for one in sockets], (site._listener, server._listener)
    await server.stop(0.1)
    await made.cleanup()
    assert not failed, failed


async def _served(draw: random.Random) -> None:
    async with _listening() as (ports, listeners):
        for _ in range(AT_ONCE):
            await _one(draw, draw.choice(ports))
        await _asked(ports[0], _REQUESTS[0], b"HTTP/1.1 200 ")
        await _asked(ports[1], PREFACE + bytes(3) + b"\4" + bytes(5), bytes(3) + b"\4\1")
        async with asyncio.timeout(10):
            while any(listener._connections for listener in listeners):  # noqa: ASYNC110 (a plain value)
                await asyncio.sleep(0.001)


async def _one(draw: random.Random, port: int) -> None:
    async with _connected(port) as (_, writer):
        if draw.random() < 0.5:
            writer.write(PREFACE + bytes(3) + b"\4" + bytes(5))
        for raw in _drawn(draw):
            if writer.is_closing():
                break
            writer.write(raw)
            await asyncio.sleep(0)
        if draw.random() < 0.3:
            with suppress(OSError):  # it is over already
                writer.write_eof()
        if draw.random() < 0.5:
            await asyncio.sleep(0.001)


async def _asked(port: int, raw: bytes, wanted: bytes) -> None:
    async with _connected(port) as (reader, writer), asyncio.timeout(10):
        writer.write(raw)
        await reader.readuntil(wanted)


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


class Row(NamedTuple):
    """What came of one."""

    seed: int
    share: float
    """Of what it may cost."""
    error: str = ""
    """What it raised that it should not have."""


ROWS: dict[str, Callable[[random.Random, float], float]] = {
    "sources": of_sources,
    "questions": of_questions,
    "connections": of_connections,
}


def tried(row: str, seed: int, floor_s: float) -> Row:
    """One, by its seed."""
    try:
        return Row(seed, ROWS[row](random.Random(seed), floor_s))
    except Exception as error:  # noqa: BLE001 (whatever is raised is what is looked for)
        return Row(seed, 0.0, repr(error))
