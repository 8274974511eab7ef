"""A family of many members, each with pods of its own: a JobSet, a LeaderWorkerSet.

What one pod changes is worked out for its own owner. The others are added up as they were.
"""

from __future__ import annotations

from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.kinds import PODS
from extauthz.core.ledger import ownership
from extauthz.core.ledger.pod_costs import PodCosts
from extauthz.core.model import Observed, WorkloadRef
from extauthz.core.objects.workloads import intern, observe, prune
from extauthz.inputs.cluster import object_readers
from extauthz.testing import gate, pod, quota, workload

CPU = "requests.cpu"
NANO = 10**9
JOB_SET = WorkloadRef("jobset.x-k8s.io", "jobsets", "team-a", "train")


def owned(api: str, kind: str, name: str) -> list[dict[str, Any]]:
    return [{"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]


def metadata(name: str, owners: list[dict[str, Any]], version: int) -> dict[str, Any]:
    uid = f"uid-{name}"
    return {"name": name, "namespace": "team-a", "uid": uid, "resourceVersion": str(version), "ownerReferences": owners}


def template() -> dict[str, Any]:
    made = pod({"cpu": "1"})
    made["spec"]["runtimeClassName"] = "kata"
    return made


def see_job(made: Gate, number: int, *, parallelism: int = 1, version: int = 2) -> None:
    name = f"job-{number}"
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template()}
    tree = {"metadata": metadata(name, owned("jobset.x-k8s.io/v1alpha2", "JobSet", "train"), version), "spec": spec}
    tree["spec"]["selector"] = {"matchLabels": {"job": name}}
    made.observe(*(object_readers.job(tree) or ()))


def see_pod(made: Gate, number: int, cpu: str = "1", *, job: int | None = None, version: int = 2) -> None:
    job = number if job is None else job
    given = metadata(f"pod-{number}", owned("batch/v1", "Job", f"job-{job}"), version)
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], "overhead": {"cpu": "1"}}
    made.observe(*object_readers.pod({"metadata": given | {"labels": {"job": f"job-{job}"}}, "spec": spec}))


def family(members: int) -> Gate:
    """A gate that has seen a JobSet of so many Jobs with a pod each."""
    made = gate([quota("acme", {CPU: "1000"})])
    made.observe_kind("jobset.x-k8s.io", "JobSet", "jobsets")
    made.observe_runtime_class("kata", {"cpu": NANO})
    groups = intern({"groups": [prune({"template": template()}) | {"count": members}]})
    made.observe(JOB_SET, Observed(1, groups, uid="uid-train", resource_version="1", selector="*"))
    for number in range(members):
        see_job(made, number)
        see_pod(made, number)
    return made


def used(made: Gate) -> int:
    assert made.ledger.drift() == {}
    (row,) = made.usage()
    return row.used // NANO


def test_an_event_of_one_pod_prices_the_pods_of_no_other_member(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    per_pod = PodCosts.per_pod
    monkeypatch.setattr(PodCosts, "per_pod", lambda *given: asked.append("") or per_pod(*given))

    def prices(members: int) -> int:
        made = family(members)
        asked.clear()
        see_pod(made, 0, "3", version=3)
        return len(asked)

    assert prices(40) == prices(4)


def test_whatever_changes_of_a_member_is_counted():
    made = family(3)
    assert used(made) == 6
    see_pod(made, 0, "5", version=3)
    assert used(made) == 10, "one pod holds 4 CPU more than its template says"
    see_job(made, 1, parallelism=4, version=3)
    assert used(made) == 16
    made.observe_runtime_class("kata", {"cpu": 3 * NANO})
    assert used(made) == 26, "of six pods that the Jobs ask for, one has more than its template by 2 CPU"
    made.observe(WorkloadRef("", "pods", "team-a", "pod-0"), None, "4")
    assert used(made) == 24


def test_of_more_pods_than_a_member_asks_for_the_dearest_are_those_it_asks_for():
    made = family(1)
    see_pod(made, 0, "3", version=3)
    see_pod(made, 1, "5", job=0)
    assert used(made) == 10
    job = made.ledger.get(WorkloadRef("batch", "jobs", "team-a", "job-0"))
    assert job.part.charge.amounts[CPU] == 6 * NANO


def test_of_orphans_without_pods_no_deployment_is_asked(monkeypatch: pytest.MonkeyPatch):
    """Anybody may have hundreds of both, as they cost nothing."""
    asked: list[str] = []
    may_adopt = ownership._may_adopt
    monkeypatch.setattr(ownership, "_may_adopt", lambda *given: asked.append("") or may_adopt(*given))

    def orphan(number: int, replicas: int, version: str) -> dict[str, Any]:
        labels = {"app": "web", "pod-template-hash": "1"}
        return workload(f"old-{number}", replicas, kind="ReplicaSet", labels=labels, version=version)

    deployments = [workload(f"web-{number}", 0, labels={"app": "web"}) for number in range(4)]
    for one in deployments:
        one["spec"]["selector"]["matchLabels"] = {"app": "web"}
    made = gate([quota("acme", {CPU: "10"})], *deployments, *(orphan(number, 0, "1") for number in range(4)))
    made.observe(*observe(orphan(0, 0, "2") | {"metadata": orphan(0, 0, "2")["metadata"] | {"uid": "another"}}))
    assert asked == []
    made.observe(*observe(orphan(0, 1, "3")))
    assert len(asked) == 4


def test_what_a_member_has_left_and_its_pods_beyond_its_ordinals_are_counted_as_long_as_they_are_there():
    owners = owned("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve")
    made = gate([quota("acme", {CPU: "1000"})])
    made.observe_kind("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets")
    ref = WorkloadRef("leaderworkerset.x-k8s.io", "leaderworkersets", "team-a", "serve")
    made.observe(
        ref, Observed(2, intern({"template": pod({"cpu": "1"})}), uid="uid-serve", resource_version="1", selector="*")
    )

    def see_set(replicas: int, cpu: str, version: int) -> None:
        tree = workload(
            "serve",
            replicas,
            {"cpu": cpu},
            kind="StatefulSet",
            version=str(version),
            generation=1,
            ownerReferences=owners,
        )
        made.observe(*observe(tree | {"status": {"observedGeneration": 1}}))

    def see_member_pod(ordinal: int, version: int) -> None:
        given = metadata(f"serve-{ordinal}", owned("apps/v1", "StatefulSet", "serve"), version)
        made.observe(*object_readers.pod(pod({"cpu": "1"}) | {"metadata": given | {"labels": {"app": "serve"}}}))

    see_set(2, "3", 2)
    see_set(2, "1", 3)
    assert used(made) == 6, "the template that it has left may still run"
    made.ledger.observations.reached(("apps", "controllerrevisions"), "4")
    made.ledger.observations.reached(PODS, "4")
    assert used(made) == 2
    see_member_pod(0, 5)
    see_member_pod(4, 6)
    assert used(made) == 3, "the pod of ordinal 4 is none of the two"
    see_member_pod(1, 7)
    assert used(made) == 3
