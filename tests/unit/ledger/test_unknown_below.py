"""What is of unknown cost under a quota takes no more of the quotas above than that one's limit. Its siblings go on."""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.model import Decision, Observed, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, gate, quota, scale, workload

CPU = "requests.cpu"
CORP = quota("corp", {CPU: "10"}, namespaces={"none": "such"})
SIBLING = quota("b", {CPU: "10"}, parent="corp")
NAMESPACES = {"team-a": {"workspace": "a"}, "team-b": {"workspace": "b"}, "team-c": {"workspace": "c"}}


def child(name: str = "a", cpus: int = 4, parent: str = "corp", **more: Any) -> Any:
    return quota(name, {CPU: str(cpus)}, parent=parent, **more)


def asker(*quotas: Any, of_unknown_cost: str = "team-a", known: int = 1) -> Asker:
    """``web`` of b has one CPU, and so many pods of one CPU are in team-a beside what is of unknown cost."""
    ask = Asker(gate([CORP, SIBLING, *quotas], workload("web", 1, namespace="team-b"), namespaces=NAMESPACES))
    ask.gate.observe(WorkloadRef("example.dev", "gadgets", of_unknown_cost, "gizmo"), Observed(2, None))
    if known:
        ask.gate.observe(*observe(workload("api", known)))
    return ask


def to(ask: Asker, replicas: int) -> Decision:
    return ask(scale("web", replicas, namespace="team-b"))


def test_a_sibling_has_what_the_limit_of_the_other_leaves():
    ask = asker(child())
    refused = to(ask, 7)
    assert (refused.verdict, refused.reason, refused.evidence.fits) == (Verdict.DENY, "exceeded-quota", 6)
    (short,) = refused.evidence.shortages
    assert (short.quota, short.used, short.reserved, short.hard) == ("corp", 2 * 10**9, 3 * 10**9, 10 * 10**9)
    assert to(ask, 6).verdict is Verdict.ALLOW
    assert ask(scale("api", 2)).reason == "unknown-usage", "its own use is not known"


def test_one_that_is_over_its_limit_takes_what_it_has():
    ask = asker(child(cpus=4), known=6)
    assert to(ask, 5).verdict is Verdict.DENY
    assert to(ask, 4).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "quotas",
    [
        pytest.param([quota("a", {"pods": "4"}, parent="corp")], id="it-does-not-limit-that"),
        pytest.param([child(mode="Audit")], id="it-only-audits"),
        pytest.param([child(requesters={"include": {"users": ["hpa"]}})], id="it-binds-some"),
    ],
)
def test_where_its_quota_bounds_nothing_of_that_nobody_knows(quotas: list[Any]):
    assert to(asker(*quotas), 2).reason == "unknown-usage"


def test_what_two_children_cover_hides_nothing_that_none_does():
    both = [child("a", 4), child("also", 4, namespaces={"workspace": "a"}), child("c", 4)]
    ask = asker(*both)
    assert to(ask, 2).reason == "fits"
    ask.gate.observe_namespace("team-d", {"none": "such"})
    ask.gate.observe(WorkloadRef("example.dev", "gadgets", "team-d", "gizmo"), Observed(2, None))
    assert to(ask, 3).reason == "unknown-usage"
    ask.gate.observe(WorkloadRef("example.dev", "gadgets", "team-d", "gizmo"), None)
    assert to(ask, 3).reason == "fits"


def test_of_a_grandchild_its_own_limit_counts():
    ask = asker(child("mid", 9, namespaces={"none": "such"}), child("a", 4, "mid"))
    assert to(ask, 7).verdict is Verdict.DENY
    assert to(ask, 6).verdict is Verdict.ALLOW


def test_a_change_of_limits_alone_keeps_that_in_mind():
    ask = asker(child())
    ask.gate.load_quotas(QuotaTree.build([CORP, SIBLING, child(cpus=2)]), 0.0)
    assert to(ask, 9).verdict is Verdict.DENY
    assert to(ask, 8).verdict is Verdict.ALLOW
    assert ask.gate.ledger.drift() == {}


def test_growth_in_the_child_itself_takes_of_what_is_set_aside_for_it():
    ask = asker(child(on_unknown={"unknownFootprint": "Allow"}))
    assert to(ask, 6).verdict is Verdict.ALLOW
    granted = ask(scale("api", 4))
    assert (granted.verdict, granted.reason) == (Verdict.ALLOW, "unknown-usage")
    assert ask(scale("api", 5)).verdict is Verdict.DENY
