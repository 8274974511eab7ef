"""The doctor's topology rows beside the hints of the real EndpointSlice controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extauthz.tools.doctor import topology
from tests.controlplane.manager import ControllerManager
from tests.controlplane.plane import Plane, running_plane
from tests.e2e.doctoring import examined
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

Tree = Any
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{}"
SAME_ZONE = {"spec": {"trafficDistribution": "PreferSameZone"}}


class Gates:
    """Nodes, Services and ready pods, which the controller makes slices of."""

    def __init__(self, plane: Plane) -> None:
        self.plane, self.api = plane, plane.api
        self._pods = 0

    def node(self, name: str, zone: str, cpu: str) -> None:
        labels = {topology.ZONE: zone} if zone else {}
        tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        self.api.create(tree)
        ready = {"type": "Ready", "status": "True", "reason": "Stood", "message": "in"}
        self._say(
            f"/api/v1/nodes/{name}", {"conditions": [ready], "allocatable": {"cpu": cpu}, "capacity": {"cpu": cpu}}
        )

    def service(self, name: str, how: Tree, nodes: list[str]) -> None:
        """With a ready pod on each of these nodes, which may repeat."""
        spec = {"selector": {"app": name}, "ports": [{"name": "grpc", "port": 9191}], **how.get("spec", {})}
        metadata = {"name": name, "namespace": "default", **how.get("metadata", {})}
        self.api.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
        for node in nodes:
            self._pod(name, node)

    def _pod(self, app: str, node: str) -> None:
        self._pods += 1
        metadata = {"name": f"{app}-{self._pods}", "namespace": "default", "labels": {"app": app}}
        spec = {"nodeName": node, "containers": [{"name": "gate", "image": "registry.test/gate:1"}]}
        self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        address = f"10.1.{self._pods // 250}.{self._pods % 250 + 1}"
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
        self._say(f"/api/v1/namespaces/default/pods/{metadata['name']}", status)

    def _say(self, path: str, status: Tree) -> None:
        self.api.call("PATCH", f"{path}/status", {"status": status}, "application/merge-patch+json")

    def rows(self, name: str, gates: int) -> dict[str, topology.Row]:
        """What the doctor says, once the slices have so many ready gates."""

        def slices() -> Tree:
            found = self.api.call("GET", SLICES.format(name))["items"]
            return found if len(topology.endpoints(found)) == gates else None

        found = eventually(slices)
        nodes = self.api.call("GET", "/api/v1/nodes")["items"]
        return {row.name: row for row in topology.rows(self.api.get("Service", name, "default"), found, nodes, None)}

    def forget(self) -> None:
        """All nodes, Services and pods."""
        for one in self.api.list("Service", "default"):
            if one["metadata"]["name"] != "kubernetes":
                self.api.delete("Service", one["metadata"]["name"], "default")
        self.api.call("DELETE", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0")
        self.api.call("DELETE", "/api/v1/nodes")


@pytest.fixture(scope="module")
def all_gates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gates]:
    folder = tmp_path_factory.mktemp("hints")
    with (
        running_plane(folder=folder) as plane,
        ControllerManager(plane, plane.url, folder, ["--controllers=endpointslice-controller"]),
    ):
        yield Gates(plane)


@pytest.fixture
def gates(all_gates: Gates) -> Iterator[Gates]:
    yield all_gates
    all_gates.forget()


def test_with_same_zone_each_gate_is_for_its_zone_and_a_zone_without_one_is_caught(
    gates: Gates, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    for zone in "abc":
        gates.node(zone, zone, "4")
    gates.service("gates", SAME_ZONE, ["a", "b", "b"])
    rows = gates.rows("gates", 3)
    assert rows["topology: every endpoint has a hint"].verdict == "ok"
    assert (rows["topology: own zone has a hint"].verdict, "zone c" in rows["topology: own zone has a hint"].found) == (
        "fail",
        True,
    )
    flags = {"kubeconfig": gates.plane.kubeconfig, "service": "default/gates"}
    for zone, verdict in (("a", "ok"), ("b", "ok"), ("c", "fail")):
        _, told = examined(capsys, {**flags, "zone": zone})
        assert told["topology: own zone has a hint"]["verdict"] == verdict
        assert told["topology: every endpoint has a hint"]["verdict"] == "ok"
