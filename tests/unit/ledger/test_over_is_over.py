"""Rule 10 where what pends is not on the object that is asked about. ``tests/simulate`` searches for the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extauthz.core.model import Request, Verdict, WorkloadRef
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster import object_readers
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, quota, scale, workload
from tests.unit.asking import books

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


def test_over_a_limit_that_was_cut_an_object_that_is_not_there_yet_is_not_raised_either():
    """A larger count that pends at another gate, from before the object was deleted, is no licence."""
    first = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 3)))
    assert first(scale("web", 5)).verdict is Verdict.ALLOW
    first.gate.observe(WEB, None)
    assert first(create(workload("web", 2))).verdict is Verdict.ALLOW
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})]))
    for ref, pending_write in first.gate.ledger.pending:
        ask.gate.ledger.adopt(ref, replace(pending_write, id=f"first-{pending_write.id}"))
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "2"})]), 0.0)
    assert ask(scale("web", 4)).reason == "exceeded-quota"
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "9"})]), 0.0)
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW


def test_over_a_limit_that_was_cut_what_pends_on_a_replica_set_is_no_licence_for_its_deployment():
    """Seed 710689186."""
    labels = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    sets = [workload(name, count, kind="ReplicaSet", **labels) for name, count in (("web-1", 2), ("web-2", 0))]
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 2), *sets))
    assert ask(scale("web-2", 2, resource="replicasets")).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "2"})]), 0.0)
    assert ask(scale("web", 3)).reason == "exceeded-quota", "of the four one is a surge, which is not charged"
    assert ask(scale("web", 1)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "9"})]), 0.0)
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW


def test_over_a_limit_that_was_cut_what_pends_on_a_deployment_is_no_licence_for_its_replica_set():
    labels = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    set_of_two = workload("web-1", 2, kind="ReplicaSet", **labels)
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 2), set_of_two))
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "3"})]), 0.0)
    assert ask(scale("web-1", 4, resource="replicasets")).reason == "exceeded-quota"
    assert ask(scale("web-1", 1, resource="replicasets")).verdict is Verdict.ALLOW


def _in_a_rollout(replicas: int, limit: str, old: int = 5, new: int = 2) -> Asker:
    labels = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    sets = [workload(name, count, kind="ReplicaSet", **labels) for name, count in (("web-1", old), ("web-2", new))]
    return Asker(gate([quota("acme", {"requests.cpu": limit})], workload("web", replicas), *sets))


@pytest.mark.parametrize(
    "again",
    [scale("web", 1), patch(path("web"), {"spec": {"replicas": 1, "template": pod({"cpu": "5"})}})],
    ids=["a-count", "an-object"],
)
def test_the_surge_of_a_rollout_that_was_scaled_down_is_no_licence(again: Request):
    """Seed 154358808. Its pods count until they are gone, and then the quota is over. Were they a licence, each rollout
    could add its surge to what the one before it had."""
    ask = _in_a_rollout(0, "5")
    assert books(ask) == (7, 0)
    assert ask(again).reason == "exceeded-quota"
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    assert _in_a_rollout(0, "7")(again).verdict is Verdict.ALLOW


def test_who_is_over_in_a_rollout_may_still_be_scaled_down():
    ask = _in_a_rollout(5, "3")
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW
    fewer = patch(path("web"), {"spec": {"replicas": 3, "template": pod({"cpu": "1"})}})
    assert ask(fewer).verdict is Verdict.ALLOW
    next_pod = scale("web-2", 2, resource="replicasets")
    assert _in_a_rollout(5, "3", old=4, new=1)(next_pod).verdict is Verdict.ALLOW, "as its controller does"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_nor_is_what_its_own_dearer_pods_hold(kind: str):
    """Pods of a template that it has left, or with a sidecar. They go, and what comes in their place would stay."""
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 2, kind=kind)))
    for name in ("web-0", "web-1"):
        metadata = {"name": name, "namespace": "team-a", "uid": name, "labels": {"app": "web"}}
        metadata["ownerReferences"] = owned_by("web", kind=kind)
        ask.gate.observe(*object_readers.pod({"metadata": metadata, "spec": pod({"cpu": "5"})["spec"]}))
    assert books(ask) == (10, 0)
    target = path("web", resource=f"{kind.lower()}s")
    dearer = patch(target, {"spec": {"template": pod({"cpu": "5"})}})
    assert ask(dearer).reason == "exceeded-quota"
    assert ask(patch(target, {"spec": {"replicas": 1, "template": pod({"cpu": "1"})}})).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "10"})]), 0.0)
    assert ask(dearer).verdict is Verdict.ALLOW
