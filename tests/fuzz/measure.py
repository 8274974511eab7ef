"""What one request costs, and what it may cost: multiples of a floor that is measured in the same run."""

from __future__ import annotations

import json
import pickle
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar

from extauthz.core.effects.resolve import resolve
from extauthz.core.intake.aside import read_aside
from extauthz.core.intake.read import Reader
from extauthz.core.model import Observed, Request, Write
from extauthz.core.objects.workloads import intern, prune

from .shapes import KINDS

T = TypeVar("T")

READER = Reader()

OBJECT = "/apis/apps/v1/namespaces/shop/deployments/web"

FLOOR_BYTES = 64 * 1024

LOOP, LOOP_SCALE = 8, 2
"""Of the loop's time a body may take what ``json.loads`` takes for so many ordinary objects of 64 KiB, however long it
is. A scale has less."""

FIXED, PER_BYTE = 24, 40
"""Where it holds nobody up, a body of N bytes may take as much as FIXED of them, and PER_BYTE times N bytes of them."""

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
    loop_s: float
    """Seconds of the loop's time."""
    aside_s: float
    """Seconds where it holds nobody up."""
    result: str

    def ratio(self, floor_s: float) -> float:
        """Of the time allowed; above 1 it is too much."""
        on_loop = self.loop_s / (LOOP_SCALE if self.case.scale else LOOP)
        beside = self.aside_s / (FIXED + PER_BYTE * self.bytes / FLOOR_BYTES)
        return max(on_loop, beside) / floor_s


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
    return min(_timed(work)[0] for _ in range(times))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def request(case: Case, body: bytes) -> Request:
    method, content_type, _ = KINDS[case.kind]
    return Request(method, OBJECT + "/scale" * case.scale, {"content-type": content_type}, body)


def run(case: Case, body: bytes) -> str:
    """Read and resolve it once, as the gate does."""
    return _once(case, body)[2]


def _once(case: Case, body: bytes) -> tuple[float, float, str]:
    """Seconds of the loop's time, seconds aside, and what came of it. What is read aside comes back in bytes."""
    sent, base, aside_s = request(case, body), observed(case.containers), 0.0
    loop_s, found = _timed(lambda: READER.at_once(sent))
    if found is None:
        aside_s, raw = _timed(lambda: pickle.dumps(read_aside(sent)))
        took_s, found = _timed(lambda: pickle.loads(raw))
        loop_s += took_s
    if not isinstance(found, Write):
        return loop_s, aside_s, found.code
    took_s, outcome = _timed(lambda: resolve(found, base))
    return loop_s + took_s, aside_s, getattr(outcome, "code", "read")


def cost(case: Case, times: int = 1) -> Cost:
    body, base = case.body(), observed(case.containers)
    assert base is not None
    loops, asides, results = zip(*(_once(case, body) for _ in range(times)), strict=True)
    return Cost(case, len(body), min(loops), min(asides), results[-1])


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
