"""What one request costs, and what it may cost: multiples of a floor that is measured in the same run."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from extauthz.core.effects.resolve import resolve
from extauthz.core.intake.read import read
from extauthz.core.model import Observed, Request, Write
from extauthz.core.objects.workloads import intern, prune

from .shapes import KINDS

OBJECT = "/apis/apps/v1/namespaces/shop/deployments/web"

FLOOR_BYTES = 64 * 1024

FIXED, PER_BYTE = 24, 40
"""A body of N bytes may take what ``json.loads`` takes for FIXED ordinary objects of 64 KiB, and for PER_BYTE times N
bytes of such objects."""

FIXED_SCALE = 4
"""The same of a body for a scale, which has no more for being long."""

MEMORY_FIXED, MEMORY_PER_BYTE = 4 << 20, 60
"""Bytes that are held at most while a body of N bytes is read, and per byte of it."""


class Case(NamedTuple):
    """A body by what makes it, so that it can be kept in a line."""

    kind: str
    shape: str
    size: int
    containers: int = 100
    """Of the workload that it is sent to."""
    scale: bool = False

    def body(self) -> bytes:
        return KINDS[self.kind][2][self.shape](self.size)


class Cost(NamedTuple):
    case: Case
    bytes: int
    seconds: float
    result: str

    def ratio(self, floor_s: float) -> float:
        """Of the time allowed; above 1 it is too much."""
        share = self.bytes / FLOOR_BYTES
        allowed = FIXED_SCALE if self.case.scale else FIXED + PER_BYTE * share
        return self.seconds / (allowed * floor_s)


@cache
def observed(containers: int) -> Observed:
    """A workload whose containers all ask for different amounts."""
    pods = [
        {"name": f"c{n}", "resources": {"requests": {"cpu": f"{n + 1}m"}, "limits": {"memory": f"{n + 1}Mi"}}}
        for n in range(containers)
    ]
    return Observed(3, intern(prune({"template": {"spec": {"containers": pods}}})), "app=web", "u", "7")


def floor_s() -> float:
    """Seconds of ``json.loads`` for an ordinary object of 64 KiB."""
    containers = [
        {
            "name": f"c{n}",
            "image": "registry.example/app:1",
            "env": [{"name": f"E{m}", "value": "x"} for m in range(20)],
        }
        for n in range(70)
    ]
    text = json.dumps({"spec": {"replicas": 3, "template": {"spec": {"containers": containers}}}})[: FLOOR_BYTES * 2]
    return fastest(lambda: json.loads(text), 9) * FLOOR_BYTES / len(text)


def fastest(work: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def run(case: Case, body: bytes) -> str:
    """Read and resolve it once, as the gate does."""
    method, content_type, _ = KINDS[case.kind]
    found = read(Request(method, OBJECT + "/scale" * case.scale, {"content-type": content_type}, body))
    if not isinstance(found, Write):
        return found.code
    outcome = resolve(found, observed(case.containers))
    return getattr(outcome, "code", "read")


def cost(case: Case, times: int = 1) -> Cost:
    body, base = case.body(), observed(case.containers)
    assert base is not None
    results: list[str] = []
    seconds = fastest(lambda: results.append(run(case, body)), times)
    return Cost(case, len(body), seconds, results[-1])


def peak_bytes(case: Case) -> int:
    """Bytes held at most while it is read and resolved."""
    body = case.body()
    observed(case.containers)
    tracemalloc.start()
    try:
        run(case, body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
