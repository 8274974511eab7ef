"""A Pod that is resized in place counts as ResourceQuota counts it: by what it asks for, was given and runs with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extauthz.core import footprint, resources
from extauthz.core.decision.gate import Gate
from extauthz.core.errors import ObjectError
from extauthz.core.model import Template, Verdict
from extauthz.core.objects.workloads import observe, pod_template
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster import object_readers
from extauthz.testing import Asker, Snapshot, owned_by, quota, scale, workload

RECORDED = Path(__file__).parents[1] / "data" / "resized.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_text().splitlines()]
CPU = 10**9


def cost(template: Template) -> dict[str, int]:
    return footprint.per_pod(json.loads(template.text))


def container(cpu: str, name: str = "c") -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}}


def held(cpu: str, given: str | None = None, name: str = "c") -> dict[str, Any]:
    """What a container's status says that it runs with, and was given."""
    status = container(cpu, name)
    return status | ({"allocatedResources": {"cpu": given}} if given is not None else {})


GENERATION = 7
"""Of all specs here."""


def of_now(status: dict[str, Any]) -> dict[str, Any]:
    """Its conditions are of what the pod asks for now."""
    return status | {"conditions": [one | {"observedGeneration": GENERATION} for one in status.get("conditions", ())]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_pod_costs_what_resource_quota_charges_for_it(case):
    charged = {resources.canonical(key): nanos for key, nanos in case["costs"].items()}
    assert cost(pod_template(case["pod"]["spec"], of_now(case["pod"]["status"]), GENERATION)) == charged


def test_the_recording_has_pods_that_ask_for_less_and_for_more_than_they_hold():
    by_spec = [cost(pod_template(case["pod"]["spec"])).get("requests.cpu", 0) for case in CASES]
    charged = [case["costs"].get("requests.cpu", 0) for case in CASES]
    assert sum(charge > asked for charge, asked in zip(charged, by_spec, strict=True)) > 25
    assert sum(charge < asked for charge, asked in zip(charged, by_spec, strict=True)) > 5


# Of the whole pod: the scheduler counts it (``InPlacePodLevelResourcesVerticalScaling``), ResourceQuota not yet.

INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


@pytest.mark.parametrize(
    ("status", "cpu", "limit"),
    [
        pytest.param({}, 2, 3, id="none"),
        pytest.param({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "5"}}, 5, 3, id="given"),
        pytest.param({"resources": {"requests": {"cpu": "6"}, "limits": {"cpu": "7"}}}, 6, 7, id="runs-with"),
        pytest.param({"allocatedResources": {"cpu": "5"}}, 2, 3, id="given-alone"),
        pytest.param({"resources": {"requests": {"cpu": "1"}}} | INFEASIBLE, 1, 0, id="infeasible"),
    ],
)
def test_of_pod_level_resources_the_largest_counts(status, cpu, limit):
    asked = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
    charged = cost(pod_template({"containers": [container("1")], "resources": asked}, of_now(status), GENERATION))
    assert (charged["requests.cpu"], charged["limits.cpu"]) == (cpu * CPU, limit * CPU)


@pytest.mark.parametrize(("told", "generation"), [(6, 7), (None, 7), (None, None), (7, None), (8, 7)])
def test_what_the_node_said_of_an_earlier_resize_is_not_said_of_this_one(told: int | None, generation: int | None):
    """Kubelets before Kubernetes 1.34 do not tell of which."""
    (condition,) = INFEASIBLE["conditions"]
    status = {"containerStatuses": [held("1")], "conditions": [condition | {"observedGeneration": told}]}
    assert cost(pod_template({"containers": [container("3")]}, status, generation))["requests.cpu"] == 3 * CPU


def test_what_is_not_asked_for_at_pod_level_is_not_counted_there():
    status = {"resources": {"requests": {"memory": "9", "cpu": "1"}, "limits": {"cpu": "9"}}}
    charged = cost(pod_template({"containers": [], "resources": {"requests": {"cpu": "2"}}}, status))
    assert charged == {"requests.cpu": 2 * CPU, "pods": CPU, "count/pods": CPU}
    assert "requests.memory" not in cost(pod_template({"containers": []}, status))


# What the gate keeps.


