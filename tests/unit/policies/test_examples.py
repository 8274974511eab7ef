"""The policies of examples/quota-policies: what each refuses, and what it lets pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Decision, Refusal, Requester, Verdict
from extauthz.core.quota.tree import QuotaTree
from extauthz.policies import cel
from extauthz.sources import file as quota_file
from extauthz.testing.builders import Asker, gate, quota, scale, workload

QUOTAS = Path(__file__).parents[3] / "examples" / "quota-policies" / "quota.yaml"
HPA = Requester("system:serviceaccount:kube-system:horizontal-pod-autoscaler")
BOTH = {"cpu": "1", "memory": "1Gi"}
APPROVED = {"annotations": {"policy.extauthz.dev/approved-up-to": "40"}}


def only(name: str, *objects: dict[str, Any]) -> Gate:
    """A gate with that one of the policies, which enforces."""
    (node,) = quota_file.load(QUOTAS).tree.nodes
    policies = tuple(replace(one, audits=False) for one in node.quota.policies if one.name == name)
    made = gate([], *objects)
    made.load_quotas(QuotaTree.build([replace(node.quota, policies=policies)]), 0.0)
    return made


def asked(name: str, before: int, to: int, by: Requester | None = None, at: str = "", **metadata: Any) -> Decision:
    made = only(name, workload("web", before, metadata.pop("requests", BOTH), **metadata))
    made.epoch_s = datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() if at else 0.0
    return Asker(made)(scale("web", to), by=by)


@pytest.mark.parametrize(("before", "to", "fits"), [(3, 6, None), (3, 7, 6), (0, 4, None), (0, 5, 4), (7, 1, None)])
def test_not_more_than_double(before: int, to: int, fits: int | None) -> None:
    found = asked("no-more-than-double", before, to)
    assert found.evidence.fits == fits
    assert (found.reason == "policy-refused") is (fits is not None)


@pytest.mark.parametrize(
    ("at", "grows"),
    [
        ("2026-07-01T05:59:59", False),  # a Wednesday; Berlin is two hours ahead of UTC
        ("2026-07-01T06:00:00", True),
        ("2026-07-01T15:59:59", True),
        ("2026-07-01T16:00:00", False),
        ("2026-07-04T10:00:00", False),  # a Saturday
        ("2026-12-02T07:30:00", True),  # winter: one hour
        ("2026-12-02T06:30:00", False),
    ],
)
def test_business_hours(at: str, grows: bool) -> None:
    assert (asked("business-hours", 2, 3, at=at).verdict is Verdict.ALLOW) is grows
    assert asked("business-hours", 2, 1, at=at).verdict is Verdict.ALLOW


def test_approval_above_20_by_an_annotation() -> None:
    assert asked("approval-above-20", 2, 20).verdict is Verdict.ALLOW
    refused = asked("approval-above-20", 2, 21)
    assert refused.refusal is Refusal.FORBIDDEN_BY_POLICY
    assert refused.sentence == (
        'deployments.apps "web" is forbidden: policy approval-above-20 of workspace quota acme: more than 20 replicas '
        "need the annotation policy.extauthz.dev/approved-up-to"
    )
    assert asked("approval-above-20", 2, 40, **APPROVED).verdict is Verdict.ALLOW
    assert asked("approval-above-20", 2, 41, **APPROVED).reason == "policy-refused"
    odd = {"annotations": {"policy.extauthz.dev/approved-up-to": "many"}}
    assert asked("approval-above-20", 2, 21, **odd).reason == "policy-unknown"


def test_only_autoscalers() -> None:
    assert asked("only-autoscalers", 2, 3, by=HPA).verdict is Verdict.ALLOW
    assert asked("only-autoscalers", 2, 3, by=Requester("jane")).reason == "policy-refused"
    assert asked("only-autoscalers", 2, 3).reason == "policy-refused"
    assert asked("only-autoscalers", 3, 2, by=Requester("jane")).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("requests", "grows"), [(BOTH, True), ({"cpu": "1"}, False), ({}, False)])
def test_nothing_without_requests(requests: dict[str, str], grows: bool) -> None:
    made = only("nothing-without-requests", workload("web", 2, requests))
    (node,) = made.ledger.coverage.tree.nodes
    made.load_quotas(QuotaTree.build([replace(node.quota, hard={"pods": 10**12})]), 0.0)
    assert (Asker(made)(scale("web", 3)).verdict is Verdict.ALLOW) is grows


def test_all_of_them_at_once() -> None:
    (node,) = quota_file.load(QUOTAS).tree.nodes
    made = gate([], workload("web", 15, BOTH))
    made.load_quotas(QuotaTree.build([node.quota]), 0.0)
    found = Asker(made)(scale("web", 31), by=Requester("jane"))
    assert found.reason == "policy-refused"
    assert [(row.policy, row.audits) for row in found.evidence.policies] == [
        ("business-hours", True),
        ("approval-above-20", False),
        ("only-autoscalers", True),
    ]


def test_where_one_of_several_fails_only_that_one_is_unknown() -> None:
    policies = [
        {"name": "good", "expression": "write.to < 9 // small"},
        {"name": "bad", "expression": "workload.labels['no'] == 'such'"},
    ]
    found = quota("acme", {"pods": "9"}, policies=policies, compiler=cel.compiler())
    refused = Asker(gate([found], workload("web", 2)))(scale("web", 3))
    assert [(row.policy, row.result) for row in refused.evidence.policies] == [("bad", "unknown")]


def test_policies_that_are_too_deep_together_are_asked_one_by_one() -> None:
    text = "(" * 32 + "write.to < 9" + ")" * 32
    policies = [{"name": f"p{at}", "expression": text} for at in range(2)]
    assert cel.compiled(text).joined([cel.compiled(text)]) is None
    found = quota("acme", {"pods": "9"}, policies=policies, compiler=cel.compiler())
    assert Asker(gate([found], workload("web", 2)))(scale("web", 3)).verdict is Verdict.ALLOW
