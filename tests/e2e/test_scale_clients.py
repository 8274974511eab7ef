"""Who else scales: an HPA on a custom resource that nobody but its owner knows."""

from __future__ import annotations

import pytest

from tests.controlplane.api import path_of
from tests.controlplane.workspace import autoscaler
from tests.e2e.gadgets import GADGETS, gadget, may_see
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")


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
