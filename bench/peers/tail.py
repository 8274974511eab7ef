"""The slowest decisions of a gate that is disturbed: writes at a steady pace on many workloads, while watches churn, a
quota changes each second, and somebody else writes the ledger each second."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.figures import Figure, Goal, percentile
from bench.filling import PODS, QUOTAS, Size, name_of, namespace_of
from extauthz.inputs.kube.connection import ApiError, Connection, connect
from extauthz.inputs.kube.resource import Resource
from tests.controlplane.access import service_account
from tests.controlplane.api import MERGE, path_of
from tests.controlplane.plane import Plane

from .crowd import FULL, QUICK, crowded, ready, started
from .timed import serve
from .ways import behind_envoy

Tree = Any

__all__ = ["FULL", "QUICK", "measure"]

RATE, CLIENTS = 200, 50
ENOUGH = 0.9
"""Of the rate."""
CHURN_S = 0.02
"""Between two changes of pods."""
LEDGERS = Resource("extauthz.dev", "v1alpha1", "workspaceledgers", "WorkspaceLedger", namespaced=False)
TOUCHES = 10
"""Of a ledger, one after the other, each second: one of them at least comes between the gate's reading and writing."""
NEAR = Goal(10.0)
CONFLICTS = 'extauthz_ledger_writes_total{result="conflict"}'


def measure(size: Size, programs: Path, say: Callable[[str], None]) -> list[Figure]:
    """The rows of a crowd: p99 and p99.9 of decisions, and how soon a gate is ready there."""
    with crowded(size, say) as plane:
        return [*_slowest(plane, size, programs, say), *ready(plane, size, say)]


def _slowest(plane: Plane, size: Size, programs: Path, say: Callable[[str], None]) -> list[Figure]:
    say(f"starting a gate behind Envoy: {RATE} writes a second of {CLIENTS} clients, for {size.seconds:g} s")
    file = plane.folder / "took.txt"
    with ExitStack() as stack:
        gate = stack.enter_context(started(plane, "tail", serve(file)))
        url = behind_envoy(plane, gate, stack)
        token = service_account(plane, namespace_of(0, size), "grower", "cluster-admin")
        command = growing(plane, size, programs, url, token)
        begin_s, conflicts = time.monotonic(), gate.metric(CONFLICTS)
        found, changes = asyncio.run(_disturbed(plane, size, command))
        end_s, conflicts = time.monotonic(), gate.metric(CONFLICTS) - conflicts
    took_ms = [1e3 * seconds for when, seconds in decisions(file.read_text()) if begin_s < when < end_s]
    seconds = found["seconds"]
    say(
        f"{len(found['scaled']) / seconds:.0f} writes a second, {found['failed']} failed; a second there were "
        f"{conflicts / seconds:.1f} conflicts, " + ", ".join(f"{n / seconds:.1f} {what}" for what, n in changes.items())
    )
    if found["why"]:
        say(f"the first that failed: {found['why']}")
    rate = len(found["scaled"]) / seconds
    return rows(took_ms, f"tail, {rate:.0f} growth writes a second", judged=rate >= ENOUGH * RATE)


def growing(plane: Plane, size: Size, programs: Path, url: str, token: str) -> list[str]:
    """The command of a client that writes counts at a steady pace, through ``url``."""
    workloads = plane.folder / "crowd.json"
    workloads.write_text(json.dumps(_workloads(size)))
    options = {"scale": url, "api": plane.url, "ca": plane.ca, "token": token, "workloads": workloads}
    options |= {"clients": CLIENTS, "rate": RATE, "seconds": size.seconds}
    return [str(programs / "grow"), *(f"-{name}={value}" for name, value in options.items())]


def decisions(text: str) -> Iterator[tuple[float, float]]:
    """When, and how long, in seconds."""
    for line in text.splitlines():
        when, seconds = line.split()
        yield float(when), float(seconds)


def rows(took_ms: list[float], title: str, *, judged: bool) -> list[Figure]:
    """The p99 is judged where the pace was kept: else it is the machine's queue that was measured."""
    middle = percentile(took_ms, 0.5)
    what = "of a decision, against the median"
    return [
        Figure(f"{title}: {name} {what}", f"{one:.2f} ms", f"{middle:.2f} ms", one / middle, goal)
        for name, one, goal in (
            ("p99", percentile(took_ms, 0.99), NEAR if judged else None),
            ("p99.9", percentile(took_ms, 0.999), None),
        )
    ]


def _workloads(size: Size) -> list[Tree]:
    """Where their scales are. No pods are made."""
    return [
        {"scale": path_of("Deployment", namespace_of(number, size), name_of(number), "scale")}
        for number in range(size.deployments)
    ]


async def _disturbed(plane: Plane, size: Size, command: list[str]) -> tuple[Tree, dict[str, int]]:
    """What the client found, and how often the disturbers changed something."""
    changes = {"pods changed": 0, "quotas changed": 0, "ledgers written by others": 0}
    async with connect(plane.kubeconfig) as connection:
        disturb = _Disturb(connection, size, changes)
        tasks = [asyncio.create_task(each()) for each in (disturb.pods, disturb.quotas, disturb.ledgers)]
        pipe = asyncio.subprocess.PIPE
        client = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        out, errors = await client.communicate()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert client.returncode == 0, errors.decode()
    return json.loads(out) | {"why": errors.decode()}, changes


class _Disturb:
    """Each for ever."""

    def __init__(self, connection: Connection, size: Size, changes: dict[str, int]) -> None:
        self._connection, self._size, self._changes = connection, size, changes

    async def pods(self) -> None:
        numbers = iter(range(10**9))

        async def one() -> None:
            number = next(numbers)
            name = f"{PODS.collection(namespace_of(number, self._size))}/{name_of(number % self._size.deployments)}-1-0"
            await self._patch(name, {"metadata": {"annotations": {"seen": str(number)}}}, "pods changed")

        await _every(CHURN_S, one)

    async def quotas(self) -> None:
        numbers = iter(range(10**9))

        async def one() -> None:
            number = next(numbers)
            name = f"{QUOTAS.collection(None)}/workspace-{number % self._size.quotas}"
            await self._patch(name, {"spec": {"hard": {"pods": str(10**6 + number)}}}, "quotas changed")

        await _every(1.0, one)

    async def ledgers(self) -> None:
        numbers = iter(range(10**9))

        async def one() -> None:
            found = (await self._connection.call("GET", LEDGERS.collection(None)))["items"]
            for _ in range(TOUCHES):
                for ledger in found:
                    name = f"{LEDGERS.collection(None)}/{ledger['metadata']['name']}"
                    tree = {"metadata": {"annotations": {"touched": str(next(numbers))}}}
                    await self._patch(name, tree, "ledgers written by others")

        await _every(1.0, one)

    async def _patch(self, path: str, tree: Tree, what: str) -> None:
        try:
            await self._connection.call("PATCH", path, body=tree, content_type=MERGE)
        except ApiError as error:
            if error.status != 409:
                raise
        self._changes[what] += 1


async def _every(seconds: float, one: Callable[[], Awaitable[None]]) -> None:
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    while True:
        await one()
        next_s = max(next_s + seconds, loop.time())
        await asyncio.sleep(next_s - loop.time())
