"""The largest count that a refusal names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Request, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.testing.builders import Asker, gate, patch, path, pod, quota, scale, workload


def see(made: Gate, obj: dict[str, Any]) -> None:
    made.observe(*observe(obj))


def put(obj: dict[str, Any]) -> Request:
    return Request("PUT", path(obj["metadata"]["name"]), {"content-type": "application/json"}, json.dumps(obj).encode())


def test_a_resource_that_is_over_and_that_the_workload_does_not_use_keeps_no_count_from_being_named():
    hard = {"requests.cpu": "10", "requests.nvidia.com/gpu": "1"}
    other = workload("other", 1, {"cpu": "0", "nvidia.com/gpu": "2"})
    ask = Asker(gate([quota("acme", hard)], workload("web", 1), other))
    denied = ask(scale("web", 11))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 10)
    assert [short.resource for short in denied.evidence.shortages] == ["requests.cpu"]


def test_no_count_is_named_where_a_pending_count_would_meet_the_new_template():
    """Nine replicas may still land, and then each costs three CPU: whatever count comes with that template."""
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 1)))
    assert ask(scale("web", 9)).verdict is Verdict.ALLOW
    dearer = workload("web", 4, {"cpu": "3"})
    denied = ask(put(dearer))
    assert denied.verdict is Verdict.DENY
    assert ask(put(workload("web", 3, {"cpu": "3"}))).verdict is Verdict.DENY, "three would be refused too"
    assert denied.evidence.fits is None
    assert "largest allowed replicas" not in denied.sentence


def test_the_count_that_is_named_beside_a_pending_one_is_granted():
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 1)))
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW
    denied = ask(put(workload("web", 9, {"cpu": "2"})))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 5)
    assert denied.sentence.endswith("; largest allowed replicas: 5")
    assert ask(put(workload("web", 5, {"cpu": "2"}))).verdict is Verdict.ALLOW


WRITES = st.one_of(
    st.builds(lambda count: scale("web", count), st.integers(0, 12)),
    st.builds(lambda count, cpu: put(workload("web", count, {"cpu": cpu})), st.integers(0, 12), st.sampled_from("123")),
    st.builds(
        lambda cpu, kind: patch(path("web"), {"spec": {"template": pod({"cpu": cpu})}} | NAMED, kind),
        st.sampled_from("123"),
        st.sampled_from(["merge", "apply"]),
    ),
)
NAMED = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}


def with_count(request: Request, count: int) -> Request:
    body = json.loads(request.body)
    if isinstance(body, list):
        return scale("web", count)
    body["spec"]["replicas"] = count
    return request._replace(body=json.dumps(body).encode())


@given(st.integers(0, 6), st.lists(WRITES, max_size=4), WRITES)
@example(
    5,
    [patch(path("web"), {"spec": {"template": pod({"cpu": "1"})}} | NAMED, "apply")],
    put(workload("web", 5, {"cpu": "3"})),
)
def test_a_count_that_is_named_would_be_granted_and_one_more_would_not(seen: int, before: list[Request], last: Request):
    ask = Asker(gate([quota("acme", {"requests.cpu": "12"})], workload("web", seen)))
    for request in before:
        ask(request)
    denied = ask(last, charge=False)
    if denied.evidence.fits is None:
        assert "largest allowed" not in denied.sentence
        return
    assert ask(with_count(last, denied.evidence.fits), charge=False).verdict is Verdict.ALLOW
    assert ask(with_count(last, denied.evidence.fits + 1), charge=False).verdict is Verdict.DENY


@pytest.mark.parametrize(
    "hard", [("4", "6"), ("6", "4"), ("4", "5"), ("5", "4")], ids=["child", "parent", "child-by-one", "parent-by-one"]
)
def test_the_tightest_quota_is_named_first(hard: tuple[str, str]):
    child, parent = hard
    tree = [
        quota("acme", {"requests.cpu": child}, parent="corp"),
        quota("corp", {"requests.cpu": parent}, namespaces={}),
    ]
    ask = Asker(gate(tree, workload("web", 1)))
    denied = ask(scale("web", 9))
    tightest, other = ("acme", "corp") if child == "4" else ("corp", "acme")
    assert [row.quota for row in denied.evidence.shortages] == [tightest, other]
    assert denied.sentence.index(f"workspace quota: {tightest}") < denied.sentence.index(f"workspace quota: {other}")
    assert denied.evidence.fits == 4
