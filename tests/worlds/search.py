"""Runs many worlds, on all processors. Of a world in which a rule is broken, it finds the shortest that still breaks
it.

Worlds run in processes of their own: Python orders sets by hashes that differ from process to process, unless it is
told not to (``PYTHONHASHSEED``), and a seed must mean the same world everywhere.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from multiprocessing import get_context
from typing import NamedTuple

from tests.worlds import running
from tests.worlds.plan import PACE, WORDS, Plan, draw
from tests.worlds.running import Result

TRIES = 400
"""How many runs the shortening of a world may take."""


class Wanted(NamedTuple):
    """The options of a search."""

    steps: int
    faults: frozenset[str]
    ledger: str = ""
    """Empty: drawn."""
    gates: int = 0
    """0: drawn."""
    only: frozenset[int] | None = None
    """Leave out all steps but these."""
    often: Mapping[str, float] | None = None
    """How often a kind of step happens, if not as usual."""
    pace: Sequence[float] = PACE
    """Seconds from one step to the next."""
    words: Sequence[str] = WORDS
    """The kinds of workloads."""
    entrances: str = ""
    """Empty: drawn."""
    plant: Callable[[], AbstractContextManager[None]] | None = None
    """Plants a defect in the code while a world runs."""

    def plan(self, seed: int) -> Plan:
        """The world of a seed."""
        drawn = self.ledger, self.gates, self.often, self.pace, self.words, self.entrances
        plan = draw(seed, self.steps, self.faults, *drawn)
        if self.only is None:
            return plan
        return plan.without(frozenset(one.number for one in plan.steps) - self.only)


def search(wanted: Wanted, seeds: Iterable[int], jobs: int) -> Iterator[Result]:
    """Run the worlds of ``seeds``; results in the order of these."""
    remaining = iter(seeds)
    with workers(jobs) as pool:
        waiting = deque(pool.submit(run, wanted, seed) for seed in islice(remaining, 4 * jobs))
        try:
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(run, wanted, seed) for seed in islice(remaining, 1))
        finally:
            for one in waiting:
                one.cancel()


@contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes in which a seed means the same world everywhere."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            yield pool
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before


def run(wanted: Wanted, seed: int) -> Result:
    """Run one world. Only in a process of ``workers`` does its seed always mean the same."""
    with wanted.plant() if wanted.plant is not None else nullcontext():
        return running.run(wanted.plan(seed))


def shortest(wanted: Wanted, seed: int) -> Result:
    """The world of a seed without the steps that its broken rule does not need."""
    with workers(1) as pool:
        return pool.submit(_shortened, wanted, seed).result()


def _shortened(wanted: Wanted, seed: int) -> Result:
    with wanted.plant() if wanted.plant is not None else nullcontext():
        return minimised(running.run(wanted.plan(seed)))


def minimised(result: Result) -> Result:
    """Leave out steps as long as the same rule is broken: first many at once, then one by one."""
    assert result.violation is not None
    tries = 0
    size = max(len(result.plan.steps) // 2, 1)
    while True:
        shrunk = False
        at = 0
        while at < len(result.plan.steps) and tries < TRIES:
            left_out = frozenset(one.number for one in result.plan.steps[at : at + size])
            tries += 1
            tried = running.run(result.plan.without(left_out))
            if tried.violation is not None and tried.violation.rule == result.violation.rule:
                result, shrunk = tried, True
            else:
                at += size
        if tries >= TRIES or (size == 1 and not shrunk):
            return result
        size = max(size // 2, 1)
