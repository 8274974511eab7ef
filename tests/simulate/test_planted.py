"""Every planted bug is caught by the simulation: not one survives. `-s` shows by which rule, and how fast.

A bug of the entrances is looked for in worlds drawn on the day; ``EXTAUTHZ_SEED`` gives those of another day. The
others, and what few worlds show (``first``), are looked for in the same worlds each time.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from extauthz.core.ledger.ledger import Ledger
from extauthz.core.model import Decision, Verdict
from extauthz.serve.service.deciding import Deciding
from tests.simulate.planted import planting
from tests.simulate.planted.planting import BUGS, replaced
from tests.worlds.checks import FAILURE
from tests.worlds.pods import search as pods
from tests.worlds.search import Wanted, run, workers

FOLDER = Path(__file__).parent / "planted"
MODULES = {import_module(f"tests.simulate.planted.{path.stem}") for path in FOLDER.glob("*.py")} - {planting}

SEEDS = 1000
"""Worlds in which a bug may hide."""


DRAWN = int(os.environ.get("EXTAUTHZ_SEED") or random.SystemRandom().randrange(10**6, 10**9))
"""The first of the worlds of today."""


def first_seed(name: str) -> int:
    first = BUGS[name].first
    return DRAWN if first is None else first


class BadlyPlantedError(Exception):
    """The code that a bug changes is another one by now."""


class Caught(NamedTuple):
    rule: str
    what: str
    worlds: int
    steps: int


def hunt(name: str, first: int) -> Caught | None:
    """Look for a world, from seed ``first`` on, that shows the bug by its rule. Runs in a worker process."""
    bug = BUGS[name]
    for number in range(SEEDS):
        result = run(bug.wanted, first + number)
        if result.violation is not None and result.violation.rule == bug.caught_by:
            return Caught(*result.violation, number + 1, (number + 1) * bug.wanted.steps)
        if result.violation is not None and result.violation.rule == FAILURE:
            raise BadlyPlantedError(
                f"{name} fails in place of being wrong, in world {first + number}: {result.violation}"
            )
    return None


def test_each_file_names_bugs():
    assert {one.__name__ for one in MODULES} == {one.wanted.plant.__module__ for one in BUGS.values()}


@pytest.fixture(scope="module")
def hunters() -> Iterator[ProcessPoolExecutor]:
    with workers(os.cpu_count() or 1) as pool:
        yield pool


@pytest.fixture(scope="module")
def hunts(hunters):
    return {name: hunters.submit(hunt, name, first_seed(name)) for name in BUGS}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name, hunts):
    began_s = time.monotonic()
    caught = hunts[name].result()
    first = first_seed(name)
    assert caught is not None, f"{name} survived {SEEDS} worlds from seed {first}"
    waited_s = time.monotonic() - began_s
    print(
        f"\n{name}: {caught.rule}, after {caught.worlds} worlds from seed {first}, {caught.steps} steps "
        f"({waited_s:.1f} s): {caught.what}"
    )


def test_a_decision_that_fails_is_a_broken_rule_though_no_log_tells():
    def fails(self, ref, pending_write, expected=None, known=None):
        raise TypeError

    def in_silence(self, decision_id):
        return Decision(decision_id, Verdict.UNAVAILABLE, "internal-error", "")

    def planted():
        both = ExitStack()
        both.enter_context(replaced(Ledger, propose=fails))
        both.enter_context(replaced(Deciding, _failed=in_silence))
        return both

    for wanted, run_one in (
        (Wanted(5, frozenset(), "memory", plant=planted, entrances="envoy"), run),
        (pods.Wanted(5, frozenset(), plant=planted), pods.run_one),
    ):
        found = [run_one(wanted, seed).violation for seed in range(4)]
        assert FAILURE in [one.rule for one in found if one is not None]
