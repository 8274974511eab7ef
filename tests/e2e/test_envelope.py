"""What a workload can come to run is what it costs: old templates that the real controllers still make pods from."""

from __future__ import annotations

import re

import pytest

from extauthz.tools.render.options import Profile
from tests.controlplane.api import RefusedError
from tests.controlplane.workspace import IMAGE, workload
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

BROKEN = "registry.test/app:broken"
DEAR, CHEAP = {"cpu": "2"}, {"cpu": "1"}


@pytest.fixture
def acme(world, workspace):
    assert world.manager.running
    return workspace({"requests.cpu": "7"})


def template(requests: dict[str, str], image: str = IMAGE) -> dict:
    """A merge patch of the only container."""
    containers = [{"name": "main", "image": image, "resources": {"requests": requests}}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def scale(acme, kind: str, name: str, replicas: int) -> None:
    """As an autoscaler does it, through Envoy."""
    client = acme.world.client(Profile.SCALE)
    try:
        client.patch(kind, name, acme.namespace, {"spec": {"replicas": replicas}}, sub="scale")
    finally:
        client.close()


def requested(acme) -> int:
    """What all pods of the workspace request, in CPUs."""
    pods = acme.api.list("Pod", acme.namespace)
    return sum(int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for each in pods)


def await_used(acme, cpus: int) -> None:
    eventually(lambda: acme.charged() == cpus, acme.charged)


def refuses_the_fourth_until_there_is_room(acme, kind: str) -> None:
    """Three pods at 2 CPUs run; the template asks for 1, but a fourth pod would come from the old one."""
    said = re.escape("requested: requests.cpu=2, used: requests.cpu=6, limited: requests.cpu=7")
    with pytest.raises(RefusedError, match=said):
        scale(acme, kind, "web", 4)
    acme.set_hard({"requests.cpu": "8"})
    eventually(lambda: acme.world.gate.metric(hard_of(acme)) == 8)
    scale(acme, kind, "web", 4)
    acme.await_ready("web", 4, kind)
    assert requested(acme) == 8, "the controller did not use the old template; then this test tests nothing"
    await_used(acme, 8)


def hard_of(acme) -> str:
    return f'extauthz_quota_hard{{quota="{acme.name}",resource="requests.cpu"}}'


def test_a_paused_deployment_grows_by_its_old_template_and_pays_for_that(acme):
    acme.create(workload("web", 3, DEAR))
    acme.await_ready("web", 3)
    acme.api.patch("Deployment", "web", acme.namespace, {"spec": {"paused": True}})
    acme.api.patch("Deployment", "web", acme.namespace, template(CHEAP))
    await_used(acme, 6)
    refuses_the_fourth_until_there_is_room(acme, "Deployment")


def test_a_partitioned_stateful_set_grows_by_its_old_revision_and_pays_for_that(acme):
    acme.create(workload("web", 3, DEAR, "StatefulSet"))
    acme.await_ready("web", 3, "StatefulSet")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 10}}
    change = template(CHEAP)
    change["spec"]["updateStrategy"] = strategy
    acme.api.patch("StatefulSet", "web", acme.namespace, change)

    def revisions() -> int:
        status = acme.api.get("StatefulSet", "web", acme.namespace)["status"]
        return len({status["currentRevision"], status["updateRevision"]})

    eventually(lambda: revisions() == 2)
    await_used(acme, 6)
    refuses_the_fourth_until_there_is_room(acme, "StatefulSet")


def test_a_rollout_that_is_stuck_between_two_templates_pays_for_the_dearer_one(acme, world):
    world.kubelet.broken_images.add(BROKEN)
    acme.create(workload("web", 3, DEAR))
    acme.await_ready("web", 3)
    acme.api.patch("Deployment", "web", acme.namespace, template(CHEAP, BROKEN))
    eventually(lambda: len(acme.api.list("ReplicaSet", acme.namespace)) == 2)
    await_used(acme, 6)
    with pytest.raises(RefusedError, match=f"exceeded workspace quota: {acme.name}"):
        scale(acme, "Deployment", "web", 4)

    acme.api.patch("Deployment", "web", acme.namespace, template(CHEAP))
    eventually(lambda: requested(acme) == 3, lambda: requested(acme))
    await_used(acme, 3)
    scale(acme, "Deployment", "web", 7)
    acme.await_ready("web", 7)
