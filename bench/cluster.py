"""A gate on a live cluster: time until it is ready, what a workload costs it, what it asks the API server when idle.

The real API server of ``make controlplane``; where that is not built, nothing of this is measured, and said so.

``python -m bench.cluster --deployments 5000 --namespaces 120 --quotas 40 --pods 2`` says the same of another size.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from extauthz.demo.gate import Gate
from extauthz.demo.processes import page
from extauthz.inputs.kube.connection import connect
from tests.controlplane import parts
from tests.controlplane.plane import Plane, running_plane
from tests.waiting import eventually

from .figures import Figure, figure
from .filling import DEPLOYMENTS, Size, define, fill, items
from .machine import counted, memory_bytes

NEEDED = ("etcd", "kube-apiserver", "kubectl")


FULL = Size(deployments=20_000, namespaces=500, quotas=50, starts=3, seconds=60.0)
QUICK = Size(deployments=100, namespaces=5, quotas=2, starts=1, seconds=2.0)


@dataclass
class _Found:
    """What was measured."""

    ready_s: list[float] = field(default_factory=list)
    list_s: list[float] = field(default_factory=list)
    """Each just before a start."""
    resident_bytes: int = 0
    """More than that of a gate on an empty cluster."""
    whole_bytes: int = 0
    json_bytes: int = 0
    calls: float = 0.0
    """A minute, when idle."""
    calls_without: float = 0.0


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """The three rows; none where there is no API server."""
    if missing := parts.missing(NEEDED):
        say(f"NOT MEASURED, a live cluster: {missing[0]}")
        return []
    say("starting a real API server")
    with running_plane() as plane:
        found = _found(plane, size, say)
    count, each = f"live cluster, {size.deployments:,} Deployments", 1 / size.deployments
    return [
        figure(f"{count}: ready, against a plain list", found.ready_s, found.list_s, unit=" s", digits=1),
        Figure(
            f"{count}: memory of one, against its JSON",
            f"{found.resident_bytes * each:,.0f} B",
            f"{found.json_bytes * each:,.0f} B",
            found.resident_bytes / found.json_bytes,
        ),
        Figure(
            f"{count}: API calls when idle, against no gate",
            f"{found.calls:.0f}/min",
            f"{found.calls_without:.0f}/min",
            found.calls / max(found.calls_without, 1.0),
        ),
    ]


def _found(plane: Plane, size: Size, say: Callable[[str], None]) -> _Found:
    define(plane)
    with _gate(plane) as gate:
        empty_bytes = memory_bytes([gate.pid], "VmRSS")
    say(f"creating {size.deployments:,} Deployments in {size.namespaces} namespaces")
    asyncio.run(fill(plane, size))
    found = _Found()
    say("looking at the API server by itself")
    found.calls_without = _calls_a_minute(plane, size.seconds)
    for number in range(size.starts):
        found.json_bytes, list_s = asyncio.run(_list(plane))
        found.list_s.append(list_s)
        start = time.monotonic()
        with _gate(plane) as gate:
            found.ready_s.append(time.monotonic() - start)
            times = f"ready after {found.ready_s[-1]:.1f} s, a plain list {list_s:.1f} s"
            say(f"start {number + 1} of {size.starts}: {times}")
            if number == size.starts - 1:
                found.whole_bytes = memory_bytes([gate.pid], "VmRSS")
                found.resident_bytes = found.whole_bytes - empty_bytes
                _await_idle(gate)
                say("looking at the API server under an idle gate")
                found.calls = _calls_a_minute(plane, size.seconds)
    return found


@contextmanager
def _gate(plane: Plane) -> Iterator[Gate]:
    flags = [f"--kubeconfig={plane.kubeconfig}", "--ledger=memory", "--window-s=1"]
    with Gate("kubernetes", "kubernetes", plane.folder / "gate.log", flags) as gate:
        yield gate


async def _list(plane: Plane) -> tuple[int, float]:
    """Bytes of the Deployments' JSON, and the seconds that listing took: page by page, and nothing made of it."""
    async with connect(plane.kubeconfig) as connection:
        start = time.monotonic()
        sizes = [len(json.dumps(item)) async for item in items(connection, DEPLOYMENTS)]
        return sum(sizes), time.monotonic() - start


def _await_idle(gate: Gate) -> None:
    """Growth is no longer held, and the statuses of all quotas are written: two looks in a row show no write."""
    eventually(lambda: not gate.holding)
    writes = -1.0
    while writes != (writes := gate.metric('extauthz_api_calls_total{verb="patch"}')):
        time.sleep(3)


def _calls_a_minute(plane: Plane, seconds: float) -> float:
    """What the API server counts of requests to it, its own among them."""
    before = _requests(plane)
    time.sleep(seconds)
    return (_requests(plane) - before) * 60 / seconds


def _requests(plane: Plane) -> float:
    return counted(page(f"{plane.url}/metrics", within_s=30, context=plane.tls), "apiserver_request_total{")


def main() -> None:
    """Measure a size of one's own."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    for name, default in (("deployments", 5_000), ("namespaces", 120), ("quotas", 40), ("pods", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    size = Size(**vars(parser.parse_args()), starts=2, seconds=5.0)
    with running_plane() as plane:
        found = _found(plane, size, print)
    print(f"ready after {median(found.ready_s):.1f} s, a plain list {median(found.list_s):.1f} s")
    whole, more = found.whole_bytes / 2**20, found.resident_bytes / 2**20
    print(f"memory {whole:.0f} MiB, {more:.0f} MiB more than on an empty cluster")


if __name__ == "__main__":
    main()
