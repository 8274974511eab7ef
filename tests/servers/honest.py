"""Honest clients of a real gate, for tests of what strangers do beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
from envoy_data_plane.envoy.service.auth.v3 import (
    AttributeContext,
    AttributeContextRequest,
    CheckRequest,
    CheckResponse,
)

from .running import Running, metadata, scale

CHECK = "/envoy.service.auth.v3.Authorization/Check"
HONEST = 40
EXPECTED = ["allow", "deny"] * (HONEST // 2)


def message(replicas: int) -> bytes:
    """A check that charges nothing: of four replicas there is room for, of five there is not."""
    http = scale(replicas, "?dryRun=All")
    return bytes(CheckRequest(attributes=AttributeContext(request=AttributeContextRequest(http=http))))


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
