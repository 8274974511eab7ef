"""Floods of HTTP/2 frames at the port that Envoy asks, at the real gate: honest clients beside them lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest
from envoy_data_plane.envoy.service.auth.v3 import (
    AttributeContext,
    AttributeContextRequest,
    CheckRequest,
    CheckResponse,
)
from hyperframe.frame import Frame, RstStreamFrame

from extauthz.serve.rpc.frames import PREFACE
from tests.rpc.client import FLOODS, block, headers, prefixed, raw, setting, spelled

from .running import Running, metadata, scale

CHECK = "/envoy.service.auth.v3.Authorization/Check"
FRAMES = 2_000
"""Of each connection of an attacker: twice what the gate takes in a row (docs/internals/limits.md), or more."""
CONNECTIONS = 6
"""One after the other: who loses a connection opens the next."""
HONEST = 40
ENOUGH, MANY = 200, 100_000
BOUND_S = 180.0
"""A test ends after so long, whatever happens. Nothing here takes a second on a free machine."""

Flood = Callable[[int], list[Frame | bytes]]


def message(replicas: int) -> bytes:
    """A check that charges nothing: of four replicas there is room for, of five there is not."""
    http = scale(replicas, "?dryRun=All")
    return bytes(CheckRequest(attributes=AttributeContext(request=AttributeContextRequest(http=http))))


_HEAD = block(CHECK)
_BODY = prefixed(message(5))
"""Of attackers: it is refused, so that the log tells their decisions from those of honest clients."""


def _checks_given_up_at_once(number: int) -> list[Frame | bytes]:
    stream = 2 * number + 1
    return [headers(stream, _HEAD), spelled(0, 1, stream, _BODY), RstStreamFrame(stream, 8)]


def _heads_of_checks_given_up(number: int) -> list[Frame | bytes]:
    stream = 2 * number + 1
    return [headers(stream, _HEAD), RstStreamFrame(stream, 8)]


def _one_head_without_end(number: int) -> list[Frame | bytes]:
    return [headers(1, _HEAD, ())] * (not number) + [spelled(9, 0, 1, b"\x00\x01x\x01y" * 20)]


ALL: dict[str, Flood] = {
    **FLOODS,
    "checks given up at once": _checks_given_up_at_once,
    "heads of checks given up": _heads_of_checks_given_up,
    "one head without end (CVE-2024-27316)": _one_head_without_end,
}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("gate")) as one:
        yield one


@asynccontextmanager
async def asking(gate: Running) -> AsyncIterator[Callable[..., grpc.aio.UnaryUnaryCall]]:
    """An honest client's connection: what asks a check on it."""
    async with grpc.aio.insecure_channel(gate.grpc, (("grpc.use_local_subchannel_pool", 1),)) as channel:
        yield channel.unary_unary(CHECK, response_deserializer=CheckResponse.parse)


async def honest(gate: Running, times: int) -> list[str]:
    """Ask so many checks, eight at a time, of a connection of one's own; their verdicts in order."""
    async with asking(gate) as ask:
        verdicts: list[str] = []
        for first in range(0, times, 8):
            asked = range(first, min(first + 8, times))
            answers = await asyncio.gather(*(ask(message(4 + number % 2)) for number in asked))
            verdicts += [str(metadata(answer)["verdict"]) for answer in answers]
        return verdicts


async def connected(gate: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = gate.grpc.rpartition(":")
    return await asyncio.open_connection(host, int(port))


def spelled_out(flood: Flood) -> list[bytes]:
    """All that one connection sends, in pieces."""
    first = [PREFACE + raw(setting(4, 1_000))]
    return first + [b"".join(raw(frame) for frame in flood(number)) for number in range(FRAMES)]


async def flooded(gate: Running, pieces: list[bytes]) -> None:
    """Send them as fast as the gate takes them, and wait until it ends the connection."""
    reader, writer = await connected(gate)
    with suppress(ConnectionError):
        for first in range(0, len(pieces), 100):
            writer.write(b"".join(pieces[first : first + 100]))
            await writer.drain()
        while await reader.read(1 << 16):
            pass
    writer.close()


EXPECTED = ["allow", "deny"] * (HONEST // 2)


@pytest.mark.parametrize("flood", ALL.values(), ids=ALL.keys())
async def test_honest_checks_lose_nothing_beside_a_flood_and_the_flood_loses_its_connection(
    gate: Running, flood: Flood
):
    pieces = spelled_out(flood)

    async def attack() -> None:
        for _ in range(CONNECTIONS):
            await flooded(gate, pieces)

    async with asyncio.timeout(BOUND_S):
        attacking = asyncio.create_task(attack())
        assert await honest(gate, HONEST) == EXPECTED
        await attacking
        assert await honest(gate, 2) == EXPECTED[:2]


async def windows_closed(gate: Running, writers: list[asyncio.StreamWriter]) -> None:
    """One connection that has checks answered and gives no room for any answer, and keeps some checks unfinished."""
    _, writer = await connected(gate)
    writers.append(writer)
    writer.write(PREFACE + raw(setting(4, 0)))
    for number in range(400):
        stream = 2 * number + 1
        ends = number % 4 != 0
        writer.write(raw(headers(stream, _HEAD)) + spelled(0, int(ends), stream, _BODY if ends else _BODY[:-1]))
    await writer.drain()


async def test_windows_that_stay_closed_hold_up_nobody_else(gate: Running):
    writers: list[asyncio.StreamWriter] = []
    async with asyncio.timeout(BOUND_S):
        for _ in range(8):
            await windows_closed(gate, writers)
        assert await honest(gate, HONEST) == EXPECTED
        for writer in writers:
            writer.close()
        assert await honest(gate, 2) == EXPECTED[:2]


async def test_a_stop_amid_floods_loses_no_answer(tmp_path: Path):
    """What was decided was answered: each grant in the log has come to its client."""
    got: list[str] = []
    many = asyncio.Event()
    pieces = spelled_out(_heads_of_checks_given_up)
    writers: list[asyncio.StreamWriter] = []
    with Running(tmp_path, grace_s=2) as gate:

        async def client() -> None:
            async with asking(gate) as ask:
                with suppress(grpc.aio.AioRpcError):
                    for _ in range(MANY):
                        answer = await ask(message(4))
                        got.append(str(metadata(answer)["decision_id"]))
                        if len(got) == ENOUGH:
                            many.set()

        async def attack() -> None:
            with suppress(ConnectionError):
                for _ in range(MANY):
                    await flooded(gate, pieces)

        async with asyncio.timeout(BOUND_S):
            await windows_closed(gate, writers)
            attacking = asyncio.create_task(attack())
            clients = [asyncio.create_task(client()) for _ in range(8)]
            await many.wait()
            assert await asyncio.to_thread(gate.child.terminate) == 0
            await asyncio.gather(attacking, *clients)
        told = [line["id"] for line in gate.events("decision") if line["verdict"] == "allow"]
    assert sorted(got) == sorted(told)
    for writer in writers:
        writer.close()
