"""Which worlds with pods are run: only in a process of ``search.workers`` does a seed mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from tests.worlds.pods.plan import Plan, draw
from tests.worlds.pods.world import Result, run


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
        return draw(seed, **{name: value for name, value in self._asdict().items() if name != "plant"})


def run_one(wanted: Wanted, seed: int) -> Result:
    """Run one world."""
    with wanted.plant() if wanted.plant is not None else nullcontext():
        return run(wanted.plan(seed))
