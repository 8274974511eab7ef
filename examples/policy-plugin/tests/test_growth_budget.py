"""The policy by itself, in a gate, and as the gate finds it once it is installed."""

from __future__ import annotations

import pytest
from growth_budget import GrowthBudget, from_environment

from extauthz.core.ledger.entry import Event
from extauthz.core.model import Refusal, Verdict, WorkloadRef
from extauthz.core.policies import Enlisted, Policies
from extauthz.inputs.policies import Fate, Growth, Limit, NotYet
from extauthz.inputs.policies.plugins import enlisted
from extauthz.testing import Asker, gate, quota, scale, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


def growth(name: str, before: int, to: int, now_s: float = 0.0) -> Growth:
    return Growth(name, WEB, "patch", before, to, {}, None, (), None, now_s, now_s)


def test_a_workload_grows_by_the_budget() -> None:
    budget = GrowthBudget(4, 60.0)
    assert budget.limit(growth("a", 2, 9)) == Limit(6, "4 more replicas within 60 s")
    assert budget.permit(growth("a", 2, 5)) is None
    budget.reserve(growth("a", 2, 5))
    assert budget.limit(growth("b", 5, 9, 10.0)) == Limit(6, "1 more replicas within 60 s")


def test_once_it_is_spent_it_says_when_to_ask_again() -> None:
    budget = GrowthBudget(3, 60.0)
    budget.reserve(growth("a", 2, 5))
    assert budget.limit(growth("b", 5, 6, 20.0)) is None
    assert budget.permit(growth("b", 5, 6, 20.0)) == NotYet("it grew by 3 replicas within 60 s", 40.0)
    assert budget.permit(growth("b", 5, 6, 60.0)) is None


def test_in_a_line_who_grew_by_less_of_late_comes_first() -> None:
    budget = GrowthBudget(5_000, 60.0)
    assert budget.rank(growth("a", 2, 5)) == 0
    budget.reserve(growth("a", 2, 5))
    assert budget.rank(growth("b", 5, 9, 10.0)) == 3
    budget.reserve(growth("b", 5, 2_005, 10.0))
    assert budget.rank(growth("c", 2_005, 2_006, 20.0)) == 1_000, "as large as it may be"
    assert budget.rank(growth("c", 2_005, 2_006, 90.0)) == 0


def test_another_template_is_no_growth_of_the_count() -> None:
    budget = GrowthBudget(1, 60.0)
    budget.reserve(growth("a", 2, 3))
    assert budget.permit(growth("b", 3, 3)) is None


def test_a_grant_that_is_told_twice_counts_once_and_may_be_given_back() -> None:
    budget = GrowthBudget(3, 60.0)
    for _ in range(2):
        budget.reserve(growth("a", 2, 5))
    assert budget.permit(growth("b", 5, 6)) is not None
    for _ in range(2):
        budget.after(growth("a", 2, 5), Fate.NOT_SENT)
    assert budget.permit(growth("b", 2, 6)) is None
    budget.reserve(growth("c", 2, 5))
    budget.after(growth("c", 2, 5), Fate.LANDED)
    assert budget.permit(growth("d", 5, 6)) is not None


def test_in_a_gate() -> None:
    made = gate([quota("acme", {"pods": "50"})], workload("web", 2))
    made.enlist(Policies([Enlisted("growth-budget", GrowthBudget(3, 60.0))]))
    ask = Asker(made)
    assert ask(scale("web", 9)).evidence.fits == 5
    granted = ask(scale("web", 5))
    assert granted.verdict is Verdict.ALLOW
    held = ask(scale("web", 6))
    assert held.refusal is Refusal.HELD_BY_POLICY
    assert held.sentence == (
        'deployments.apps "web" is forbidden: policy growth-budget: it grew by 3 replicas within 60 s; '
        "ask again in about 60 s"
    )
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    made.ledger.pending.settle(granted.id, Event.NOT_FORWARDED, 1.0)
    assert ask(scale("web", 5)).verdict is Verdict.ALLOW


def test_in_the_line_of_a_quota_with_turns() -> None:
    root = quota("root", {"pods": "10"}, turn_s=300)
    teams = [quota(f"team-{name}", {"pods": "10"}, parent="root", namespaces={"team": name}) for name in "ab"]
    objects = [workload("web", 4, namespace=f"team-{name}") for name in "ab"]
    made = gate([root, *teams], *objects, namespaces={f"team-{name}": {"team": name} for name in "ab"})
    made.enlist(Policies([Enlisted("growth-budget", GrowthBudget(9, 60.0))]))
    ask = Asker(made)
    assert ask(scale("web", 5, namespace="team-a")).verdict is Verdict.ALLOW
    for name, wanted in (("a", 7), ("b", 7)):
        made.answered(ask(scale("web", wanted, namespace=f"team-{name}")), ask.now_s)
    waiting = made.ledger.turns.waiting("root", ask.now_s)
    assert [one.ref.namespace for one in waiting] == ["team-b", "team-a"]


def test_it_is_set_up_from_the_environment() -> None:
    budget = from_environment({"GROWTH_BUDGET": "7", "GROWTH_BUDGET_S": "30"})
    assert budget.limit(growth("a", 1, 99)) == Limit(8, "7 more replicas within 30 s")


def test_the_gate_finds_it_by_its_entry_point() -> None:
    (one,) = enlisted(["growth-budget"])
    if not isinstance(one.policy, GrowthBudget):
        pytest.fail(f"{one.policy}: install this folder first: pip install examples/policy-plugin")