@pytest.mark.parametrize(
    "status", [held("1000m", "1"), held("0.5", "1e-1"), {"name": "c"}, {"name": "c", "resources": {}}]
)
def test_pods_that_hold_no_more_than_they_ask_for_have_one_template(status):
    """Pods of one controller are kept as one workload, however many they are."""
    assert pod_template({"containers": [container("1")]}, {"containerStatuses": [status]}) is pod_template(
        {"containers": [container("1")]}
    )


def test_a_container_without_resources_stays_without():
    naked = {"containers": [{"name": "c"}]}
    assert pod_template(naked, {"containerStatuses": [{"name": "c", "resources": {}}]}) is pod_template(naked)


@pytest.mark.parametrize("status", [held("nonsense"), held("1", "nonsense")])
def test_an_amount_in_the_status_that_cannot_be_read_hides_nothing(status):
    """No API server stores one. What is asked for counts."""
    assert (
        cost(pod_template({"containers": [container("3")]}, {"containerStatuses": [status]}))["requests.cpu"] == 3 * CPU
    )


@pytest.mark.parametrize(
    "status",
    [
        "Running",
        {"containerStatuses": "c"},
        {"containerStatuses": [{"name": "c", "resources": 1}]},
        {"containerStatuses": [{"name": 1, "resources": {}}]},
        {"containerStatuses": [held("1") | {"allocatedResources": {"cpu": []}}]},
        {"conditions": [{"type": "PodResizePending", "reason": 1}]},
    ],
)
def test_a_status_of_another_shape_is_unreadable(status):
    with pytest.raises(ObjectError):
        pod_template({"containers": [container("1")]}, status)


# In the ledger.


def crew(*pods: dict[str, Any], replicas: int = 2) -> Gate:
    """Under a limit of ten CPUs: a Deployment of pods of one CPU, its ReplicaSet, and pods as they are."""
    one = workload("web", replicas, {"cpu": "1"})
    its = workload("web-1", replicas, {"cpu": "1"}, kind="ReplicaSet", ownerReferences=owned_by("web"))
    its["spec"]["selector"]["matchLabels"] = its["metadata"]["labels"] = {"app": "web"}
    found = [object_readers.pod(item) for item in pods]
    made = Gate()
    made.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "10"})]), 0.0)
    state = Snapshot({"team-a": {"workspace": "acme"}}, [observe(one), observe(its), *(pod for pod in found if pod)])
    made.load_state(state, 0.0)
    return made


def its_pod(name: str, cpu: str, *status: dict[str, Any], owner: str = "web-1") -> dict[str, Any]:
    owners = owned_by(owner, kind="ReplicaSet") if owner else []
    metadata = {"name": name, "namespace": "team-a", "labels": {"app": "web"}, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"containers": [container(cpu)]}, "status": {"containerStatuses": [*status]}}


def used(made: Gate) -> float:
    (row,) = made.usage()
    return row.used / CPU


@pytest.mark.parametrize(
    ("pods", "cpus"),
    [
        pytest.param([its_pod("a", "1"), its_pod("b", "1")], 2, id="as-the-template"),
        pytest.param([its_pod("a", "4", held("1", "1")), its_pod("b", "1")], 5, id="asks-for-more"),
        pytest.param([its_pod("a", "1", held("4", "4")), its_pod("b", "1")], 5, id="still-holds-more"),
        pytest.param([its_pod("a", "500m", held("1", "1")), its_pod("b", "1")], 2, id="gives-back"),
        pytest.param([its_pod("a", "500m"), its_pod("b", "500m")], 2, id="below-the-template"),
        pytest.param(
            [its_pod("a", "1"), its_pod("b", "1"), its_pod("bare", "1m", held("1m", "3"), owner="")], 5, id="bare"
        ),
    ],
)
def test_pods_of_a_workload_that_are_resized_above_its_template_count_as_they_are(pods, cpus):
    assert used(crew(*pods)) == cpus


def test_growth_waits_for_what_a_resized_pod_still_holds():
    """Down from 20 to 1m at once would be room for twenty more: but the node has not given it back."""
    pods = [its_pod("a", "1m", held("7", "7")), its_pod("b", "1")]
    assert Asker(crew(*pods))(scale("web", 5)).verdict is Verdict.DENY
    assert Asker(crew(*pods))(scale("web", 4)).verdict is Verdict.ALLOW
