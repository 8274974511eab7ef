"""What one tenant's open writes cost another tenant's checks, on a ledger that gates share in a real API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from tests.controlplane import parts
from tests.controlplane.marker import ALWAYS
from tests.controlplane.plane import running_plane

from . import sharing
from .figures import Figure, Goal, percentile
from .sharing import FULL, QUICK, Client, Size

__all__ = ["FULL", "QUICK", "measure"]

FLOOD = "flood"
QUIET = Goal(2.0)
SHARE = 0.95


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """The row; none where there is no API server."""
    if missing := parts.missing(ALWAYS):
        say(f"NOT MEASURED, a neighbour's open writes: {missing[0]}")
        return []
    say("starting a real API server, and a gate for two tenants")
    with running_plane() as plane, ExitStack() as stack:
        sharing.fill(plane, size)
        sharing.fill(plane, size, FLOOD)
        gate = stack.enter_context(sharing.gate(plane, "neighbours", "kubernetes", sharing.SERVE))
        return asyncio.run(_figures(Client(gate), size, say))


async def _figures(client: Client, size: Size, say: Callable[[str], None]) -> list[Figure]:
    growth = sharing.growth(size)
    async with client:
        await _latencies(client, growth, size.latencies)  # a new gate is slower at first
        quiet = await _latencies(client, growth, size.latencies)
        opened, refused = await _flood(client, size)
        say(f"{opened} writes of the other tenant are open, {refused} more were refused")
        beside = await _latencies(client, growth, size.latencies)
    name = f"shared ledger: p95 of a growing check beside {opened} open writes of another tenant, of {size.open} asked"
    return [Figure(name, f"{beside * 1e3:.2f} ms", f"{quiet * 1e3:.2f} ms", beside / quiet, QUIET)]


async def _latencies(client: Client, growth: Iterator[bytes], count: int) -> float:
    took = []
    for _ in range(count):
        start_s = time.perf_counter()
        assert await client.grow(next(growth))
        took.append(time.perf_counter() - start_s)
    return percentile(took, SHARE)


async def _flood(client: Client, size: Size) -> tuple[int, int]:
    """Ask for so many writes, and tell of none what became of it."""
    asked = [
        sharing.patch(number % size.workloads, sharing.FIRST_COUNT + number, namespace=FLOOD)
        for number in range(size.open)
    ]
    allowed = 0
    for start in range(0, len(asked), sharing.IN_FLIGHT):
        some = asked[start : start + sharing.IN_FLIGHT]
        answers = await asyncio.gather(*(client.ask(one) for one in some))
        allowed += sum(one.HasField("ok_response") for one in answers)
    return allowed, len(asked) - allowed
