"""Mode Clamp: which writes are lowered, to what, and that the question charges nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.decision import known
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission as reviews
from extauthz.core.intake.counts import read
from extauthz.core.model import Decision, Fetch, Growth, Lower, NeedsFetch, Reading, Request, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.policies import Enlisted, GrowthPolicy, NotYet, Policies
from extauthz.core.quota.selectors import Names, Requesters, by_name
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import (
    admission,
    create,
    gate,
    owned_by,
    patch,
    path,
    put_scale,
    quota,
    scale,
    scale_object,
    workload,
)

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


def clamping(*objects: dict[str, Any], cpu: str = "4", policy: Policy | None = None) -> Gate:
    return gate([quota("acme", {"requests.cpu": cpu}, mode="Clamp")], *objects, policy=policy)


def ask(of: Gate, asked: Request | Reading, now_s: float = 0.0) -> Decision | None:
    return of.clamp(read(asked) if isinstance(asked, Request) else asked, "d1", now_s)


def granted(of: Gate, asked: Request | Reading) -> int | None:
    found = ask(of, asked)
    return found.todo.to if found is not None and isinstance(found.todo, Lower) else None


def reviewed(new: dict[str, Any], old: dict[str, Any], **more: Any) -> Reading:
    review = reviews.read(json.dumps(admission(new, old, **more)).encode())
    return review.question.reading


def test_a_count_that_does_not_fit_is_lowered_to_the_largest_that_does():
    found = ask(clamping(workload("web", 2)), scale("web", 9))
    assert (found.verdict, found.replicas, found.replicas_before) == (Verdict.DENY, 9, 2)
    assert found.sentence == (
        'deployments.apps "web" asked for 9 replicas and may have 4: exceeded workspace quota: acme, '
        "requested: requests.cpu=7, used: requests.cpu=2, limited: requests.cpu=4"
    )
    assert found.todo == Lower(4, "1"), "the write must be bound to the version that was looked at"
    assert [row.resource for row in found.evidence.shortages] == ["requests.cpu"]


def two(parent: str, child: str, parent_cpu: str = "6") -> Gate:
    quotas = [
        quota("corp", {"requests.cpu": parent_cpu}, namespaces={"none": "such"}, mode=parent),
        quota("acme", {"requests.cpu": "4"}, parent="corp", mode=child),
    ]
    return gate(quotas, workload("web", 2))


@pytest.mark.parametrize(
    ("parent", "child", "parent_cpu", "count"),
    [
        pytest.param("Clamp", "Clamp", "6", 4, id="both, the smaller one binds"),
        pytest.param("Clamp", "Clamp", "3", 3, id="both, the parent binds"),
        pytest.param("Enforce", "Clamp", "6", None, id="one that enforces refuses too"),
        pytest.param("Enforce", "Clamp", "9", 4, id="one that enforces has room for all of it"),
        pytest.param("Clamp", "Enforce", "3", None, id="the child enforces and refuses"),
        pytest.param("Audit", "Clamp", "3", 4, id="one that audits does not bind"),
        pytest.param("Clamp", "Audit", "3", 3, id="the child audits"),
        pytest.param("Enforce", "Enforce", "6", None, id="none clamps"),
    ],
)
def test_every_quota_that_refuses_must_clamp(parent: str, child: str, parent_cpu: str, count: int | None):
    assert granted(two(parent, child, parent_cpu), scale("web", 9)) == count


DEARER = [{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}]
WHOLE = workload("web", 9)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(scale("web", 9), id="json patch of the scale"),
        pytest.param(patch(path("web"), [{"op": "replace", "path": "/spec/replicas", "value": 9}], "json"), id="json"),
        pytest.param(
            patch(
                path("web"),
                [
                    {"op": "test", "path": "/spec/replicas", "value": 2},
                    {"op": "replace", "path": "/spec/replicas", "value": 9},
                    {"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}},
                ],
                "json",
            ),
            id="json with a test",
        ),
        pytest.param(patch(path("web"), {"spec": {"replicas": 9}}), id="merge"),
        pytest.param(patch(path("web"), {"spec": {"replicas": 9}}, "strategic"), id="strategic"),
        pytest.param(put_scale("web", 9), id="put of the scale"),
        pytest.param(put_scale("web", 9, "1"), id="put of the scale, bound"),
    ],
)
def test_every_form_of_a_count_alone_is_lowered(request_: Request):
    assert granted(clamping(workload("web", 2)), request_) == 4


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(create(workload("new", 9)), id="a create"),
        pytest.param(
            patch(path("web"), {"spec": {"replicas": 9, "template": {"spec": {"containers": DEARER}}}}, "strategic"),
            id="count and template",
        ),
        pytest.param(
            patch(path("web"), {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 9}}), id="count and labels"
        ),
        pytest.param(
            patch(path("web"), {"spec": {"template": {"spec": {"containers": DEARER}}}}, "strategic"), id="tp"
        ),
        pytest.param(patch(path("web"), WHOLE, "apply"), id="apply"),
        pytest.param(create(WHOLE)._replace(method="PUT", target=path("web")), id="put"),
        pytest.param(patch(path("web"), {"metadata": None, "spec": {"replicas": 9}}, "merge"), id="metadata removed"),
        pytest.param(patch(path("web"), {"spec": {"replicas": "9"}}), id="unreadable"),
        pytest.param(Request("GET", path("web"), {}, b""), id="no write"),
    ],
)
def test_what_is_not_a_count_alone_is_left_alone(request_: Request):
    assert granted(clamping(workload("web", 2)), request_) is None


def test_a_workload_that_is_charged_through_its_owner_is_left_alone():
    child = workload("web-1", 2, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
    asked = clamping(workload("web", 2), child, cpu="8")
    asked_for = scale("web-1", 19, resource="replicasets")
    refused = asked.decide(read(asked_for), "d1", 0.0)
    assert (refused.verdict, refused.evidence.fits) == (Verdict.DENY, 9), "some of it would fit"
    assert granted(asked, asked_for) is None


def test_a_write_is_lowered_only_on_the_version_that_was_looked_at():
    asked = clamping(workload("web", 2, version="5"))
    assert granted(asked, put_scale("web", 9, "5")) == 4
    assert ask(asked, put_scale("web", 9, "4")) is None, "it cannot land"
    newer = ask(asked, put_scale("web", 9, "6"))
    assert newer.todo == NeedsFetch(Fetch.WORKLOAD, WEB)


def test_a_gate_that_was_suspended_lowers_nothing_before_it_has_looked_at_its_sources():
    asked = clamping(workload("web", 2))
    asked.stale(None, until_s=10.0)
    assert ask(asked, scale("web", 9), 10.0) is not None
    assert ask(asked, scale("web", 9), 10.1) is None


def test_an_object_without_a_version_is_not_exact():
    assert granted(clamping(workload("web", 2, version="")), scale("web", 9)) is None


def test_in_the_webhook_the_version_is_that_of_the_old_object():
    asked = clamping(workload("web", 2, version="5"))
    new, old = scale_object(replicas=9, version="5"), scale_object(replicas=2, version="5")
    assert granted(asked, reviewed(new, old, subresource="scale")) == 4
    asked.observe(*observe(workload("web", 4, version="6")))
    assert ask(asked, reviewed(new, old, subresource="scale")) is None, "by then it was at four"


def test_whoever_a_quota_does_not_bind_is_not_lowered_by_it():
    bound = replace(
        quota("acme", {"requests.cpu": "4"}, mode="Clamp"), requesters=Requesters(excepted=Names(users=("admin",)))
    )
    asked = gate([bound], workload("web", 2))
    reading = read(scale("web", 9))
    assert asked.clamp(reading, "d1", 0.0, requester=by_name("admin")) is None
    lowered = asked.clamp(reading, "d1", 0.0, requester=by_name("hpa"))
    assert lowered.todo.to == 4


def test_a_workload_that_is_not_known_is_left_alone():
    assert ask(clamping(), scale("web", 9)) is None


def test_a_namespace_that_was_not_seen_is_looked_up_first():
    found = ask(
        gate([quota("acme", {"requests.cpu": "4"}, mode="Clamp")], workload("web", 2), namespaces={}), scale("web", 9)
    )
    assert found.todo == NeedsFetch(Fetch.WORKLOAD, WEB)


def test_a_gate_that_only_audits_lowers_nothing():
    assert granted(clamping(workload("web", 2), policy=Policy(mode="audit")), scale("web", 9)) is None


def test_where_something_is_not_known_it_is_left_to_the_decision():
    asked = clamping(workload("web", 2))
    asked.stale("a watch is silent")
    assert ask(asked, scale("web", 9)) is None


def test_what_would_fit_is_not_proposed_where_a_policy_refuses_it():
    class Wants(GrowthPolicy):
        def permit(self, growth: Growth) -> NotYet | None:
            return NotYet("later", 5) if growth.to == 4 else None

    asked = clamping(workload("web", 2))
    assert granted(asked, scale("web", 9)) == 4
    asked.enlist(Policies([Enlisted("p", Wants())]))
    assert granted(asked, scale("web", 9)) is None


def test_what_it_costs_where_no_quota_clamps_is_a_look_at_a_flag(monkeypatch: pytest.MonkeyPatch):
    asked = gate([quota("acme", {"requests.cpu": "4"})], workload("web", 2))
    monkeypatch.setattr(known, "of_write", lambda *_: pytest.fail("it was evaluated"))
    assert ask(asked, scale("web", 9)) is None


COUNTS = st.integers(0, 12)
MODES = st.sampled_from(["Clamp", "Enforce", "Audit"])


@given(
    modes=st.tuples(MODES, MODES),
    hard=st.tuples(COUNTS, COUNTS),
    there=st.tuples(COUNTS, COUNTS),
    before=st.lists(st.tuples(st.sampled_from(["web", "api"]), COUNTS), max_size=4),
    cut=st.none() | COUNTS,
    wanted=COUNTS,
)
@settings(max_examples=300, deadline=None)
def test_what_is_proposed_is_granted_is_more_than_is_there_and_is_the_most(
    modes: tuple[str, str],
    hard: tuple[int, int],
    there: tuple[int, int],
    before: list[tuple[str, int]],
    cut: int | None,
    wanted: int,
):
    def quotas(child: int) -> list[WorkspaceQuota]:
        corp = quota("corp", {"pods": str(hard[0])}, namespaces={"none": "such"}, mode=modes[0])
        return [corp, quota("acme", {"pods": str(child)}, parent="corp", mode=modes[1])]

    asked = gate(quotas(hard[1]), workload("web", there[0]), workload("api", there[1]))
    for number, (name, count) in enumerate(before):
        asked.decide(read(scale(name, count)), f"b{number}", 0.0)
    if cut is not None:
        asked.load_quotas(QuotaTree.build(quotas(cut)), 0.0)
    pending, count = asked.ledger.pending_writes, granted(asked, scale("web", wanted))
    assert asked.ledger.pending_writes == pending
    refused = asked.decide(read(scale("web", wanted)), "d1", 0.0, charge=False)
    if count is None:
        lowerable = refused.verdict is Verdict.DENY and (refused.evidence.fits or 0) > there[0]
        assert not lowerable or "Enforce" in modes
        return
    assert refused.verdict is Verdict.DENY
    assert there[0] < count < wanted
    assert asked.decide(read(scale("web", count + 1)), "d2", 0.0, charge=False).verdict is Verdict.DENY
    assert asked.decide(read(scale("web", count)), "d3", 0.0).verdict is Verdict.ALLOW
