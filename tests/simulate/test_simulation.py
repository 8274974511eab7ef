"""The share of simulated worlds that every run of the tests takes. `make simulate` takes an hour of them."""

from __future__ import annotations

import os
from random import SystemRandom

import pytest

from extauthz.simulate.objects import KINDS
from extauthz.simulate.plan import FAULTS, draw
from extauthz.simulate.search import Wanted, search
from extauthz.simulate.steps import TAKEN

JOBS = os.cpu_count() or 1

ALL = frozenset(FAULTS)


def broken(wanted: Wanted, seeds: range) -> list[str]:
    """What is wrong, with the seeds."""
    found = (result for result in search(wanted, seeds, JOBS) if result.violation is not None)
    return [f"seed {result.plan.seed}: {result.violation}" for result in found]


@pytest.mark.parametrize(("ledger", "worlds"), [("memory", 450), ("store", 150), ("kubernetes", 450)])
def test_no_rule_is_broken_where_everything_goes_wrong(ledger, worlds):
    assert broken(Wanted(steps=25, faults=ALL, ledger=ledger), range(worlds)) == []


def test_no_rule_is_broken_in_worlds_that_nobody_chose():
    """Of seeds drawn anew each time. A failure names the seed that `extauthz simulate --steps 60` runs again."""
    first = SystemRandom().randrange(1 << 32)
    assert broken(Wanted(steps=60, faults=ALL), range(first, first + 120)) == []


def test_no_rule_is_broken_where_guarantees_overrides_and_turns_come_and_go():
    """As ``extauthz simulate --seeds 200 --faults guarantees,overrides,turns``."""
    wanted = Wanted(steps=30, faults=frozenset({"guarantees", "overrides", "turns"}))
    assert broken(wanted, range(200)) == []


@pytest.mark.parametrize("ledger", ["memory", "kubernetes"])
def test_no_rule_is_broken_where_nothing_goes_wrong(ledger):
    assert broken(Wanted(steps=40, faults=frozenset(), ledger=ledger), range(1000, 1100)) == []


def test_a_seed_is_the_same_world_every_time_and_in_every_process():
    wanted = Wanted(steps=25, faults=ALL)
    first = list(search(wanted, range(20), 1))
    second = list(search(wanted, range(20), 2))
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
