"""Growth through a real API server: without any quota, with a ResourceQuota, and with ours in both ways.

A growth is the write of a count, and the pods that it makes room for: a ResourceQuota charges these, ours the write.
Each way has an API server and an etcd of its own, so that nobody pays for another's. Controllers do not run: the client
makes the pods, and the ResourceQuota has the status that its controller gives it first.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Figure, Goal, figure, turns
from bench.machine import counted
from extauthz.demo.processes import page
from tests.controlplane.plane import Plane

from .ways import ENVOY, NONE, RESOURCE_QUOTA, WAYS, WEBHOOK, Way, running

Tree = Any

NOT_SLOWER = Goal(1.0)
AS_MANY = Goal(1.0, at_least=True)
CLIENTS = 32
FEW = 0.05
"""Of the writes. On a machine that others use too, one now and then is answered too late."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    workloads: int
    pods: tuple[int, ...]
    """How many pods a write makes room for; all rounds with each."""
    rounds: int
    seconds: float
    """A way and round with all clients; half of it with one."""


FULL = Size(workloads=64, pods=(1, 4), rounds=5, seconds=4.0)
QUICK = Size(workloads=32, pods=(1,), rounds=1, seconds=1.0)


@dataclass
class Found:
    """What was measured of a way, a value a round."""

    rates: list[float] = field(default_factory=list)
    """Growths a second of all clients."""
    medians_ms: list[float] = field(default_factory=list)
    """Of a growth, one at a time."""
    costs_ms: list[float] = field(default_factory=list)
    """Processor time of all servers of the way, a growth."""
    writes: list[float] = field(default_factory=list)
    """Of etcd, a growth."""
    growths: int = 0
    used_s: Counter[str] = field(default_factory=Counter)
    """Processor time of all rounds, by program."""

    def __str__(self) -> str:
        each = (f"{name} {1e3 * used_s / self.growths:.2f} ms" for name, used_s in self.used_s.most_common() if used_s)
        return ", ".join(each)


def measure(size: Size, programs: Path, say: Callable[[str], None]) -> list[Figure]:
    """The rows, for each number of pods."""
    say("starting four API servers, two gates and an Envoy")
    rows = []
    with ExitStack() as stack:
        ways = {name: stack.enter_context(running(name, size.workloads)) for name in WAYS}
        for pods in size.pods:
            found = {name: Found() for name in WAYS}
            for way in ways.values():
                _run(programs, way, pods, CLIENTS, size.seconds / 4)
            for number, names in enumerate(turns(WAYS, size.rounds), start=1):
                for name in names:
                    _round(programs, ways[name], pods, size.seconds, found[name])
                told = ", ".join(f"{name} {one.rates[-1]:.0f}/s" for name, one in found.items())
                say(f"growth by {pods}, round {number} of {size.rounds}: {told}")
            for name, one in found.items():
                say(f"growth by {pods}, {name}: processor time of a growth: {one}")
            rows += _rows(found, pods)
        for name, way in ways.items():
            assert name == NONE or way.charged() >= way.sent, (
                f"{name} counted {way.charged():.0f} of {way.sent} growths"
            )
    return rows


def _rows(found: Mapping[str, Found], pods: int) -> list[Figure]:
    def rows(one: str, other: str, *, judged: bool) -> list[Figure]:
        ours, theirs = found[one], found[other]
        title = f"growth by {pods}, {one} against {other}"
        slower, many = (NOT_SLOWER, AS_MANY) if judged else (None, None)
        return [
            figure(f"{title}: growths a second", ours.rates, theirs.rates, many, unit="/s"),
            figure(f"{title}: one at a time", ours.medians_ms, theirs.medians_ms, slower, unit=" ms", digits=2),
            figure(f"{title}: processor time", ours.costs_ms, theirs.costs_ms, slower, unit=" ms", digits=2),
            figure(f"{title}: etcd writes", ours.writes, theirs.writes, slower, digits=2),
        ]

    against = [row for way in (ENVOY, WEBHOOK) for row in rows(way, RESOURCE_QUOTA, judged=True)]
    return [*against, *(row for way in WAYS[1:] for row in rows(way, NONE, judged=False))]


def _round(programs: Path, way: Way, pods: int, seconds: float, found: Found) -> None:
    """First with all clients, and then with one."""
    writes, used_s = _writes(way.plane), way.used_s()
    many = _run(programs, way, pods, CLIENTS, seconds)
    growths = len(many["grown"])
    found.rates.append(growths / many["seconds"])
    used_s = way.used_s() - used_s
    found.costs_ms.append(1e3 * used_s.total() / growths)
    found.used_s += used_s
    found.growths += growths
    found.writes.append((_writes(way.plane) - writes) / growths)
    found.medians_ms.append(1e3 * median(_run(programs, way, pods, 1, seconds / 2)["grown"]))


def _run(programs: Path, way: Way, pods: int, clients: int, seconds: float) -> Tree:
    flags = {
        "scale": way.scale_url,
        "api": way.plane.url,
        "ca": way.plane.ca,
        "token": way.token,
        "workloads": way.plane.folder / "workloads.json",
        "clients": clients,
        "pods": pods,
        "start": way.count,
        "seconds": seconds,
    }
    command = [str(programs / "grow"), *(f"-{name}={value}" for name, value in flags.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] <= FEW * len(found["grown"]), f"{found['failed']} failed: {done.stderr}"
    way.count = found["last"]
    way.sent += len(found["grown"]) - found["failed"]
    return found


def _writes(plane: Plane) -> float:
    """Of keys, as etcd counts them: those of the API server's own leases too."""
    metrics = page(f"{plane.etcd_url}/metrics", within_s=30)
    return counted(metrics, "etcd_mvcc_put_total ", "etcd_mvcc_delete_total ")
