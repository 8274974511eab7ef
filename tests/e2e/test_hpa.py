"""A real HPA in a real kube-controller-manager stops at the quota's edge, says why, and goes on by itself."""

from __future__ import annotations

import pytest

from tests.controlplane.workspace import autoscaler, workload
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_an_hpa_stops_at_the_edge_says_why_and_goes_on_when_the_quota_is_raised(world, workspace, kind):
    assert world.manager.running
    acme = workspace({"requests.cpu": "4"})
    acme.create(workload("web", 1, {"cpu": "1"}, kind))
    acme.await_ready("web", 1, kind)
    acme.busy("900m")
    acme.create(autoscaler("web", kind, most=8))

    message = acme.await_refused()
    assert acme.replicas("web", kind) == 4
    said = world.kubectl("describe", "hpa", "web", f"--namespace={acme.namespace}")
    sentence = f"exceeded workspace quota: {acme.name}"
    assert "AbleToScale     False   FailedUpdateScale" in said
    assert sentence in message
    assert any(sentence in event["message"] for event in acme.events("FailedRescale", "web"))

    acme.set_hard({"requests.cpu": "8"})
    acme.await_ready("web", 8, kind)
    eventually(lambda: acme.able().get("status") == "True", acme.able)
