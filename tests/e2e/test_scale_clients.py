"""Who else scales: KEDA by the scale client, and an HPA on a custom resource that nobody but its owner knows."""

from __future__ import annotations

import pytest

from extauthz.tools.render.options import Profile
from tests.controlplane.api import RefusedError, path_of
from tests.controlplane.workspace import autoscaler, workload
from tests.e2e.gadgets import GADGETS, gadget, may_see
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")


def scale_as_keda(world, namespace: str, kind: str, name: str, replicas: int) -> None:
    """``k8s.io/client-go/scale``: reads the Scale and puts it back, in JSON and with no content-type."""
    client = world.client(Profile.AUTOSCALER)
    path = path_of(kind, namespace, name, "scale")
    try:
        scale = client.call("GET", path)
        scale["spec"]["replicas"] = replicas
        client.call("PUT", path, scale, content_type="")
    finally:
        client.close()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_keda_wakes_a_workload_only_where_there_is_room_and_always_puts_it_to_sleep(world, workspace, kind):
    assert world.manager.running
    acme = workspace({"requests.cpu": "2"})
    acme.create(workload("busy", 2, {"cpu": "1"}))
    acme.create(workload("asleep", 0, {"cpu": "1"}, kind))
    acme.await_ready("busy", 2)
    eventually(lambda: acme.charged() == 2, acme.charged)
    with pytest.raises(RefusedError, match=f"exceeded workspace quota: {acme.name}") as refused:
        eventually(lambda: scale_as_keda(world, acme.namespace, kind, "asleep", 1))
    assert refused.value.code == 403
    assert acme.replicas("asleep", kind) == 0

    scale_as_keda(world, acme.namespace, "Deployment", "busy", 0)
    eventually(lambda: acme.charged() == 0, acme.charged)
    scale_as_keda(world, acme.namespace, kind, "asleep", 1)
    acme.await_ready("asleep", 1, kind)
    eventually(lambda: acme.charged() == 1, acme.charged)


@pytest.fixture(scope="module")
def gadgets(world):
    """A kind with a scale subresource whose replica count and template stand where its author put them."""
    world.api.create(GADGETS)
    world.api.create(may_see(GADGETS))
    eventually(lambda: world.api.serves("Gadget.e2e.extauthz.dev/v1"))


@pytest.mark.usefixtures("gadgets")
def test_an_hpa_on_a_custom_resource_stops_at_the_edge_and_goes_on_when_the_quota_is_raised(world, workspace):
    assert world.manager.running
    acme = workspace({"requests.cpu": "2"})
    acme.create(gadget("web", 2))
    eventually(lambda: acme.charged() == 2, acme.charged)
    acme.create(autoscaler("web", "Gadget", api_version="e2e.extauthz.dev/v1", least=3))

    eventually(lambda: f"exceeded workspace quota: {acme.name}" in acme.able().get("message", ""), acme.able)
    acme.set_hard({"requests.cpu": "3"})
    web = path_of("Gadget.e2e.extauthz.dev/v1", acme.namespace, "web")
    eventually(lambda: acme.api.call("GET", web)["spec"]["size"] == 3, acme.able)
    eventually(lambda: acme.charged() == 3, acme.charged)
