"""Objects with several pod templates at the webhook: decided whole, and charged for what their operators make."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz import testing as builders
from extauthz.core.decision.gate import Gate
from extauthz.core.intake.admission import read
from extauthz.core.kinds import PODS
from extauthz.core.model import Decision, Verdict, WorkloadRef
from extauthz.core.objects.custom import Where
from extauthz.core.objects.workloads import observe
from extauthz.core.queries import Queries
from extauthz.inputs.cluster import object_readers
from extauthz.inputs.kube.resource import scaled
from extauthz.serve.service.pod_groups import parse
from extauthz.tell.observe.episodes import would_get_now
from extauthz.testing import admission, pod, quota
from tests.support.custom import (
    JOB_SETS,
    LEADER_WORKER_SETS,
    RAY,
    RAY_CLUSTERS,
    definition,
    jobset,
    leader_worker_set,
    raycluster,
    worker,
)

Tree = Any
CPU = 10**9
JOB_SET = definition("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LWS = definition("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
LWS["spec"]["versions"][0]["subresources"]["scale"] = {"specReplicasPath": ".spec.replicas"}


class World:
    """A gate that knows these kinds, and is asked as an API server asks."""

    def __init__(self, hard: dict[str, str], mode: str = "Enforce") -> None:
        self.gate = builders.gate([quota("acme", hard, mode=mode)])
        self._kinds = {}
        for one, groups in ((RAY_CLUSTERS, RAY), (JOB_SET, JOB_SETS), (LWS, LEADER_WORKER_SETS)):
            where: Where = parse(groups)[one["metadata"]["name"]]
            kind = scaled(one, [one["metadata"]["name"]])
            self._kinds[kind.resource.kind] = kind, where
            shapes = object_readers.shapes(kind, where)
            self.gate.observe_kind(kind.resource.group, kind.resource.kind, kind.resource.plural, shapes)
        self._asked = 0

    def see(self, tree: Tree) -> WorkloadRef:
        if tree["kind"] in self._kinds:
            ref, observed = object_readers.read(*self._kinds[tree["kind"]], tree)
        else:
            group = tree["apiVersion"].rpartition("/")[0]
            found = object_readers.COUNTED[group, tree["kind"]](tree)
            assert found is not None
            ref, observed = found
        self.gate.observe(ref, observed)
        assert self.gate.ledger.drift() == {}
        return ref

    def ask(self, new: Tree, old: Tree = None) -> Decision:
        group, _, version = new["apiVersion"].rpartition("/")
        kind = self._kinds.get(new["kind"])
        plural = kind[0].resource.plural if kind is not None else f"{new['kind'].lower()}s"
        review = admission(new, old, resource={"group": group, "version": version, "resource": plural})
        found = read(json.dumps(review).encode(), shapes=self.gate.shapes)
        self._asked += 1
        self.last = found
        return self.gate.decide(found.question.reading, f"w{self._asked}", 0.0)

    def used(self, key: str = "requests.cpu") -> int:
        return used(self.gate, key)


def used(gate: Gate, key: str = "requests.cpu") -> int:
    return sum(one.used.get(key, 0) for one in Queries(gate.ledger).workloads("acme")) // CPU


def owned(tree: Tree, owner: Tree, uid: str = "") -> Tree:
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"controller": True}
    reference |= {"name": owner["metadata"]["name"], "uid": uid or owner["metadata"]["uid"]}
    tree["metadata"] |= {"ownerReferences": [reference]}
    return tree


def made_pod(name: str, owner: Tree, requests: dict[str, str], uid: str = "") -> Tree:
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "9"}
    return owned({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod(requests)["spec"]}, owner, uid)


def job(name: str, owner: Tree, parallelism: int, requests: dict[str, str] | None = None) -> Tree:
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "9"}
    spec = {"parallelism": parallelism, "template": pod(requests or {"cpu": "1"})}
    return owned({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, owner)


# Decided whole.


def test_an_update_is_weighed_as_the_sum_over_its_groups():
    world = World({"requests.cpu": "10"})
    before = raycluster(worker("a", 1, {"cpu": "2"}), worker("b", 1, {"cpu": "1"}))
    world.see(before)
    assert world.used() == 4
    refused = world.ask(raycluster(worker("a", 3, {"cpu": "2"}), worker("b", 4, {"cpu": "1"})), before)
    assert (refused.verdict, refused.reason, refused.evidence.fits) == (Verdict.DENY, "exceeded-quota", None)
    assert would_get_now(Queries(world.gate.ledger), lambda: True)(refused) is refused, "only who asks again can tell"
    assert refused.sentence == (
        'rayclusters.ray.io "ray" is forbidden: exceeded workspace quota: acme, requested: requests.cpu=7, '
        "used: requests.cpu=4, limited: requests.cpu=10"
    )
    after = raycluster(worker("a", 3, {"cpu": "2"}), worker("b", 3, {"cpu": "1"}))
    assert world.ask(after, before).verdict is Verdict.ALLOW
    assert world.used() == 4
    world.see(after | {"metadata": after["metadata"] | {"resourceVersion": "8"}})
    assert (world.used(), world.gate.ledger.pending_writes) == (10, 0)


@pytest.mark.parametrize(("workers", "verdict"), [(9, Verdict.ALLOW), (10, Verdict.DENY)])
def test_a_new_one_needs_room_for_all_its_groups(workers, verdict):
    assert World({"pods": "10"}).ask(raycluster(worker("a", workers, {}))).verdict is verdict


def test_less_passes_while_a_quota_is_over():
    world = World({"requests.cpu": "3"})
    before = raycluster(worker("a", 4, {"cpu": "2"}), worker("b", 2, {"cpu": "1"}))
    world.see(before)
    assert world.used() == 11
    fewer = raycluster(worker("a", 3, {"cpu": "2"}), worker("b", 2, {"cpu": "1"}))
    assert world.ask(fewer, before).reason == "no-growth"
    shifted = raycluster(worker("a", 3, {"cpu": "2"}), worker("b", 4, {"cpu": "1"}))
    assert world.ask(shifted, before).reason == "no-growth"
    assert (
        world.ask(raycluster(worker("a", 4, {"cpu": "2"}), worker("b", 3, {"cpu": "1"})), before).verdict
        is Verdict.DENY
    )


def test_one_that_starts_needs_room_and_one_that_is_suspended_none():
    world = World({"requests.cpu": "4"})
    before = raycluster(worker("a", 4, {"cpu": "1"}), suspend=True)
    world.see(before)
    assert world.used() == 0
    assert world.ask(raycluster(worker("a", 4, {"cpu": "1"})), before).verdict is Verdict.DENY
    assert world.ask(raycluster(worker("a", 3, {"cpu": "1"})), before).verdict is Verdict.ALLOW


def test_pods_must_say_what_they_need_in_each_group():
    world = World({"requests.cpu": "9"})
    before = raycluster(worker("a", 1, {}))
    world.see(before)
    assert world.ask(raycluster(worker("a", 2, {})), before).reason == "must-specify"
    assert world.ask(raycluster(worker("a", 1, {}), worker("b", 2, {"cpu": "1"})), before).verdict is Verdict.ALLOW


def test_nothing_is_lowered_where_there_is_no_count():
    world = World({"requests.cpu": "4"}, mode="Clamp")
    before = raycluster(worker("a", 1, {"cpu": "1"}))
    world.see(before)
    assert world.ask(raycluster(worker("a", 9, {"cpu": "1"})), before).verdict is Verdict.DENY
    assert world.gate.clamp(world.last.question.reading, "c", 0.0) is None
    again = raycluster(worker("a", 9, {"cpu": "1"}), suspend=True)
    world.see(again | {"metadata": again["metadata"] | {"resourceVersion": "8"}})
    assert world.ask(raycluster(worker("a", 9, {"cpu": "1"}), version="8"), again).verdict is Verdict.DENY
    assert world.gate.clamp(world.last.question.reading, "c", 0.0) is None


def test_one_that_cannot_be_read_is_refused_by_name():
    world = World({"requests.cpu": "4"})
    refused = world.ask(raycluster(worker("a", -1, {})))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "replicas-negative")
    assert "spec.workerGroupSpecs[0].replicas: must not be below zero" in refused.sentence
    assert world.ask({**raycluster(), "spec": {}}).reason == "unknown-footprint"


def test_where_there_is_a_scale_one_replica_costs_the_sum():
    world = World({"requests.cpu": "12"})
    before = leader_worker_set(2, 4)
    world.see(before)
    assert world.used() == 8
    refused = world.ask(leader_worker_set(4, 4), before)
    assert (refused.verdict, refused.evidence.fits) == (Verdict.DENY, 3)
    assert world.last.count_path == "/spec/replicas"
    assert world.ask(leader_worker_set(2, 7), before).verdict is Verdict.DENY
    assert world.ask(leader_worker_set(2, 6), before).verdict is Verdict.ALLOW


# What operators make.


def test_pods_of_its_operator_cost_nothing_beside_it_and_more_than_it_asks_for_is_charged():
    world = World({"requests.cpu": "20"})
    ray = raycluster(worker("a", 2, {"cpu": "2"}))
    world.see(ray)
    world.see(made_pod("ray-head", ray, {"cpu": "1"}))
    for number in range(2):
        world.see(made_pod(f"ray-a-{number}", ray, {"cpu": "2"}))
    assert (world.used(), world.used("pods")) == (5, 3)
    world.see(made_pod("ray-a-3", ray, {"cpu": "2"}))
    assert (world.used(), world.used("pods")) == (7, 4)


def test_a_pod_that_was_asked_about_and_is_more_than_is_observed_counts_the_same_once_it_is_there():
    """Its owner may grow, and has not been seen to."""
    world = World({"requests.cpu": "20"})
    before, after = leader_worker_set(1, 1), leader_worker_set(3, 1, version="8")
    world.see(before)
    world.see(made_pod("lws-0", before, {"cpu": "1"}))
    assert world.ask(after, before).verdict is Verdict.ALLOW
    made = made_pod("lws-1", before, {"cpu": "1"})
    assert world.ask(made).verdict is Verdict.ALLOW
    world.see(made)
    assert world.used() == 2


def test_pods_are_known_by_the_uid_of_their_owner():
    world = World({"requests.cpu": "20"})
    ray = raycluster(worker("a", 2, {"cpu": "2"}))
    world.see(made_pod("ray-head", ray, {"cpu": "1"}))
    assert world.used() == 1
    world.see(ray)
    assert world.used() == 5
    world.see(made_pod("other", ray, {"cpu": "1"}, uid="of-one-before"))
    assert world.used() == 6


def test_jobs_that_its_operator_makes_take_no_room_beside_it():
    world = World({"requests.cpu": "6"})
    train = jobset(2, 3)
    assert world.ask(train).verdict is Verdict.ALLOW
    world.see(train)
    assert world.used() == 6
    for number in range(2):
        made = job(f"train-{number}", train, 3)
        assert world.ask(made).verdict is Verdict.ALLOW
        world.see(made)
        assert world.used() == 6
        world.see(made_pod(f"train-{number}-0", made, {"cpu": "1"}))
        assert world.used() == 6
    assert world.ask(job("more", train, 1)).verdict is Verdict.DENY
    assert world.ask(jobset(3, 3), train).verdict is Verdict.DENY


def stateful_set(name: str, owner: Tree, replicas: int, start: int) -> Tree:
    tree = owned(builders.workload(name, replicas, kind="StatefulSet"), owner)
    tree["spec"]["ordinals"] = {"start": start}
    return tree


def test_stateful_sets_that_its_pods_own_are_its_too():
    world = World({"requests.cpu": "9"})
    lws = leader_worker_set(2, 4)
    assert world.ask(lws).verdict is Verdict.ALLOW
    world.see(lws)
    leaders = stateful_set("lws", lws, 2, 0)
    assert world.ask(leaders).verdict is Verdict.ALLOW
    world.see(leaders)
    for number in range(2):
        leader = made_pod(f"lws-{number}", leaders, {"cpu": "1"})
        leader["metadata"]["labels"] = {"app": "lws"}
        world.see(leader)
        workers = stateful_set(f"lws-{number}", leader, 3, 1)
        assert world.ask(workers).verdict is Verdict.ALLOW
        world.see(workers)
        assert world.used() == 8
    more = stateful_set("lws-2", made_pod("lws-2", leaders, {}), 3, 1)
    assert world.ask(more).verdict is Verdict.DENY
    world.see(more)
    assert world.used() == 11


def test_a_stateful_set_of_a_pod_counts_by_itself_until_the_object_is_seen():
    world = World({"requests.cpu": "20"})
    lws = leader_worker_set(1, 4)
    leader = made_pod("lws-0", lws, {"cpu": "1"})
    workers = stateful_set("lws-0", leader, 3, 1)
    assert world.ask(workers).verdict is Verdict.ALLOW
    world.see(workers)
    assert world.used() == 3
    world.see(lws)
    assert world.used() == 4
    other = stateful_set("x", made_pod("no-pod-of-a-set", lws, {}), 1, 0)
    world.see(other)
    assert world.used() == 5
    elsewhere = stateful_set("lws-0", made_pod("other-0", lws, {}), 3, 1)
    elsewhere["metadata"]["resourceVersion"] = "2"
    assert world.ask(elsewhere, workers).verdict is Verdict.ALLOW
    world.see(elsewhere)
    assert world.used() == 8


def test_what_leaves_for_pods_of_another_object_needs_room_for_both():
    """The pod that is left makes another in its place."""
    world = World({"requests.cpu": "6"})
    lws = leader_worker_set(1, 4)
    world.see(lws)
    workers = stateful_set("lws-0", made_pod("lws-0", lws, {}), 3, 1)
    world.see(workers)
    assert world.used() == 4
    elsewhere = stateful_set("lws-0", made_pod("other-0", lws, {}), 3, 1)
    assert world.ask(elsewhere, workers).verdict is Verdict.DENY
    again = stateful_set("lws-0", made_pod("lws-0", lws, {}, uid="a-later-one"), 3, 1)
    again["metadata"]["ownerReferences"][0]["uid"] = "a-later-one"
    assert world.ask(again, workers).verdict is Verdict.ALLOW


def test_a_kind_that_is_known_late_takes_what_its_pods_own():
    made = builders.gate([quota("acme", {"requests.cpu": "9"})])
    lws = leader_worker_set(1, 4)
    workers = stateful_set("lws-0", made_pod("lws-0", lws, {}), 3, 1)
    made.observe(*observe(workers))
    kind = scaled(LWS)
    where: Where = parse(LEADER_WORKER_SETS)[kind.resource.group_resource]
    made.observe(*object_readers.read(kind, where, lws))
    assert used(made) == 7
    shapes = object_readers.shapes(kind, where)
    made.observe_kind(kind.resource.group, kind.resource.kind, kind.resource.plural, shapes)
    assert used(made) == 4
    assert made.ledger.drift() == {}


def test_one_that_another_custom_resource_has_made_counts_by_itself():
    world = World({"requests.cpu": "3"})
    service = {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "serve", "uid": "u"}}
    ray = owned(raycluster(worker("a", 2, {"cpu": "1"})), service)
    assert world.ask(ray).verdict is Verdict.ALLOW
    world.see(ray)
    assert (world.used(), world.gate.ledger.pending_writes) == (3, 0)
    assert world.ask(owned(raycluster(name="other"), service)).verdict is Verdict.DENY


def test_jobs_of_a_jobset_that_has_ended_count_no_more():
    world = World({"requests.cpu": "6"})
    world.see(jobset(2, 3))
    world.see(jobset(2, 3, version="8") | {"status": {"terminalState": "Completed"}})
    assert world.used() == 6, "its pods may be there: their watch has not come as far"
    world.gate.reached(PODS, "8")
    assert world.used() == 0


# Pods by themselves (--webhook-pods).


def bare_pod(name: str, requests: dict[str, str], uid: str = "") -> Tree:
    metadata = {"name": name, "namespace": "team-a", "uid": uid or f"uid-{name}", "resourceVersion": "9"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod(requests)["spec"]}


def test_a_pod_of_nobody_needs_room():
    world = World({"requests.cpu": "4"})
    refused = world.ask(bare_pod("big", {"cpu": "5"}))
    assert refused.sentence == (
        'pods "big" is forbidden: exceeded workspace quota: acme, requested: requests.cpu=5, used: requests.cpu=0, '
        "limited: requests.cpu=4"
    )
    assert world.ask(bare_pod("a", {"cpu": "3"})).verdict is Verdict.ALLOW
    assert world.ask(bare_pod("b", {"cpu": "2"})).verdict is Verdict.DENY
    world.see(bare_pod("a", {"cpu": "3"}))
    assert (world.used(), world.gate.ledger.pending_writes) == (3, 0)
    assert world.ask(bare_pod("c", {})).sentence.endswith("must specify requests.cpu for: main")


def test_a_pod_of_an_owner_that_is_charged_takes_no_room_and_one_more_does():
    world = World({"requests.cpu": "6"})
    ray = raycluster(worker("a", 2, {"cpu": "2"}))
    assert world.ask(ray).verdict is Verdict.ALLOW
    world.see(ray)
    assert world.used() == 5
    for number in range(2):
        assert world.ask(made_pod(f"w{number}", ray, {"cpu": "2"})).verdict is Verdict.ALLOW
    assert world.ask(made_pod("head", ray, {"cpu": "1"})).verdict is Verdict.ALLOW
    assert world.gate.ledger.pending_writes == 3
    assert world.ask(made_pod("more", ray, {"cpu": "2"})).verdict is Verdict.DENY
    assert world.ask(made_pod("small", ray, {"cpu": "1"})).verdict is Verdict.ALLOW
    for name, cpu in (("w0", "2"), ("w1", "2"), ("head", "1"), ("small", "1")):
        world.see(made_pod(name, ray, {"cpu": cpu}))
    assert (world.used(), world.gate.ledger.pending_writes) == (6, 0)
    assert world.ask(made_pod("more", ray, {"cpu": "1"})).verdict is Verdict.DENY
    assert world.gate.ledger.drift() == {}


def test_a_pod_that_is_another_one_of_that_name_ends_nothing():
    world = World({"requests.cpu": "6"})
    ray = raycluster(worker("a", 2, {"cpu": "2"}))
    world.see(ray)
    assert world.ask(made_pod("w0", ray, {"cpu": "2"})).verdict is Verdict.ALLOW
    other = made_pod("w0", ray, {"cpu": "2"})
    other["metadata"]["uid"] = "uid-of-another"
    world.see(other)
    assert (world.used(), world.gate.ledger.pending_writes) == (5, 1)
    world.see(made_pod("w0", ray, {"cpu": "2"}))
    assert (world.used(), world.gate.ledger.pending_writes) == (5, 0)


def test_who_names_a_workload_as_the_owner_and_is_not_its_controller_needs_room():
    world = World({"requests.cpu": "3"})
    replica_set = builders.workload("web", 3, kind="ReplicaSet")
    world.see(replica_set)
    fake = made_pod("fake", replica_set, {"cpu": "1"})
    fake["metadata"]["labels"] = {"app": "web"}
    assert world.ask(fake).verdict is Verdict.DENY


def test_a_pod_of_an_owner_that_no_quota_knows_counts_by_itself():
    world = World({"requests.cpu": "3"})
    job_ = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train", "uid": "u"}}
    assert world.ask(made_pod("w0", job_, {"cpu": "2"})).verdict is Verdict.ALLOW
    world.see(made_pod("w0", job_, {"cpu": "2"}))
    assert (world.used(), world.gate.ledger.pending_writes) == (2, 0)
    assert world.ask(made_pod("w1", job_, {"cpu": "2"})).verdict is Verdict.DENY


def test_a_pod_that_is_changed_is_no_write():
    world = World({"requests.cpu": "3"})
    one = bare_pod("a", {"cpu": "1"})
    assert world.ask(one, one).reason == "other-resource"
