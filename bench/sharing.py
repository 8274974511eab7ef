"""A ledger that gates share: decisions a write and a second against one write a decision, and what it adds to a write.

The real API server of ``make controlplane``; where that is not built, nothing of this is measured, and said so.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Self

import grpc.aio
from envoy.service.accesslog.v3.als_pb2 import StreamAccessLogsMessage
from envoy.service.auth.v3.external_auth_pb2 import CheckResponse

from extauthz.core.model import Request
from extauthz.demo.gate import Gate
from extauthz.serve.servers import access_log
from tests.controlplane import parts
from tests.controlplane.marker import ALWAYS
from tests.controlplane.plane import Plane, running_plane
from tests.support import numbered, objects

from . import inputs, one_by_one
from .check import METHOD, message
from .figures import Figure, Goal, figure
from .filling import define
from .machine import counted

Tree = Any
NAMESPACE = "team"
GATES = 2
"""Of each kind; all write the same object."""
IN_FLIGHT = 32
"""At each gate: as many as an Envoy worker may well have under way."""
A_WRITE = Goal(4.0, at_least=True)
FREE = Goal(0.0)
FIRST_COUNT = 1000


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    workloads: int
    rounds: int
    seconds: float
    """A kind of gate and round."""
    latencies: int
    open: int
    """Writes that another tenant asks for and that stay open."""
    free: int
    """Checks of each of the four kinds that cost no API call."""


FULL = Size(workloads=200, rounds=8, seconds=3.0, latencies=300, open=8000, free=100)
QUICK = Size(workloads=20, rounds=1, seconds=0.5, latencies=10, open=64, free=5)


@dataclass
class _Found:
    """What was measured, a value a round."""

    a_second: list[float] = field(default_factory=list)
    a_write: list[float] = field(default_factory=list)
    refused: int = 0


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """The rows; none where there is no API server."""
    if missing := parts.missing(ALWAYS):
        say(f"NOT MEASURED, a ledger that gates share: {missing[0]}")
        return []
    say("starting a real API server, and gates of three kinds")
    with running_plane() as plane, ExitStack() as stack:
        fill(plane, size)
        shared, single, memory = (
            [stack.enter_context(gate(plane, f"{name}-{n}", ledger, serve)) for n in range(count)]
            for name, ledger, serve, count in (
                ("shared", "kubernetes", SERVE, GATES),
                ("single", "kubernetes", one_by_one.SERVE, GATES),
                ("memory", "memory", SERVE, 1),
            )
        )
        free = _free(plane, size)
        return asyncio.run(_figures(size, (shared, single), memory[0], free, say))


def fill(plane: Plane, size: Size, namespace: str = NAMESPACE) -> None:
    """A tenant: a namespace, its quota, and Deployments of one replica."""
    define(plane)
    plane.api.create(objects.namespace(namespace, workspace=namespace))
    plane.api.create(objects.quota(namespace, {"pods": "1G"}))
    for number in range(size.workloads):
        plane.api.create(objects.scalable(f"web-{number}", namespace))


SERVE = [sys.executable, "-m", "tests.support.numbered", "serve"]
NUMBERS = {**inputs.UNBOUNDED, "tells_owners": 0}


def gate(plane: Plane, name: str, ledger: str, serve: Sequence[str]) -> Gate:
    flags = [
        f"--kubeconfig={plane.kubeconfig}",
        f"--ledger={ledger}",
        "--allow-unknown=unclean-start",
    ]
    return Gate(
        "kubernetes",
        "kubernetes",
        plane.folder / f"{name}.log",
        flags,
        serve=[*serve[:-1], *numbered.spelled(NUMBERS), "serve"],
    )


class Client:
    """Asks one gate, and tells it that the API server has refused what it allowed, so that nothing piles up."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._stack = AsyncExitStack()
        self._refusals: asyncio.Queue[bytes] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        channel = await self._stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{self.gate.port}"))
        self._check = channel.unary_unary(METHOD, response_deserializer=CheckResponse.FromString)
        channel.stream_unary(f"/{access_log.SERVICE}/StreamAccessLogs")(self._entries())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _entries(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._refusals.get()

    async def ask(self, request: bytes) -> CheckResponse:
        return await self._check(request)

    async def grow(self, request: bytes) -> bool:
        """Whether it was allowed."""
        said = await self.ask(request)
        if said.HasField("ok_response"):
            self._refusals.put_nowait(_refusal(said.dynamic_metadata["decision_id"]))
        return bool(said.HasField("ok_response"))


def _refusal(decision_id: str) -> bytes:
    message = StreamAccessLogsMessage()
    entry = message.http_logs.log_entry.add()
    entry.common_properties.upstream_request_attempt_count = 1
    entry.common_properties.metadata.filter_metadata[access_log.EXT_AUTHZ]["decision_id"] = decision_id
    entry.response.response_code.value = 409
    entry.response.response_code_details = "via_upstream"
    return bytes(message.SerializeToString())


def patch(number: int, replicas: int, query: str = "", namespace: str = NAMESPACE) -> bytes:
    """A CheckRequest of a merge patch of a scale."""
    return _request("PATCH", f"web-{number}", {"spec": {"replicas": replicas}}, query, namespace)


def _request(method: str, name: str, body: Tree, query: str = "", namespace: str = NAMESPACE) -> bytes:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale{query}"
    head = {"content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
    return message(Request(method, path, head, json.dumps(body).encode()))


def growth(size: Size) -> Iterator[bytes]:
    """Each workload in turn, and every time for one replica more."""
    for replicas in itertools.count(FIRST_COUNT):
        for number in range(size.workloads):
            yield patch(number, replicas)


def _free(plane: Plane, size: Size) -> list[bytes]:
    """Checks that cost no API call: zero targets, dry runs, refusals, and what the API server takes only on the version
    that is there and that grows nothing."""
    kinds = ((0, ""), (FIRST_COUNT, "?dryRun=All"), (2 * 10**9, ""))
    asked = [patch(n % size.workloads, *kind) for n in range(size.free) for kind in kinds]
    versions = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in plane.api.list("Deployment")}
    return asked + [_harmless(n % size.workloads, versions) for n in range(size.free)]


def _harmless(number: int, versions: Mapping[str, str]) -> bytes:
    """As an HPA writes the count that is there."""
    name = f"web-{number}"
    metadata = {"name": name, "namespace": NAMESPACE, "resourceVersion": versions[name]}
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": 1}}
    return _request("PUT", name, scale)


async def _figures(
    size: Size, kinds: Sequence[Sequence[Gate]], memory: Gate, free: Sequence[bytes], say: Callable[[str], None]
) -> list[Figure]:
    async with AsyncExitStack() as stack:
        ways = [[await stack.enter_async_context(Client(gate)) for gate in gates] for gates in kinds]
        alone = await stack.enter_async_context(Client(memory))
        requests = growth(size)
        found = [_Found(), _Found()]
        for number in range(size.rounds):
            for way, one in zip(ways, found, strict=True):
                await _round(way, requests, size.seconds, one)
            say(f"ledger that gates share, round {number + 1} of {size.rounds}: {found[0].a_second[-1]:.0f}/s")
        latency = await _latencies(ways[0][0], alone, requests, size.latencies)
        calls = await _calls_of(ways[0][0], free)
    if refused := [one.refused for one in found if one.refused]:
        say(f"refused as unavailable for want of an agreement in time: {refused}")
    return _rows(found, latency, calls, len(free))


async def _round(way: Sequence[Client], growth: Iterator[bytes], seconds: float, found: _Found) -> None:
    before = [(_metric(one.gate, "grants"), _metric(one.gate, "writes")) for one in way]
    start_s = time.perf_counter()
    allowed = 0

    async def worker(client: Client) -> None:
        nonlocal allowed
        while time.perf_counter() - start_s < seconds:
            if await client.grow(next(growth)):
                allowed += 1
            else:
                found.refused += 1

    await asyncio.gather(*(worker(client) for client in way for _ in range(IN_FLIGHT)))
    found.a_second.append(allowed / (time.perf_counter() - start_s))
    grants = sum(_metric(one.gate, "grants") - was for one, (was, _) in zip(way, before, strict=True))
    writes = sum(_metric(one.gate, "writes") - was for one, (_, was) in zip(way, before, strict=True))
    found.a_write.append(grants / writes)


def _metric(gate: Gate, what: str) -> float:
    """Conflicts are writes too, and so are those that only take out what has ended."""
    return counted(gate.page("/metrics"), f"extauthz_ledger_{what}_total")


async def _latencies(shared: Client, alone: Client, growth: Iterator[bytes], count: int) -> tuple[float, float]:
    """Medians of single growing writes, in turn; in seconds."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(count):
        for client, times in zip((shared, alone), took, strict=True):
            request = next(growth)
            start_s = time.perf_counter()
            assert await client.grow(request)
            times.append(time.perf_counter() - start_s)
    return median(took[0]), median(took[1])


async def _calls_of(client: Client, requests: Sequence[bytes]) -> float:
    """API calls that the gate made while it was asked these."""
    await _quiet(client.gate)
    before = _calls(client.gate)
    for request in requests:
        await client.ask(request)
    return _calls(client.gate) - before


async def _quiet(gate: Gate) -> None:
    """Until what has ended is taken out of the ledger."""
    calls = -1.0
    while calls != (calls := _calls(gate)):  # noqa: ASYNC110 (it is another process)
        await asyncio.sleep(1.0)


def _calls(gate: Gate) -> float:
    return counted(gate.page("/metrics"), "extauthz_api_calls_total")


def _rows(found: Sequence[_Found], latency: tuple[float, float], calls: float, checks: int) -> list[Figure]:
    shared, single = found
    name = "shared ledger: growing decisions"
    return [
        figure(f"{name} a ledger write, against one by one", shared.a_write, single.a_write, A_WRITE, digits=2),
        figure(f"{name} a second, against one by one", shared.a_second, single.a_second, unit="/s"),
        Figure(
            f"shared ledger adds {(latency[0] - latency[1]) * 1e3:+.1f} ms to a growing check",
            f"{latency[0] * 1e3:.2f} ms",
            f"{latency[1] * 1e3:.2f} ms",
            latency[0] / latency[1],
        ),
        Figure(
            "shared ledger: API calls of checks that grow nothing or are refused",
            f"{calls:.0f}",
            f"{checks} checks",
            calls / checks,
            FREE,
        ),
    ]
