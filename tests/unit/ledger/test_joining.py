"""A workload that a write may bring into a family counts by itself and through its new owner, until that is settled."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.entry import Event, PendingWrite
from extauthz.core.model import (
    ANY_LABELS,
    Decision,
    Fetch,
    NeedsFetch,
    OwnerRef,
    Precondition,
    Request,
    Unknown,
    Verdict,
    WorkloadRef,
)
from extauthz.core.objects.workloads import observe
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, quota, scale, workload

NANO = 10**9
TARGET = path("old", resource="replicasets")
WEB = WorkloadRef("apps", "deployments", "team-a", "web")
OLD = WorkloadRef("apps", "replicasets", "team-a", "old")
BY_WEB = {"metadata": {"ownerReferences": owned_by("web")}}


def old(replicas: int, cpu: str = "1", **metadata: Any) -> dict[str, Any]:
    """A ReplicaSet that nobody owns, and that the Deployment ``web`` selects."""
    metadata = {"labels": {"app": "web"}} | metadata
    return workload("old", replicas, {"cpu": cpu}, kind="ReplicaSet", **metadata)


def put(made: dict[str, Any]) -> Request:
    return Request("PUT", TARGET, {"content-type": "application/json"}, json.dumps(made).encode())


def asker(*seen: dict[str, Any], hard: str) -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": hard, "count/replicasets.apps": "9"})], *seen))


def two_teams(*seen: dict[str, Any], a: str = "12", b: str = "12") -> Asker:
    hard = {"a": a, "b": b}
    of = [quota(n, {"requests.cpu": hard[n]}, namespaces={"workspace": "acme"}, workloads={"team": n}) for n in hard]
    return Asker(gate(of, *seen))


def charged(ask: Asker) -> dict[str, int]:
    assert ask.gate.ledger.drift() == {}
    return {row.quota: (row.used + row.reserved) // NANO for row in ask.gate.usage() if row.resource == "requests.cpu"}


def see(ask: Asker, *trees: dict[str, Any]) -> None:
    for tree in trees:
        ask.gate.observe(*observe(tree))


def settle(ask: Asker, decision: Decision, event: Event) -> None:
    assert decision.pending_write is not None
    ask.gate.ledger.pending.settle(decision.pending_write, event, ask.now_s)
    ask.now_s += 1.0
    ask.gate.ledger.pending.read(OLD, ask.now_s)


def test_each_pod_of_an_owner_may_come_to_run_what_it_is_given():
    """The replica set has 5 pods of 8 CPU, and the Deployment 10 of one."""
    tight = asker(workload("web", 10), old(5, "8"), hard="119")
    denied = tight(patch(TARGET, BY_WEB))
    assert (denied.verdict, denied.reason, denied.evidence.shortages[0].requested) == (
        Verdict.DENY,
        "exceeded-quota",
        70 * NANO,
    )
    assert charged(tight) == {"acme": 50}
    roomy = asker(workload("web", 10), old(5, "8"), hard="120")
    allowed = roomy(patch(TARGET, BY_WEB))
    assert (allowed.verdict, charged(roomy)) == (Verdict.ALLOW, {"acme": 120})
    assert roomy(scale("web", 11)).verdict is Verdict.DENY, "it would be 8 CPU more"
    see(roomy, old(5, "8", version="2", ownerReferences=owned_by("web")))
    settle(roomy, allowed, Event.ANSWERED_OK)
    assert charged(roomy) == {"acme": 80}
    assert roomy.gate.ledger.pending_writes == 0


def test_a_controller_adopts_what_costs_no_more_than_its_own_in_a_full_quota():
    ask = asker(workload("web", 10), old(10), hard="20")
    adopted = ask(patch(TARGET, BY_WEB))
    assert (adopted.verdict, adopted.reason, charged(ask)) == (Verdict.ALLOW, "no-growth", {"acme": 20})
    see(ask, old(10, version="2", ownerReferences=owned_by("web")))
    settle(ask, adopted, Event.ANSWERED_OK)
    assert charged(ask) == {"acme": 10}
    assert all(not entry.pending_writes for entry in ask.gate.ledger.workloads)


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param({}, BY_WEB, id="owner"),
        pytest.param({"ownerReferences": owned_by("web"), "labels": {"team": "b"}}, {}, id="labels"),
        pytest.param({"labels": {"team": "b"}}, BY_WEB["metadata"], id="both"),
    ],
)
def test_what_enters_counts_in_the_quotas_of_its_new_owner_too(before: dict, change: dict):
    before = {"labels": {"app": "web", "team": "b"}} | before
    body = {"metadata": {"labels": {"app": "web"}} | change.get("metadata", change)}
    web = workload("web", 10, labels={"team": "a"})
    ask = two_teams(web, old(10, **before), a="19")
    denied = ask(patch(TARGET, body))
    assert (denied.verdict, denied.evidence.shortages[0].quota, charged(ask)) == (Verdict.DENY, "a", {"a": 10, "b": 10})
    ask = two_teams(web, old(10, **before), a="20")
    allowed = ask(patch(TARGET, body))
    assert (allowed.verdict, charged(ask)) == (Verdict.ALLOW, {"a": 20, "b": 10})
    assert ask(scale("web", 11)).verdict is Verdict.DENY
    assert ask(patch(path("web"), {"metadata": {"labels": {"team": "b"}}})).reason == "move-waits"
    settle(ask, allowed, Event.REFUSED)
    assert charged(ask) == {"a": 10, "b": 10}


def test_what_its_owner_does_not_select_and_what_it_has_already_is_no_entry():
    of_web = {"ownerReferences": owned_by("web")}
    ask = asker(workload("web", 9), old(1, "8", labels={"app": "x"}, **of_web), hard="17")
    assert ask(patch(TARGET, {"metadata": {"labels": {"app": "y"}}})).reason == "no-growth"
    ask = asker(workload("web", 9), old(1, "8", labels={"app": "x"}), hard="17")
    assert ask(patch(TARGET, BY_WEB)).reason == "no-growth", "it lets it go again"
    ask = asker(workload("web", 9), old(1, "8", **of_web), hard="72")
    assert ask(put(old(1, "8", **of_web))).reason == "no-count"
    assert ask(put(old(1, "8", **(of_web | {"labels": {"app": "web", "more": "x"}})))).reason == "no-growth"
    labels = {"metadata": {"labels": {"x": "y"}}}
    assert asker(old(1), hard="1")(patch(TARGET, labels)).reason == "no-growth", "it has no owner at all"


def test_what_is_in_its_family_already_leaves_the_owner_alone():
    of_web = {"ownerReferences": owned_by("web")}
    ask = asker(workload("web", 2), old(1, **of_web), hard="20")
    assert ask(patch(TARGET, {"metadata": {"labels": {"more": "x"}}})).verdict is Verdict.ALLOW
    assert ask(patch(path("web"), {"spec": {"template": pod({"cpu": "2"})}}, "strategic")).verdict is Verdict.ALLOW
    unseen = asker(hard="20")
    assert unseen(create(old(2, **of_web))).verdict is Verdict.ALLOW, "its controller may know more than the gate"
    assert charged(unseen) == {"acme": 2}


def test_a_create_with_an_owner_beside_one_without_is_charged_through_the_owner():
    ask = asker(workload("web", 4), hard="20")
    assert ask(create(old(1, "8"))).verdict is Verdict.ALLOW
    assert ask(create(old(1, "8", ownerReferences=owned_by("web")))).verdict is Verdict.DENY


def test_an_owner_that_is_not_seen_is_looked_up_first():
    ask = asker(old(1, "8"), hard="20")
    waits = ask(patch(TARGET, BY_WEB))
    assert (waits.verdict, waits.reason) == (Verdict.UNAVAILABLE, "unknown-workload")
    assert waits.todo == NeedsFetch(Fetch.WORKLOAD, WEB)
    assert 'has not seen its owner, deployments "web"' in waits.sentence
    see(ask, workload("web", 4))
    assert ask(patch(TARGET, BY_WEB)).verdict is Verdict.DENY
    see(ask, workload("web", 1, version="2"))
    assert ask(patch(TARGET, BY_WEB)).verdict is Verdict.ALLOW
    another = {"metadata": {"ownerReferences": owned_by("web", "uid-new")}}
    made_anew = asker(workload("web", 1), old(1), hard="20")
    assert made_anew(patch(TARGET, another)).reason == "unknown-workload"
    passes = Asker(gate([quota("acme", {"requests.cpu": "20"})], old(1), policy=Policy(allows={Unknown.WORKLOAD})))
    assert (passes(patch(TARGET, BY_WEB)).verdict, passes.gate.ledger.pending_writes) == (Verdict.ALLOW, 0)


def entering(pending_id: str = "theirs") -> PendingWrite:
    owner = OwnerRef("apps", "Deployment", "web", "uid-web")
    return PendingWrite(pending_id, None, (), (), False, Precondition(), 90.0, owner=owner, frees=True)


def test_what_another_gate_has_allowed_counts_everywhere_while_its_owner_is_not_seen():
    ask = two_teams(old(2, "3", labels={"app": "web", "team": "b"}))
    ledger = ask.gate.ledger
    ledger.adopt(OLD, entering())
    assert charged(ask) == {"a": 6, "b": 6}
    see(ask, workload("web", 2, labels={"team": "a"}))
    assert charged(ask) == {"a": 12, "b": 6}, "2 that may run what costs 3, and those that are there"
    ledger.pending.tick(95.0)
    ledger.pending.read(WEB, 96.0)
    assert charged(ask) == {"a": 12, "b": 6}, "a read of the owner ends nothing of it"
    ledger.pending.read(OLD, 96.0)
    assert (charged(ask), ledger.pending_writes) == ({"a": 2, "b": 6}, 0)
    ask = two_teams()
    ledger = ask.gate.ledger
    ledger.adopt(OLD, entering())
    ledger.pending.forget("theirs")
    assert len(ledger) == 0


def test_a_custom_resource_multiplies_no_template():
    ask = two_teams(workload("web", 2, {"cpu": "3"}, labels={"team": "b", "app": "x"}))
    rollout = WorkloadRef("example.com", "rollouts", "team-a", "x")
    ask.gate.observe_kind("example.com", "Rollout", "rollouts")
    ask.gate.observe(rollout, observe(workload("x", 4, {}, labels={"team": "a"}))[1])
    owners = [{"apiVersion": "example.com/v1", "kind": "Rollout", "name": "x", "uid": "uid-x", "controller": True}]
    assert ask(patch(path("web"), {"metadata": {"ownerReferences": owners}})).verdict is Verdict.ALLOW
    assert charged(ask) == {"a": 6, "b": 6}


def test_the_largest_count_that_fits_is_told_of_both():
    ask = asker(workload("web", 4), old(1, "2"), hard="16")
    denied = ask(put(old(9, "2", ownerReferences=owned_by("web"))))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 4), (
        "4 of 2 CPU for the Deployment, and 4 of its own"
    )
    assert len(denied.evidence.shortages) == 1
    assert ask(put(old(5, "2", ownerReferences=owned_by("web")))).verdict is Verdict.DENY
    assert ask(put(old(4, "2", ownerReferences=owned_by("web")))).verdict is Verdict.ALLOW
    assert charged(ask) == {"acme": 16}


def test_an_owner_moves_under_another_quota_only_once_what_may_enter_its_family_is_settled():
    ask = two_teams(workload("web", 2, labels={"team": "a"}), old(10, labels={"app": "web", "team": "a"}), b="5")
    entered = ask(patch(TARGET, BY_WEB))
    assert entered.verdict is Verdict.ALLOW
    whole = json.dumps(workload("web", 2, labels={"team": "b"}, version="")).encode()
    moved = Request("PUT", path("web"), {"content-type": "application/json"}, whole)
    assert ask(moved).reason == "move-waits"
    settle(ask, entered, Event.REFUSED)
    assert (ask(moved).verdict, charged(ask)) == (Verdict.ALLOW, {"a": 12, "b": 2})


ROLLOUT = WorkloadRef("example.com", "rollouts", "team-a", "x")
OF_X = [{"apiVersion": "example.com/v1", "kind": "Rollout", "name": "x", "uid": "uid-x", "controller": True}]


def with_custom_owner(quotas: list[Any]) -> Asker:
    """A Deployment of ten, and a custom resource ``x``."""
    ask = Asker(gate(quotas, workload("web", 10, labels={"team": "a", "app": "x"})))
    ask.gate.observe_kind("example.com", "Rollout", "rollouts")
    ask.gate.observe(ROLLOUT, observe(workload("x", 0, {}, labels={"team": "a"}))[1])
    return ask


def teams(hard: str) -> list[Any]:
    return [quota(n, {"requests.cpu": hard}, namespaces={"workspace": "acme"}, workloads={"team": n}) for n in "ab"]


@pytest.mark.parametrize("owner", ["Deployment", "custom resource"])
def test_where_no_quota_is_yet_what_may_enter_counts_where_its_owner_may_have_moved(owner: str):
    """Its ten pods come under the quota of the owner's new labels, whichever of both writes lands first."""
    if owner == "Deployment":
        ask = Asker(gate([], workload("web", 2, labels={"team": "a"}), old(10, labels={"app": "web", "team": "a"})))
        assert ask(patch(TARGET, BY_WEB)).reason == "no-quota"
        assert ask(patch(path("web"), {"metadata": {"labels": {"team": "b"}}})).reason == "no-quota"
    else:
        ask = with_custom_owner([])
        assert ask(patch(path("web"), {"metadata": {"ownerReferences": OF_X}})).reason == "no-quota"
        ask.gate.ledger.adopt(ROLLOUT, replace(entering(), labels=("team=b",), owner=None, frees=False))
    ask.gate.load_quotas(gate(teams("99")).ledger.coverage.tree, 1.0)
    assert charged(ask)["b"] >= 10


def test_a_deployment_s_template_is_weighed_beside_what_may_enter():
    ask = asker(workload("web", 2), old(1, "3"), hard="11")
    assert ask(patch(TARGET, BY_WEB)).verdict is Verdict.ALLOW
    assert charged(ask) == {"acme": 9}, "2 that may run what costs 3, and the one that is there"
    template = {"spec": {"template": pod({"cpu": "5"})}}
    assert ask(patch(path("web"), template, "strategic")).verdict is Verdict.DENY
    assert ask(patch(path("web"), {"spec": {"template": pod({"cpu": "3"})}}, "strategic")).verdict is Verdict.ALLOW
    assert ask(scale("web", 3)).verdict is Verdict.DENY


def test_in_a_namespace_without_a_quota_it_is_followed_for_one_that_comes():
    ask = Asker(gate([], workload("web", 10), old(5, "8")))
    assert ask(patch(TARGET, BY_WEB)).evidence.afterwards
    made = gate([quota("acme", {"requests.cpu": "99"})])
    ask.gate.load_quotas(made.ledger.coverage.tree, 1.0)
    assert charged(ask) == {"acme": 120}
    assert ANY_LABELS not in {one for entry in ask.gate.ledger.workloads for one in entry.all_labels()}
