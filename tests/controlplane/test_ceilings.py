"""A real API server and a gate as it ships: an HPA that may ask for more than can ever fit is told before it asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extauthz.demo.gate import Gate
from tests.controlplane.living import deployment, namespace
from tests.controlplane.plane import Plane
from tests.support import objects
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]
NAME = "ceiling"
HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": NAME},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 24,
    },
}
SHARE = "12 of the 24 replicas that it may ask for would fit"


@pytest.fixture
def gate(plane: Plane, tmp_path: Path) -> Iterator[Gate]:
    plane.kubectl("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crd.yaml'}")
    eventually(lambda: plane.api.serves("WorkspaceQuota"))
    namespace(plane, NAME)
    plane.api.create(deployment("web", 2, NAME))
    plane.api.create(HPA)
    plane.api.create(objects.quota(NAME, {"pods": "12"}))
    flags = [f"--kubeconfig={plane.kubeconfig}", "--ledger=memory", "--allow-unknown=unclean-start"]
    with Gate("kubernetes", "kubernetes", tmp_path / "gate.log", flags) as made:
        yield made
    plane.api.delete("WorkspaceQuota", NAME)
    plane.api.delete("Namespace", NAME)


def status(plane: Plane) -> Any:
    return plane.api.get("WorkspaceQuota", NAME).get("status", {})


def events(plane: Plane) -> list[Any]:
    found = plane.api.call("GET", f"/api/v1/namespaces/{NAME}/events")["items"]
    return [one for one in found if one["reason"] == "WorkspaceQuotaNeverFits"]


def test_an_hpa_whose_maximum_never_fits_is_told_in_the_status_an_event_the_log_and_headroom(plane, gate):
    eventually(lambda: status(plane).get("neverFits"), lambda: status(plane))
    assert status(plane)["neverFits"] == {f"HorizontalPodAutoscaler {NAME}/web": "12 of 24"}
    (found,) = [one for one in status(plane)["conditions"] if one["type"] == "HasHeadroom"]
    assert (found["status"], found["reason"]) == ("False", "NeverFits")
    assert SHARE in found["message"]
    eventually(lambda: len(events(plane)) == 1, lambda: events(plane))
    (event,) = events(plane)
    assert (event["involvedObject"]["kind"], event["type"]) == ("HorizontalPodAutoscaler", "Warning")
    assert event["message"].startswith(SHARE)
    (line,) = eventually(lambda: list(gate.events("never-fits")))
    assert SHARE in line["why"]
    room = json.loads(gate.page(f"/api/v1/namespaces/{NAME}/workloads/deployments.apps/web/headroom"))
    assert (room["replicas"], room["mayAskFor"]) == (12, 24)
    assert "clock" not in gate.page("/readyz"), "ours is the API server's"
