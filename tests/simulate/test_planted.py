"""Every planted bug is caught by the simulation: not one survives. `-s` shows by which rule, and how fast."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from extauthz.simulate.plan import FAULTS, PACE, WORDS
from extauthz.simulate.search import Wanted, run, workers

BUGS = sorted(path.stem for path in (Path(__file__).parent / "planted").glob("*.py") if path.stem != "planting")

STEPS = 25
SEEDS = 1000
"""Worlds in which a bug may hide."""


class Caught(NamedTuple):
    rule: str
    what: str
    worlds: int
    steps: int


def hunt(name: str) -> Caught | None:
    """Look for a world that shows the bug. Runs in a worker process."""
    bug = import_module(f"tests.simulate.planted.{name}")
    faults = frozenset() if bug.FAULTS == "none" else frozenset(bug.FAULTS.split(","))
    assert faults <= FAULTS.keys()
    steps = getattr(bug, "STEPS", STEPS)
    wanted = Wanted(steps, faults, bug.LEDGER, getattr(bug, "GATES", 0), plant=bug.planted)
    wanted = wanted._replace(often=getattr(bug, "OFTEN", None), pace=getattr(bug, "PACE", PACE))
    wanted = wanted._replace(words=getattr(bug, "WORDS", WORDS), entrances=getattr(bug, "ENTRANCES", "envoy"))
    for seed in range(SEEDS):
        result = run(wanted, seed)
        if result.violation is not None:
            return Caught(*result.violation, seed + 1, (seed + 1) * steps)
    return None


@pytest.fixture(scope="module")
def hunters() -> Iterator[ProcessPoolExecutor]:
    with workers(os.cpu_count() or 1) as pool:
        yield pool


@pytest.fixture(scope="module")
def hunts(hunters):
    return {name: hunters.submit(hunt, name) for name in BUGS}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name, hunts):
    began_s = time.monotonic()
    caught = hunts[name].result()
    assert caught is not None, f"{name} survived {SEEDS} worlds"
    waited_s = time.monotonic() - began_s
    print(
        f"\n{name}: {caught.rule}, after {caught.worlds} worlds, {caught.steps} steps ({waited_s:.1f} s): {caught.what}"
    )
    assert caught.rule == import_module(f"tests.simulate.planted.{name}").CAUGHT_BY
