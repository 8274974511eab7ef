"""Runs many worlds with pods, in processes in which a seed means the same world everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from tests.worlds.pods.plan import Plan, draw
from tests.worlds.pods.world import Result, run
from tests.worlds.search import workers


class Wanted(NamedTuple):
    """The options of a search."""

    steps: int
    faults: frozenset[str]
    often: Mapping[str, float] | None = None
    words: tuple[str, ...] = ("deploy", "deploy", "sts", "crew")
    ledger: str = ""
    tiers: bool = False
    charges_surge: bool = False
    plant: Callable[[], AbstractContextManager[None]] | None = None
    """Plants a defect in the code while a world runs."""

    def plan(self, seed: int) -> Plan:
        """The world of a seed."""
        return draw(
            seed,
            self.steps,
            self.faults,
            often=self.often,
            words=self.words,
            ledger=self.ledger,
            tiers=self.tiers,
            charges_surge=self.charges_surge,
        )


def run_one(wanted: Wanted, seed: int) -> Result:
    """Run one world."""
    with wanted.plant() if wanted.plant is not None else nullcontext():
        return run(wanted.plan(seed))


def search(wanted: Wanted, seeds: Iterable[int], jobs: int) -> Iterator[Result]:
    """Run the worlds of ``seeds``; results in the order of these."""
    with workers(jobs) as pool:
        for task in [pool.submit(run_one, wanted, seed) for seed in seeds]:
            yield task.result()
