"""A custom resource owns a Deployment or a ReplicaSet: what its members' writes may bring to the quotas of it."""

from __future__ import annotations

from typing import Any

from extauthz.core.model import Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.testing import Asker, create, gate, owned_by, patch, path, quota, scale, workload

NANO = 10**9
ROLLOUT = WorkloadRef("example.com", "rollouts", "team-a", "x")
BY_X = [{"apiVersion": "example.com/v1", "kind": "Rollout", "name": "x", "uid": "uid-x", "controller": True}]
FREED: dict[str, Any] = {"metadata": {"ownerReferences": None}}


def asker(*seen: dict[str, Any], rollout: int | None, b: str = "99") -> Asker:
    """Two teams that differ in a label, and a Rollout of team b that selects ``app: x``."""
    hard = {"a": "99", "b": b}
    of = [quota(n, {"requests.cpu": hard[n]}, namespaces={"workspace": "acme"}, workloads={"team": n}) for n in hard]
    ask = Asker(gate(of))
    ask.gate.observe_kind("example.com", "Rollout", "rollouts")
    if rollout is not None:
        ask.gate.observe(ROLLOUT, observe(workload("x", rollout, labels={"team": "b"}))[1])
    for tree in seen:
        ask.gate.observe(*observe(tree))
    return ask


def charged(ask: Asker) -> dict[str, int]:
    assert ask.gate.ledger.drift() == {}
    return {row.quota: (row.used + row.reserved) // NANO for row in ask.gate.usage()}


def deployment(replicas: int, team: str = "a") -> dict[str, Any]:
    return workload("web", replicas, labels={"app": "x", "team": team}, ownerReferences=BY_X)


def replica_set(replicas: int, owner: list[dict[str, Any]], *, selects: str = "web", **labels: str) -> dict[str, Any]:
    made = workload("old", replicas, kind="ReplicaSet", labels={"team": "a"} | labels, ownerReferences=owner)
    made["spec"]["selector"] = {"matchLabels": {"app": selects}}
    return made


OLD = path("old", resource="replicasets")


def test_what_is_made_for_a_custom_resource_that_selects_only_its_pods_counts_with_that_too():
    made = replica_set(5, BY_X, selects="x")
    assert asker(rollout=0, b="4")(create(made)).verdict is Verdict.DENY
    ask = asker(rollout=0, b="5")
    allowed = ask(create(made))
    assert (allowed.verdict, charged(ask)) == (Verdict.ALLOW, {"a": 5, "b": 5})
    ask.gate.observe(*observe(made))
    ask.gate.ledger.pending.forget("d1")
    assert charged(ask) == {"a": 0, "b": 5}


def test_what_is_made_for_a_custom_resource_that_is_not_seen_counts_by_itself():
    ask = asker(rollout=None, b="4")
    assert ask(create(replica_set(5, BY_X, selects="x"))).verdict is Verdict.ALLOW
    assert charged(ask) == {"a": 5, "b": 0}


def test_what_enters_a_family_that_may_leave_another_counts_with_both():
    """The Deployment counts with the Rollout, in team b. Once it is free it counts in team a, with all that it has."""
    pods = replica_set(5, [], app="web", team="c")
    owner = workload("web", 0, labels={"app": "x", "team": "a"}, ownerReferences=BY_X)
    owner["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    ask = asker(owner, pods, rollout=0)
    assert ask(patch(path("web"), FREED)).verdict is Verdict.ALLOW
    assert ask(patch(OLD, {"metadata": {"ownerReferences": owned_by("web")}})).verdict is Verdict.ALLOW
    assert charged(ask) == {"a": 5, "b": 5}


def test_what_may_leave_a_family_within_a_family_stays_beside_what_the_outer_one_asks_for():
    """The pods of the ReplicaSet are among those that the Rollout asks for. Once it is free they are not."""
    inner = replica_set(2, owned_by("web"), app="web", team="b")
    owner = deployment(0, "b")
    owner["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    assert charged(asker(owner, inner, rollout=3)) == {"a": 0, "b": 3}
    assert asker(owner, inner, rollout=3, b="4")(patch(OLD, FREED)).verdict is Verdict.DENY
    ask = asker(owner, inner, rollout=3, b="5")
    assert (ask(patch(OLD, FREED)).verdict, charged(ask)) == (Verdict.ALLOW, {"a": 0, "b": 5})


def test_of_two_that_may_leave_one_within_the_other_each_may_be_made_anew():
    """Three of the Rollout, three of the Deployment that it had, and the three of the ReplicaSet that this had."""
    inner, owner = replica_set(3, owned_by("web"), app="web", team="b"), deployment(3, "b")
    owner["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    ask = asker(owner, inner, rollout=3)
    assert [ask(patch(path("web"), FREED)).verdict, ask(patch(OLD, FREED)).verdict] == [Verdict.ALLOW] * 2
    assert charged(ask) == {"a": 0, "b": 9}


def test_what_enters_a_family_within_a_family_counts_with_its_owner_too_which_is_left_alone_when_the_outer_one_goes():
    pods = replica_set(7, [], app="web", team="c")
    owner = deployment(0)
    owner["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    ask = asker(owner, pods, rollout=0)
    assert ask(patch(OLD, {"metadata": {"ownerReferences": owned_by("web")}})).verdict is Verdict.ALLOW
    ask.gate.observe(ROLLOUT, None, version="9")
    assert charged(ask) == {"a": 7, "b": 7}


def test_what_a_deployment_has_is_no_licence_for_its_custom_resource_where_a_quota_is_over():
    """It was lowered from five, and its operator has not come to that yet."""
    ask = asker(deployment(5, team="b"), rollout=2, b="4")
    up = patch("/apis/example.com/v1/namespaces/team-a/rollouts/x/scale", {"spec": {"replicas": 3}})
    assert (charged(ask)["b"], ask(up).reason) == (5, "exceeded-quota")
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW, "as its operator does"
    assert asker(deployment(5, team="b"), rollout=2, b="5")(up).verdict is Verdict.ALLOW
