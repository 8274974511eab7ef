"""What claims of devices cost (DRA), as ResourceQuota counts them, and what changes it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from extauthz.core.errors import ObjectError
from extauthz.core.footprint import UNKNOWN_DEVICES, DeviceTerms, per_pod, unspecified
from extauthz.core.intake.admission import read
from extauthz.core.model import Observed, OwnerRef, WorkloadRef
from extauthz.core.objects import devices
from extauthz.core.objects.workloads import pod_template, prune
from extauthz.inputs.cluster import object_readers
from extauthz.testing import Asker, admission, gate, owned_by, pod, quota, scale, snapshot, workload

GPU = "gpu.deviceclass.resource.k8s.io/devices"
NAME, IMPLICIT = "requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu"
TPU = "tpu.deviceclass.resource.k8s.io/devices"
ONE = 10**9
TEAM = "team-a"


def exactly(count: Any = None, device_class: str = "gpu", **more: Any) -> dict[str, Any]:
    said = {"deviceClassName": device_class} | ({} if count is None else {"count": count})
    return {"name": "r", "exactly": said | more}


def first(*subrequests: tuple[str, int]) -> dict[str, Any]:
    return {"name": "r", "firstAvailable": [{"deviceClassName": name, "count": count} for name, count in subrequests]}


def claim(*requests: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "spec": {"devices": {"requests": list(requests)}}}


def template(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"spec": claim(*requests)}


def cost(*requests: dict[str, Any], **terms: Any) -> dict[str, int]:
    """In devices."""
    tree = devices.claim(claim(*requests))
    found = per_pod(_tree(tree), terms=DeviceTerms(**{"extended": {"gpu": "", "tpu": ""}} | terms))
    return {key: amount // ONE for key, amount in found.items()}


def _tree(template: Any) -> Any:

    return json.loads(template.text)


@pytest.mark.parametrize(
    ("requests", "costs"),
    [
        ([exactly(3)], {GPU: 3}),
        ([exactly()], {GPU: 1}),
        ([exactly(2), exactly(1), exactly(4, "tpu")], {GPU: 3, TPU: 4}),
        ([exactly(allocationMode="All")], {GPU: 32}),
        ([first(("gpu", 2), ("tpu", 8), ("gpu", 3))], {GPU: 3, TPU: 8}),
        ([first(("gpu", 2)), exactly(1)], {GPU: 3}),
        ([exactly(2, adminAccess=True), exactly(1)], {GPU: 3}),
        ([], {}),
        ([exactly(1), {"name": "of-the-future"}], {GPU: 1, UNKNOWN_DEVICES: 1}),
        ([exactly(7, allocationMode="Some")], {UNKNOWN_DEVICES: 1}),
        ([exactly(2, "npu")], {"npu.deviceclass.resource.k8s.io/devices": 2, UNKNOWN_DEVICES: 1}),
    ],
)
def test_a_claim_costs_the_most_that_its_requests_may_take(requests, costs):
    assert cost(*requests) == costs


def test_administrators_access_costs_nothing_where_the_namespace_allows_it():
    assert cost(exactly(2, adminAccess=True), exactly(1), for_admins=True) == {GPU: 1}


def test_devices_of_a_class_with_an_extended_resource_count_under_its_names_too():
    assert cost(exactly(2), extended={"gpu": "example.com/gpu"}) == {GPU: 2, NAME: 2, IMPLICIT: 2}


@pytest.mark.parametrize(
    ("requests", "costs"),
    [
        ({"example.com/gpu": "2"}, {GPU: 2, NAME: 2, IMPLICIT: 2}),
        ({"deviceclass.resource.kubernetes.io/gpu": "1"}, {GPU: 1, NAME: 1, IMPLICIT: 1}),
        ({"example.com/gpu": "2", "deviceclass.resource.kubernetes.io/gpu": "1"}, {GPU: 3, NAME: 3, IMPLICIT: 3}),
        ({"example.com/other": "2"}, {"requests.example.com/other": 2}),
    ],
)
def test_an_extended_resource_of_a_class_counts_as_its_devices(requests, costs):
    found = per_pod({"template": pod(requests)}, terms=DeviceTerms(extended={"gpu": "example.com/gpu"}))
    assert {key: amount // ONE for key, amount in found.items() if "pods" not in key} == costs


def test_the_resource_that_each_class_has_counts_as_its_devices_without_another_name():
    found = per_pod({"template": pod({"deviceclass.resource.kubernetes.io/gpu": "2"})})
    assert (found[GPU], found[IMPLICIT]) == (2 * ONE, 2 * ONE)


@pytest.mark.parametrize("count", ["1", -1, 2**31, 1.5, True])
def test_a_count_that_no_api_server_prints_is_told_by_its_field(count):
    with pytest.raises(ObjectError, match=r"spec\.devices\.requests\[0\]\.exactly\.count: must be a whole number"):
        devices.claim(claim(exactly(count)))


def test_a_class_says_what_else_its_devices_are_called():
    assert devices.extended_name({"spec": {"extendedResourceName": "example.com/gpu"}}) == "example.com/gpu"
    assert devices.extended_name({"spec": {}}) == ""
    with pytest.raises(ObjectError, match=r"spec\.extendedResourceName"):
        devices.extended_name({"spec": {"extendedResourceName": 4}})


def test_a_claim_says_nothing_of_cpu():
    assert unspecified(_tree(devices.claim(claim(exactly())))) == {}


# In a gate.


def claiming(name: str = "train", replicas: int = 2, **claimed: str) -> dict[str, Any]:
    obj = workload(name, replicas)
    listed = [{"name": "gpus"} | (claimed or {"resourceClaimTemplateName": "gpus"})]
    obj["spec"]["template"]["spec"]["resourceClaims"] = listed
    return obj


def used(asked: Any, key: str = GPU) -> int:
    assert asked.ledger.drift() == {}
    return next(row.used for row in asked.usage() if row.resource == key) // ONE


def a_gate(*objects: dict[str, Any]) -> Any:
    made = gate([quota("acme", {GPU: "99", NAME: "99"})], *objects)
    made.observe_device_class("gpu", "")
    return made


def takes(count: int) -> dict[str, Any]:
    return {"gpus": devices.claim_template(template(exactly(count)))}


def test_what_pods_take_follows_their_template_and_its_class():
    asked = a_gate(claiming())
    assert used(asked) == 0
    asked.observe_claim_templates(TEAM, takes(3))
    asked.observe_claim_templates(TEAM, takes(3))
    assert used(asked) == 6
    asked.observe_device_class("gpu", "example.com/gpu")
    asked.observe_device_class("gpu", "example.com/gpu")
    assert used(asked, NAME) == 6
    asked.observe_device_class("gpu", None)
    asked.observe_claim_templates(TEAM, takes(1))
    assert (used(asked), used(asked, NAME)) == (2, 0)
    asked.observe_claim_templates(TEAM, {})
    assert used(asked) == 0


def test_devices_of_a_class_that_was_not_seen_are_unknown():
    """The class may stand for an extended resource that a quota limits."""
    asked = Asker(gate([quota("acme", {NAME: "99"})], claiming()))
    asked.gate.observe_claim_templates(TEAM, takes(3))
    refused = asked(scale("train", 4))
    assert refused.reason == "unknown-footprint"
    assert refused.sentence.endswith('does not know what devices its pods take: ResourceClaimTemplate "gpus"')
    asked.gate.observe_device_class("gpu", "example.com/gpu")
    assert (asked(scale("train", 4)).reason, used(asked.gate, NAME)) == ("fits", 6)


def test_extended_resources_of_a_class_are_its_devices_where_no_claim_template_is():
    asked = a_gate(workload("train", 3, {"example.com/gpu": "2"}))
    asked.observe_device_class("gpu", "example.com/gpu")
    assert (used(asked), used(asked, NAME)) == (6, 6)


def test_a_state_brings_templates_and_classes_and_takes_them_away():
    asked = a_gate()
    state = replace(snapshot(claiming()), claim_templates={TEAM: takes(3)}, device_classes={"gpu": "example.com/gpu"})
    asked.load_state(state, 0.0)
    assert (used(asked), used(asked, NAME)) == (6, 6)
    asked.load_state(snapshot(claiming()), 0.0)
    assert (used(asked), used(asked, NAME)) == (0, 0)


def test_a_namespace_comes_to_allow_administrators_access():
    asked = a_gate(claiming())
    asked.observe_claim_templates(TEAM, {"gpus": devices.claim_template(template(exactly(1, adminAccess=True)))})
    assert used(asked) == 2
    asked.observe_namespace(TEAM, {"workspace": "acme", "resource.kubernetes.io/admin-access": "true"})
    assert used(asked) == 0
    asked.observe_namespace(TEAM, {"workspace": "acme"})
    assert used(asked) == 2


# Claims that are there.


def pods(name: str, owner: OwnerRef | None = None) -> tuple[WorkloadRef, Any]:

    spec = claiming()["spec"]["template"]["spec"]
    ref = WorkloadRef("", "pods", TEAM, name)
    return ref, Observed(1, pod_template(spec), "app=train", uid=f"uid-{name}", resource_version="1", owner=owner)


def of_pod(pod: str, count: int, name: str = "gpus") -> tuple[WorkloadRef, Any]:

    annotations = {devices.POD_CLAIM: name} if name else {}
    made = devices.claim(claim(exactly(count), annotations=annotations))
    owner = OwnerRef("", "Pod", pod, f"uid-{pod}") if pod else None
    ref = WorkloadRef("resource.k8s.io", "resourceclaims", TEAM, f"{pod}-{name}-x{count}")
    return ref, Observed(1, made, owner=owner, resource_version="1")


def shared(count: int, owner: str = "") -> tuple[WorkloadRef, Observed]:
    """A claim as it is watched."""
    metadata: dict[str, Any] = {"name": "all", "namespace": TEAM, "labels": {"tier": "gold"}, "uid": "c"}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
        ]
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    return object_readers.device_claim(head | claim(exactly(count), **metadata))


def test_a_claim_that_workloads_share_counts_once_in_each_quota_of_theirs():
    acme = {"workspace": "acme"}
    tiers = [
        quota(one, {GPU: "9"}, parent="acme", namespaces=acme, workloads={"tier": one}) for one in ("gold", "silver")
    ]
    asked = gate([quota("acme", {GPU: "9"}), *tiers], claiming("a", resourceClaimName="all"))
    asked.observe(*shared(2))
    assert {row.quota: row.used // ONE for row in asked.usage()} == {"acme": 2, "gold": 2, "silver": 2}
    asked.observe(*shared(2, owner="p"))
    assert {row.quota: row.used // ONE for row in asked.usage()} == {"acme": 2, "gold": 2, "silver": 0}
    assert asked.ledger.drift() == {}


CREW = OwnerRef("apps", "DaemonSet", "crew", "u")


@pytest.mark.parametrize("owner", [None, CREW], ids=["bare", "in-a-group"])
@pytest.mark.parametrize("claim_first", [True, False])
def test_a_claim_of_a_pod_counts_with_it_whichever_is_seen_first(owner, claim_first):
    asked = a_gate()
    asked.observe_claim_templates(TEAM, takes(2))
    both = [of_pod("p", 2), pods("p", owner)]
    for ref, observed in both if claim_first else both[::-1]:
        asked.observe(ref, observed)
    assert used(asked) == 2
    asked.observe(both[1][0], None)
    assert used(asked) == 2, "the claim is there until it goes"
    asked.observe(*both[1])
    asked.observe(both[0][0], None)
    assert used(asked) == 2, "the pod gets another"
    asked.observe(both[1][0], None)
    assert used(asked) == 0


def test_a_claim_of_a_template_that_was_made_anew_counts_the_larger():
    asked = a_gate()
    asked.observe_claim_templates(TEAM, takes(1))
    asked.observe(*pods("p", CREW))
    asked.observe(*of_pod("p", 3))
    assert used(asked) == 3
    asked.observe_claim_templates(TEAM, takes(5))
    assert used(asked) == 5


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_claims_of_one_name_a_pod_has_the_larger_whichever_is_seen_first(order: tuple[int, int]):
    """One may be of the pod before it, and of another size."""
    asked = a_gate()
    asked.observe_claim_templates(TEAM, takes(4))
    asked.observe(*pods("p"))
    claims = [of_pod("p", 1), of_pod("p", 4)]
    for at in order:
        asked.observe(*claims[at])
    assert used(asked) == 5


def test_a_claim_of_a_pod_that_has_gone_counts_whatever_becomes_of_the_next_one_of_its_name():
    asked = Asker(a_gate())
    asked.gate.observe_claim_templates(TEAM, takes(8))
    asked.gate.observe(*pods("p"))
    asked.gate.observe(*of_pod("p", 8))
    asked.gate.observe(pods("p")[0], None)
    spec = claiming()["spec"]["template"]["spec"]
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": TEAM, "uid": "u2"}, "spec": spec}
    review = admission(made, resource={"group": "", "version": "v1", "resource": "pods"})
    assert asked.gate.decide(read(json.dumps(review).encode()).question.reading, "d1", 0.0).pending_write
    asked.gate.observe(*replaced_claim(of_pod("p", 8)))
    assert used(asked.gate) == 8, "its status has changed"
    asked.gate.tick(200.0)
    asked.gate.ledger.pending.read(pods("p")[0], 201.0)
    assert used(asked.gate) == 8, "another webhook has refused the pod"


def replaced_claim(one: tuple[WorkloadRef, Any]) -> tuple[WorkloadRef, Any]:
    return one[0], replace(one[1], resource_version="2")


def rolling(replicas: int, *counts: int) -> Any:
    """A Deployment whose rollouts may add a pod for a while, its ReplicaSet, and a pod for each claim of so many."""
    own = claiming(replicas=replicas)
    own["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    made = claiming("train-1", replicas) | {"kind": "ReplicaSet"}
    made["metadata"] |= {"labels": {"app": "train"}, "ownerReferences": owned_by("train")}
    made["spec"]["selector"] = own["spec"]["selector"]
    asked = a_gate(own, made)
    asked.observe_claim_templates(TEAM, takes(2))
    for number, count in enumerate(counts):
        asked.observe(*pods(f"p{number}", OwnerRef("apps", "ReplicaSet", "train-1", "uid-train-1")))
        asked.observe(*of_pod(f"p{number}", count))
    return asked


@pytest.mark.parametrize(
    ("replicas", "counts", "devices"),
    [
        pytest.param(1, (3,), 3, id="of-the-only-pod"),
        pytest.param(2, (3, 2), 5, id="of-one"),
        pytest.param(3, (4, 1, 7), 13, id="of-two, and a smaller one"),
        pytest.param(1, (2, 2), 2, id="a-pod-of-a-rollout-is-free"),
        pytest.param(1, (5, 2), 5, id="a-pod-of-a-rollout-is-free, and one has more"),
    ],
)
def test_what_pods_of_a_deployment_have_beyond_their_template_is_no_surge(replicas, counts, devices):
    """A simulated world has found this: up to maxSurge times the template it was free."""
    assert used(rolling(replicas, *counts)) == devices


def test_claims_that_only_say_that_they_are_a_pods_are_not_free():
    asked = a_gate()
    asked.observe_claim_templates(TEAM, takes(2))
    asked.observe(*pods("p", CREW))
    for count in (2, 1, 4):
        asked.observe(*of_pod("p", count))
    assert used(asked) == 7, "of three claims one is its own"
    asked.observe(*of_pod("p", 6, "other"))
    assert used(asked) == 13


def test_two_claims_of_a_pod_and_one_that_is_handed_to_another_pod():
    asked = a_gate()
    asked.observe_claim_templates(TEAM, takes(2))
    asked.observe(*pods("p", CREW))
    asked.observe(*pods("q", CREW))
    ref, observed = of_pod("p", 2)
    asked.observe(ref, observed)
    asked.observe(*of_pod("p", 1))
    asked.observe(ref, replace(observed, owner=OwnerRef("", "Pod", "q", "uid-q"), resource_version="2"))
    assert used(asked) == 4
    asked.observe(ref, replace(observed, owner=None, resource_version="3"))
    assert used(asked) == 6, "it is nobody's"


def test_a_claim_that_workloads_share_counts_once_whoever_names_it():
    asked = a_gate(claiming("one", resourceClaimName="shared"), claiming("two", resourceClaimName="shared"))
    assert used(asked) == 0
    asked.observe(*of_pod("", 4, "shared"))
    assert used(asked) == 4


def test_the_claim_that_the_scheduler_makes_for_an_extended_resource_is_the_pods():

    asked = a_gate()
    asked.observe_device_class("gpu", "example.com/gpu")
    spec = pod({"example.com/gpu": "2"})["spec"]
    ref = WorkloadRef("", "pods", TEAM, "p")
    asked.observe(ref, Observed(1, pod_template(spec), uid="uid-p", resource_version="1"))
    asked.observe(*of_pod("p", 2, ""))
    assert (used(asked), used(asked, NAME)) == (2, 2)


def test_a_claim_that_cannot_be_read_is_nobodys():

    asked = a_gate()
    ref, observed = of_pod("p", 2)
    asked.observe(ref, Observed(1, None, owner=observed.owner, resource_version="1"))
    asked.observe(*pods("p"))
    assert used(asked) == 0


def test_what_is_kept_of_a_pod_is_its_claims_by_name():
    obj = claiming("one", resourceClaimName="shared")
    assert prune(obj["spec"])["template"]["spec"]["resourceClaims"] == [{"name": "gpus", "resourceClaimName": "shared"}]
