"""What reading one body costs, and what it may cost: multiples of a floor that is measured in the same run."""

from __future__ import annotations

import json
import pickle
import time
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from extauthz.core.intake import admission
from extauthz.core.intake.counts import Reader
from extauthz.core.model import Reading, Request, Unreadable

from .shapes import KINDS, REVIEW

T = TypeVar("T")

READER = Reader()

OBJECT = "/apis/apps/v1/namespaces/shop/deployments/web"

FLOOR_BYTES = 64 * 1024

LOOP, LOOP_COUNT = 8, 2
"""Of the loop's time a body may take what ``json.loads`` takes for so many ordinary objects of 64 KiB, however long it
is. A count has less."""

FIXED, PER_BYTE = 24, 40
"""Where it holds nobody up, a body of N bytes may take as much as FIXED of them, and PER_BYTE times N bytes of them."""

MEMORY_FIXED, MEMORY_PER_BYTE = 4 << 20, 60
"""Bytes that are held at most while a body of N bytes is read, and per byte of it."""


class Case(NamedTuple):
    """A body by what makes it, so that it can be kept in a line."""

    kind: str
    shape: str
    size: int
    scale: bool = False
    """It is sent to the scale; without meaning for a review."""

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
        on_loop = self.loop_s / (LOOP if self.case.kind == REVIEW else LOOP_COUNT)
        beside = self.aside_s / (FIXED + PER_BYTE * self.bytes / FLOOR_BYTES)
        return max(on_loop, beside) / floor_s


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


def run(case: Case, body: bytes) -> str:
    """Read it once, as the gate does."""
    return _once(case, body)[2]


def _once(case: Case, body: bytes) -> tuple[float, float, str]:
    """Seconds of the loop's time, seconds aside, and what came of it."""
    if case.kind == REVIEW:
        return _review(body)
    method, content_type, _ = KINDS[case.kind]
    request = Request(method, OBJECT + "/scale" * case.scale, {"content-type": content_type}, body)
    loop_s, found = _timed(lambda: READER(request))
    return loop_s, 0.0, _result(found)


def _review(body: bytes) -> tuple[float, float, str]:
    """The same of an AdmissionReview. What is read aside comes back in bytes."""
    aside_s = 0.0
    loop_s, found = _timed(lambda: admission.read_at_once(body))
    if found is None:
        aside_s, raw = _timed(lambda: pickle.dumps(admission.read(body)))
        took_s, found = _timed(lambda: admission.kept(pickle.loads(raw)))
        loop_s += took_s
    return loop_s, aside_s, _result(found if isinstance(found, Unreadable) else found.question.reading)


def _result(found: Reading) -> str:
    return found.code if isinstance(found, Unreadable) else "read"


def cost(case: Case, times: int = 1) -> Cost:
    body = case.body()
    loops, asides, results = zip(*(_once(case, body) for _ in range(times)), strict=True)
    return Cost(case, len(body), min(loops), min(asides), results[-1])


def peak_bytes(case: Case) -> int:
    """Bytes held at most while it is read."""
    body = case.body()
    tracemalloc.start()
    try:
        run(case, body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
