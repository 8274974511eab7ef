"""What once went over a quota, by what real controllers make of it: the gate stands before them as a webhook.

Each has a limit below what they make, where the write is refused, and one at it, where they make so much and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.api import RefusedError
from tests.controlplane.plane import running_plane
from tests.controlplane.workspace import Workspace, workload
from tests.e2e.webhooked import WebhookWorld
from tests.waiting import eventually

Tree = Any

pytestmark = [pytest.mark.controlplane, pytest.mark.envoy]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookWorld]:
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        WebhookWorld(plane, tmp_path_factory.mktemp("world")) as running,
    ):
        assert running.manager.running
        yield running


@pytest.fixture
def under(workspace: Callable[..., Workspace]) -> Callable[[str, str], Workspace]:
    """Makes a workspace with one limit, once the gate goes by it."""

    def make(key: str, limit: str) -> Workspace:
        acme = workspace({key: limit})
        eventually(lambda: acme.hard(key) > 0)
        return acme

    return make


def job(parallelism: int, completions: int, **spec: Any) -> Tree:
    template = workload("train", 1, {"cpu": "1"})["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": parallelism, "completions": completions, "template": template} | spec
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


def exist(acme: Workspace, kind: str) -> set[str]:
    return {one["metadata"]["name"] for one in acme.api.list(kind, acme.namespace)}


def finish(acme: Workspace, *indexes: int) -> None:
    """Running pods of the Job end well: all, or those of these indexes."""
    for one in acme.api.list("Pod", acme.namespace):
        index = one["metadata"].get("labels", {}).get("batch.kubernetes.io/job-completion-index", "-1")
        if one["status"].get("phase") == "Running" and (not indexes or int(index) in indexes):
            path = f"/api/v1/namespaces/{acme.namespace}/pods/{one['metadata']['name']}/status"
            acme.api.call("PATCH", path, {"status": {"phase": "Succeeded"}}, "application/merge-patch+json")


def test_a_stateful_set_whose_ordinals_move_has_both_ranges_for_a_while(under):
    acme = under("pods", "6")
    acme.create(workload("db", 4, {"cpu": "1m"}, "StatefulSet"))
    acme.await_ready("db", 4, "StatefulSet")
    move = {"spec": {"ordinals": {"start": 4}}}
    with pytest.raises(RefusedError, match="exceeded workspace quota"):
        acme.api.patch("StatefulSet", "db", acme.namespace, move)
    acme.set_hard({"pods": "8"})
    eventually(lambda: acme.hard("pods") == 8)
    acme.api.patch("StatefulSet", "db", acme.namespace, move)
    seen: set[str] = set()
    most = 0

    def has_moved() -> bool:
        nonlocal most
        there = exist(acme, "Pod")
        seen.update(there)
        most = max(most, len(there))
        return there == {f"db-{number}" for number in range(4, 8)}

    eventually(has_moved, lambda: sorted(seen))
    assert 6 < most <= 8, "the limit of six would have been passed"


def test_a_paused_deployment_without_pods_takes_up_the_dear_replica_set_that_it_has(under):
    """Its template became cheaper while it was paused, so that it has no ReplicaSet of its own."""
    acme = under("requests.cpu", "8")
    acme.create(workload("web", 0, {"cpu": "4"}))
    eventually(lambda: exist(acme, "ReplicaSet"))
    cheaper = workload("web", 0, {"cpu": "1"})["spec"]["template"]
    acme.api.patch("Deployment", "web", acme.namespace, {"spec": {"paused": True, "template": cheaper}})
    with pytest.raises(RefusedError, match="largest allowed replicas: 2"):
        acme.api.patch("Deployment", "web", acme.namespace, {"spec": {"replicas": 8}}, sub="scale")
    acme.api.patch("Deployment", "web", acme.namespace, {"spec": {"replicas": 2}}, sub="scale")
    eventually(lambda: acme.charged() == 8 and len(exist(acme, "Pod")) == 2, lambda: (acme.used(), acme.charged()))
    asked = [one["spec"]["containers"][0]["resources"]["requests"] for one in acme.api.list("Pod", acme.namespace)]
    assert asked == [{"cpu": "4"}] * 2


def test_claims_of_a_job_s_ephemeral_volumes_stay_as_long_as_its_finished_pods(under):
    """Two pods at a time, five in all: each leaves its claim of 5Gi."""
    made = job(2, 5)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    made["spec"] |= {"backoffLimit": 0}
    made["spec"]["template"]["spec"]["volumes"] = [volume]
    acme = under("requests.storage", "15Gi")
    with pytest.raises(RefusedError, match="exceeded workspace quota"):
        acme.create(made)
    acme.set_hard({"requests.storage": "25Gi"})
    eventually(lambda: acme.hard("requests.storage") == 25 * 2**30)
    acme.create(made)

    def is_done() -> bool:
        finish(acme)
        return bool(acme.api.get("Job", "train", acme.namespace).get("status", {}).get("succeeded") == 5)

    eventually(is_done, lambda: acme.api.get("Job", "train", acme.namespace))
    assert len(exist(acme, "PersistentVolumeClaim")) == 5
    eventually(lambda: acme.used("requests.storage") == 25 * 2**30)


def test_an_elastic_job_that_shrinks_has_done_none_of_what_it_no_longer_asks_for(under):
    """Its last two indexes are done. It goes on with the first four, none of which is."""
    acme = under("requests.cpu", "6")
    acme.create(job(6, 6, completionMode="Indexed"))
    eventually(lambda: len(exist(acme, "Pod")) == 6)

    def status() -> Tree:
        return acme.api.get("Job", "train", acme.namespace).get("status", {})

    def patch(**spec: Any) -> None:
        acme.api.patch("Job", "train", acme.namespace, {"spec": spec})

    def are_done() -> bool:
        finish(acme, 4, 5)
        return status().get("completedIndexes") == "4,5"

    eventually(are_done, status)
    patch(suspend=True)
    eventually(lambda: not status().get("active"), status)
    acme.set_hard({"requests.cpu": "3"})
    eventually(lambda: (acme.hard(), acme.charged()) == (3, 0), lambda: (acme.hard(), acme.charged()))
    with pytest.raises(RefusedError, match="largest allowed parallelism: 3"):
        patch(suspend=False, parallelism=4, completions=4)
    acme.set_hard({"requests.cpu": "4"})
    eventually(lambda: acme.hard() == 4)
    patch(suspend=False, parallelism=4, completions=4)
    eventually(lambda: status().get("active") == 4, status)
    assert acme.charged() == 4
