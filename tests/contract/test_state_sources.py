"""The contract of a source of the cluster's state: whatever brings the objects, in whatever order, the same counts."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.objects.fields import kind_of
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster import file as state_file
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import PHASES, AnyFeed, feeds
from extauthz.inputs.cluster.scaled import PodPrices
from extauthz.inputs.files import content
from extauthz.testing import owned_by, pod, quota, workload

Tree = Any
DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
COUNTED = ("pods", "requests.cpu", "requests.memory", "limits.memory", "count/deployments.apps", "count/pods", DEVICES,
           "requests.example.com/gpu")  # fmt: skip
KEYS = dict.fromkeys(COUNTED, "1000")
QUOTAS = [quota("acme", KEYS), quota("gold", KEYS, namespaces={}, workloads={"tier": "gold"})]
RESOURCES = {(one.group, one.kind): (one.group, one.plural) for phase in PHASES for one in phase}


def namespace(name: str = "team-a", **labels: str) -> Tree:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def obj(api_version: str, kind: str, name: str, spec: Tree = None, **more: Tree) -> Tree:
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}"} | more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | ({"spec": spec} if spec else {}) | more


def bare_pod(name: str, *, cpu: str = "1", phase: str = "Running", **metadata: Tree) -> Tree:
    return obj("v1", "Pod", name, pod({"cpu": cpu})["spec"], status={"phase": phase}, metadata=metadata)


def of(owner: str, kind: str, api_version: str = "apps/v1") -> dict[str, Tree]:
    reference = owned_by(owner, kind=kind)
    reference[0]["apiVersion"] = api_version
    return {"labels": {"app": owner}, "ownerReferences": reference}


def replica_set(name: str, replicas: int, cpu: str, owner: str = "web") -> Tree:
    return workload(name, replicas, {"cpu": cpu}, kind="ReplicaSet", **of(owner, "Deployment")) | {}


def stateful_set(current: str, update: str, replicas: int = 3) -> Tree:
    status = {"observedGeneration": 1, "currentRevision": current, "updateRevision": update}
    return workload("db", replicas, {"cpu": "1"}, kind="StatefulSet", generation=1) | {"status": status}


def revision(name: str, cpu: str) -> Tree:
    return obj(
        "apps/v1",
        "ControllerRevision",
        name,
        data={"spec": {"template": pod({"cpu": cpu})}},
        metadata=of("db", "StatefulSet"),
    )


def job(name: str, **more: Tree) -> Tree:
    spec = {"parallelism": 2, "template": pod({"cpu": "1"}), "selector": {"matchLabels": {"app": name}}}
    return obj("batch/v1", "Job", name, spec, **more)


def takes(count: int, **more: Tree) -> Tree:
    """The spec of a claim of so many devices of the class ``gpu``."""
    return {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu", "count": count} | more}]}}


def claim_template(count: int) -> Tree:
    return obj("resource.k8s.io/v1", "ResourceClaimTemplate", "gpus", {"spec": takes(count)})


def device_claim(name: str, count: int, pod: str = "", **annotations: str) -> Tree:
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"uid-{pod}", "controller": True}]
    metadata = {"annotations": annotations, "ownerReferences": owner if pod else []}
    return obj("resource.k8s.io/v1", "ResourceClaim", name, takes(count), metadata=metadata)


def made_for(pod: str, count: int) -> Tree:
    return device_claim(f"{pod}-gpus-x7", count, pod, **{"resource.kubernetes.io/pod-claim-name": "gpus"})


def claiming(one: Tree) -> Tree:
    spec = one["spec"].get("template", one)["spec"]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    return one


GPUS = {
    "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
    "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"},
}  # fmt: skip
CREW = claiming(workload("crew", 2, kind="ReplicaSet"))


def of_crew(name: str) -> Tree:
    return claiming(bare_pod(name, **of("crew", "ReplicaSet")))


LIMITS = {"limits": [{"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "2"}}]}
ACME = namespace(workspace="acme")

CASES: dict[str, tuple[list[Tree], dict[str, int]]] = {
    "deployment": ([ACME, workload("web", 3)], {"acme requests.cpu": 3, "acme count/deployments.apps": 1}),
    "replicas-left-to-the-default": ([ACME, workload("web", None)], {"acme pods": 1}),
    "namespace-of-nobody": ([namespace(), workload("web", 3)], {"acme pods": 0}),
    "workload-label": ([ACME, workload("web", 3, labels={"tier": "gold"})], {"gold pods": 3, "acme pods": 3}),
    "no-namespace-seen": ([workload("web", 3)], {"acme pods": 0}),
    "limit-range": (
        [ACME, obj("v1", "LimitRange", "defaults", LIMITS), workload("web", 3, {})],
        {"acme requests.cpu": 6, "acme limits.memory": 3 * 2**30},
    ),
    "replica-set-of-a-deployment": ([ACME, workload("web", 3), replica_set("web-1", 3, "1")], {"acme requests.cpu": 3}),
    "old-replica-set-that-costs-more": (
        [ACME, workload("web", 3), replica_set("web-1", 3, "2")],
        {"acme requests.cpu": 6},
    ),
    "bare-replica-set": ([ACME, workload("crew", 2, kind="ReplicaSet")], {"acme requests.cpu": 2}),
    "bare-pod": ([ACME, bare_pod("p", cpu="3")], {"acme pods": 1, "acme requests.cpu": 3}),
    "finished-pods": (
        [ACME, bare_pod("p", phase="Failed"), bare_pod("q", phase="Succeeded")],
        {"acme pods": 0, "acme count/pods": 2},
    ),
    "pod-of-a-replica-set": (
        [ACME, workload("crew", 2, kind="ReplicaSet"), bare_pod("crew-1", **of("crew", "ReplicaSet"))],
        {"acme pods": 2},
    ),
    "more-pods-than-its-count": (
        [ACME, workload("crew", 1, kind="ReplicaSet")]
        + [bare_pod(f"crew-{number}", **of("crew", "ReplicaSet")) for number in range(3)],
        {"acme pods": 3},
    ),
    "pod-whose-replica-set-is-not-there": ([ACME, bare_pod("crew-1", **of("crew", "ReplicaSet"))], {"acme pods": 1}),
    "pod-that-only-says-so": (
        [ACME, workload("crew", 2, kind="ReplicaSet"), bare_pod("p", **(of("crew", "ReplicaSet") | {"labels": {}}))],
        {"acme pods": 3},
    ),
    "pod-of-a-daemon-set": ([ACME, bare_pod("d-1", **of("d", "DaemonSet"))], {"acme pods": 1}),
    "job": ([ACME, job("sum")], {"acme pods": 2, "acme requests.cpu": 2}),
    "pod-of-a-job": ([ACME, job("sum"), bare_pod("sum-1", **of("sum", "Job", "batch/v1"))], {"acme pods": 2}),
    "finished-job": (
        [ACME, job("sum", status={"conditions": [{"type": "Failed", "status": "True"}]})],
        {"acme pods": 0},
    ),
    "stateful-set-rolled-out": (
        [ACME, stateful_set("db-1", "db-1"), revision("db-1", "9")],
        {"acme pods": 3, "acme requests.cpu": 3},
    ),
    "stateful-set-amid-a-rollout": (
        [ACME, stateful_set("db-1", "db-2"), revision("db-1", "9"), revision("db-2", "1")],
        {"acme pods": 3, "acme requests.cpu": 27},
    ),
    "claims-of-devices-to-come": ([ACME, claim_template(3), CREW], {f"acme {DEVICES}": 6}),
    "claim-of-a-pod-that-is-charged": (
        [ACME, claim_template(3), CREW, of_crew("crew-1"), made_for("crew-1", 3)],
        {f"acme {DEVICES}": 6},
    ),
    "claim-from-before-its-template-was-made-anew": (
        [ACME, claim_template(1), CREW, of_crew("crew-1"), of_crew("crew-2"), made_for("crew-1", 3)],
        {f"acme {DEVICES}": 4},
    ),
    "claim-of-a-bare-pod": (
        [ACME, claim_template(2), claiming(bare_pod("p")), made_for("p", 2)],
        {f"acme {DEVICES}": 2},
    ),
    "claim-of-nobody": ([ACME, device_claim("shared", 4), made_for("gone", 1)], {f"acme {DEVICES}": 5}),
    "devices-that-are-an-extended-resource": (
        [ACME, GPUS, claim_template(3), CREW], {f"acme {DEVICES}": 6, "acme requests.example.com/gpu": 6},
    ),
}  # fmt: skip


def from_file(objects: Iterable[Tree], gate: Gate, path: Path) -> None:
    (path / "state.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    gate.load_state(state_file.parse(content.read(path / "state.json")).state, 0.0)


def numbered(objects: Iterable[Tree], start: int = 1) -> list[Tree]:
    """As a server stores them: each with a version of its own."""
    stored = copy.deepcopy(list(objects))
    for version, one in enumerate(stored, start):
        one["metadata"]["resourceVersion"] = str(version)
    return stored


def feed_of(made: Mapping[Any, AnyFeed], one: Tree) -> AnyFeed:
    return made[RESOURCES[kind_of(one)]]


def nothing(*_: object) -> None:
    """There are no custom resources here."""


def none_invalid() -> InvalidObjects:
    def tell(*what: object) -> None:
        raise AssertionError(what)

    return InvalidObjects(tell)


def listed(objects: Iterable[Tree], gate: Gate, _: Path) -> None:
    """Lists, phase by phase, as at a start."""
    made = feeds(gate, none_invalid(), PodPrices(gate, nothing))
    list_all(made, numbered(objects), "99")


def list_all(made: Mapping[Any, AnyFeed], objects: list[Tree], version: str) -> None:
    for phase in PHASES:
        for resource in phase:
            feed = made[resource.group, resource.plural]
            mine = [one for one in objects if kind_of(one) == (resource.group, resource.kind)]
            asyncio.run(feed.replaced([feed.convert(one) for one in mine], version))
            feed.reached(version)


def told(objects: Iterable[Tree], gate: Gate, _: Path) -> None:
    """Events, in the order given."""
    made = feeds(gate, none_invalid(), PodPrices(gate, nothing))
    for one in numbered(objects):
        feed = feed_of(made, one)
        feed.changed("ADDED", feed.convert(one))


def told_backwards(objects: Iterable[Tree], gate: Gate, path: Path) -> None:
    """Watches of different kinds run beside each other: events may come in any order."""
    told(reversed(list(objects)), gate, path)


def told_after_others(objects: Iterable[Tree], gate: Gate, path: Path) -> None:
    """Every object was of another kind of state before, and others were there that are gone."""
    made = feeds(gate, none_invalid(), PodPrices(gate, nothing))
    before = numbered(
        [namespace(other="x"), *(changed(one) for one in objects), workload("gone", 9), bare_pod("gone-1")]
    )
    for one in before:
        feed = feed_of(made, one)
        feed.changed("ADDED", feed.convert(one))
    for one in numbered(objects, 100):
        feed = feed_of(made, one)
        feed.changed("MODIFIED", feed.convert(one))
    kept = {(one["kind"], one["metadata"]["name"]) for one in objects}
    for at, one in enumerate(before):
        if (one["kind"], one["metadata"]["name"]) not in kept:
            one["metadata"]["resourceVersion"] = str(200 + at)
            feed_of(made, one).changed("DELETED", feed_of(made, one).convert(one))
    for feed in made.values():
        feed.reached("299")  # a bookmark: all that a controller has made of the change was told


def listed_after_others(objects: Iterable[Tree], gate: Gate, _: Path) -> None:
    """A list taken anew, after a watch could not be gone on with."""
    made = feeds(gate, none_invalid(), PodPrices(gate, nothing))
    list_all(made, numbered([namespace(other="x"), *(changed(one) for one in objects), workload("gone", 9)]), "50")
    list_all(made, numbered(objects, 100), "199")


def told_late(objects: Iterable[Tree], gate: Gate, _: Path) -> None:
    """A consistent read has overtaken the watch, which then tells what was before."""
    made = feeds(gate, none_invalid(), PodPrices(gate, nothing))
    list_all(made, numbered(objects, 100), "199")
    for one in numbered(changed(one) for one in objects if one["kind"] != "ControllerRevision"):
        feed = feed_of(made, one)
        feed.changed("MODIFIED", feed.convert(one))


def changed(one: Tree) -> Tree:
    """The same object in another state."""
    other = copy.deepcopy(one)
    other["metadata"]["labels"] = {"other": "label"}
    if isinstance(other.get("spec"), dict) and "template" in other["spec"]:
        other["spec"]["template"] = pod({"cpu": "7"})
        other["spec"]["replicas"] = 5
    if other["kind"] == "StatefulSet":
        other["status"] = {"observedGeneration": 1, "currentRevision": "db-2", "updateRevision": "db-1"}
    return other


WAYS = [from_file, listed, told, told_backwards, told_after_others, listed_after_others, told_late]
Bring = Callable[[Iterable[Tree], Gate, Path], None]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__.replace("_", "-"))
def bring(request) -> Bring:
    return request.param


def fresh() -> Gate:
    gate = Gate()
    gate.load_quotas(QuotaTree.build(QUOTAS), 0.0)
    return gate


def used(gate: Gate) -> dict[str, int]:
    assert gate.ledger.drift() == {}
    return {f"{row.quota} {row.resource}": row.used // 10**9 for row in gate.usage()}


@pytest.mark.parametrize("case", CASES)
def test_what_is_there_is_counted_whatever_brings_it(case, bring, tmp_path):
    objects, wanted = CASES[case]
    gate = fresh()
    bring(objects, gate, tmp_path)
    counted = used(gate)
    assert {key: counted[key] for key in wanted} == wanted


def test_all_sources_agree_on_a_whole_cluster(bring, tmp_path):
    chance = random.Random(7)
    objects = {(one["kind"], one["metadata"]["name"]): one for case, _ in CASES.values() for one in case}
    cluster = list(objects.values())
    wanted = fresh()
    from_file(cluster, wanted, tmp_path)
    chance.shuffle(cluster)
    gate = fresh()
    bring(cluster, gate, tmp_path)
    assert used(gate) == used(wanted)
