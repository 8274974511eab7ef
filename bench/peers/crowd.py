"""A real API server with many Deployments, their ReplicaSets and pods; and how soon a gate is ready there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from bench.figures import Figure, Goal, figure
from bench.filling import DEPLOYMENTS, PODS, REPLICA_SETS, Size, define, fill, items
from bench.machine import family, processor_s
from extauthz.demo.gate import SERVE, Gate
from extauthz.inputs.kube.connection import connect
from tests.controlplane.plane import Plane, running_plane

LISTED = (DEPLOYMENTS, REPLICA_SETS, PODS)
READY = Goal(1.2)
READY_WITHIN_S = 300.0


FULL = Size(deployments=20_000, namespaces=200, quotas=50, starts=3, seconds=60.0, pods=1)
QUICK = Size(deployments=100, namespaces=4, quotas=2, starts=1, seconds=3.0, pods=1)


@contextmanager
def crowded(size: Size, say: Callable[[str], None]) -> Iterator[Plane]:
    """The API server, filled."""
    say(f"starting a real API server, and creating {size.deployments:,} Deployments with ReplicaSets and pods")
    with running_plane() as plane:
        define(plane)
        asyncio.run(fill(plane, size))
        yield plane


def ready(plane: Plane, size: Size, say: Callable[[str], None]) -> list[Figure]:
    """A list of the same objects and a start of the gate by turns."""
    found: Mapping[str, list[float]] = {name: [] for name in ("start", "start, processor", "list", "list, processor")}
    for number in range(size.starts):
        took_s, used_s = asyncio.run(_list(plane))
        found["list"].append(took_s)
        found["list, processor"].append(used_s)
        begin_s = time.monotonic()
        with started(plane, f"ready-{number}") as gate:
            found["start"].append(time.monotonic() - begin_s)
            found["start, processor"].append(processor_s(family(gate.pid)))
        told = ", ".join(f"{name} {times[-1]:.1f} s" for name, times in found.items())
        say(f"ready, round {number + 1} of {size.starts}: {told}")
    title = f"ready on {size.deployments:,} Deployments with their pods, against listing them"
    return [
        figure(title, found["start"], found["list"], READY, unit=" s", digits=1),
        figure(f"{title}: processor time", found["start, processor"], found["list, processor"], unit=" s", digits=1),
    ]


def started(plane: Plane, name: str, serve: Sequence[str] = SERVE) -> Gate:
    """A gate there, ready at the begin of its context."""
    flags = [f"--kubeconfig={plane.kubeconfig}", "--ledger=kubernetes", "--allow-unknown=unclean-start"]
    log = plane.folder / f"{name}.log"
    return Gate("kubernetes", "kubernetes", log, flags, serve=serve, within_s=READY_WITHIN_S)


async def _list(plane: Plane) -> tuple[float, float]:
    """Seconds, and those of this process's processor: page by page by the gate's own client, and nothing is kept."""
    async with connect(plane.kubeconfig) as connection:
        start_s, used_s = time.monotonic(), time.process_time()
        for resource in LISTED:
            async for _ in items(connection, resource):
                pass
        return time.monotonic() - start_s, time.process_time() - used_s
