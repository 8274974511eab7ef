"""The share of simulated worlds that every run of the tests takes. `make simulate` takes an hour of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from random import SystemRandom

import pytest

from extauthz.cli import exits
from extauthz.inputs.settlement import reads
from tests.simulate.planted.planting import replaced
from tests.simulate.planted.store import verdict_lost_on_conflict
from tests.worlds.__main__ import main
from tests.worlds.objects import KINDS
from tests.worlds.plan import FAULTS, draw
from tests.worlds.search import Wanted, run, search, shortest, workers
from tests.worlds.steps import TAKEN

JOBS = os.cpu_count() or 1

ALL = frozenset(FAULTS)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with workers(JOBS) as pool:
        yield pool


def broken(pool: ProcessPoolExecutor, wanted: Wanted, seeds: range) -> list[str]:
    """What is wrong, with the seeds."""
    found = (result for result in pool.map(partial(run, wanted), seeds) if result.violation is not None)
    return [f"seed {result.plan.seed}: {result.violation}" for result in found]


@pytest.mark.parametrize(("ledger", "worlds"), [("memory", 150), ("store", 100), ("kubernetes", 250)])
def test_no_rule_is_broken_where_everything_goes_wrong(ledger: str, worlds: int, pool: ProcessPoolExecutor):
    assert broken(pool, Wanted(steps=25, faults=ALL, ledger=ledger), range(worlds)) == []


def test_no_rule_is_broken_in_worlds_that_nobody_chose(pool: ProcessPoolExecutor):
    """Of seeds drawn anew each time. A failure names the seed that `python -m tests.worlds --steps 60` runs again."""
    first = SystemRandom().randrange(1 << 32)
    assert broken(pool, Wanted(steps=60, faults=ALL), range(first, first + 120)) == []


def no_workload_is_read_by_itself() -> AbstractContextManager[None]:
    return replaced(reads, SEVERAL=1)


def test_no_rule_is_broken_where_each_write_waits_for_the_watch(pool: ProcessPoolExecutor):
    """Unless that does not catch up. Of seeds drawn anew each time."""
    first = SystemRandom().randrange(1 << 32)
    wanted = Wanted(steps=40, faults=ALL, plant=no_workload_is_read_by_itself)
    assert broken(pool, wanted, range(first, first + 80)) == []


def test_no_rule_is_broken_where_guarantees_overrides_and_turns_come_and_go(pool: ProcessPoolExecutor):
    """As ``python -m tests.worlds --seeds 100 --faults guarantees,overrides,turns``."""
    wanted = Wanted(steps=30, faults=frozenset({"guarantees", "overrides", "turns"}))
    assert broken(pool, wanted, range(100)) == []


@pytest.mark.parametrize("ledger", ["memory", "kubernetes"])
def test_no_rule_is_broken_where_nothing_goes_wrong(ledger: str, pool: ProcessPoolExecutor):
    assert broken(pool, Wanted(steps=40, faults=frozenset(), ledger=ledger), range(1000, 1050)) == []


def test_a_seed_is_the_same_world_every_time_and_in_every_process(pool: ProcessPoolExecutor):
    wanted = Wanted(steps=25, faults=ALL)
    first = list(search(wanted, range(20), 1))
    second = list(pool.map(partial(run, wanted), range(20)))
    assert [one.trace for one in first] == [one.trace for one in second]
    assert len({one.trace for one in first}) == 20


def test_worlds_have_every_kind_of_workload_and_every_kind_of_step():
    plans = [draw(seed, 30, ALL) for seed in range(200)]
    assert {name.split("-")[1] for plan in plans for name in plan.workloads} == set(KINDS)
    assert {step.what for plan in plans for step in plan.steps} == set(TAKEN)
    assert {plan.faults == ALL for plan in plans} == {True, False}


def test_steps_that_are_left_out_change_nothing_else_in_the_plan():
    plan = draw(7, 30, ALL)
    shorter = plan.without(frozenset({3, 4}))
    assert [one for one in plan.steps if one.number not in (3, 4)] == list(shorter.steps)
    assert (shorter.quotas, shorter.workloads, shorter.gates) == (plan.quotas, plan.workloads, plan.gates)


# ``python -m tests.worlds``, and how a world that breaks a rule is made shorter.


def test_worlds_in_which_all_is_well_end_with_a_line_that_counts_them(capsys):
    assert main(["--seeds", "4", "--steps", "8", "--jobs", "2"]) == 0
    assert capsys.readouterr().out.startswith("4 worlds, 32 steps, ")


def test_a_trace_tells_what_happened_and_how_it_ended(capsys):
    assert main(["--seed", "3", "--steps", "8", "--faults", "none", "--only", "1,2", "--trace"]) == 0
    out = capsys.readouterr().out
    assert "step 1: " in out
    assert "step 3: " not in out
    assert out.endswith("no rule was broken\n")


@pytest.mark.parametrize(("flag", "value"), [("--faults", "lag,gremlins"), ("--only", "1;2")])
def test_wrong_usage_is_told_with_the_flag(flag, value, capsys):
    assert main([flag, value]) == exits.USAGE
    assert flag in capsys.readouterr().err


def test_a_world_that_breaks_a_rule_is_made_shorter_and_still_breaks_it():
    wanted = Wanted(25, frozenset({"lag"}), "kubernetes", plant=verdict_lost_on_conflict)
    found = next(one for one in search(wanted, range(60, 200), 2) if one.violation is not None)
    short = shortest(wanted, found.plan.seed)
    assert short.violation.rule == found.violation.rule == "never over"
    assert len(short.plan.steps) < len(found.plan.steps) / 2
    numbers = frozenset(step.number for step in short.plan.steps)
    assert next(search(wanted._replace(only=numbers), [found.plan.seed], 1)).violation == short.violation


def test_one_world_is_one_world(capsys):
    assert main(["--seed", "1", "--steps", "3", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 world, 3 steps, ")


@pytest.mark.parametrize(
    ("seed", "steps", "only"),
    [
        (4105755017, 60, "0,7"),
        (710689186, 60, "7,11,16,24,31,36"),
        (5000135, 60, "13,16,18,22"),
        (110312943, 60, "16,23,27,29"),
        (110314297, 60, "1,2,3,4,9,15,17,18,19"),
        (459493807, 500, "0,1,3,4,19"),
    ],
    ids=[
        "what may move uses no guarantee",
        "what pends on a family is no licence",
        "two overrides near one edge",
        "a grant whose client has gone",
        "labels that a write leaves as they are",
        "claims that are seen before their owner",
    ],
)
def test_worlds_that_were_red(seed: int, steps: int, only: str, pool: ProcessPoolExecutor):
    """The first two by the gate, the others by their judge."""
    wanted = Wanted(steps, ALL, only=frozenset(map(int, only.split(","))))
    assert broken(pool, wanted, range(seed, seed + 1)) == []
