"""Three gates that share a ledger are replaced one after the other, while clients go on writing through one Envoy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Endpoint, Profile, SidecarOptions
from tests.controlplane.api import Api, RefusedError
from tests.controlplane.load import side_by_side
from tests.controlplane.plane import Plane, running_plane
from tests.controlplane.sites import LEDGER, Sites
from tests.controlplane.workspace import workload
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

W_S = 15
NAMES = ("web", "api")
MOST = 5
BETWEEN = 20
"""Writes of all clients before, beside and after the end of each gate."""

QUOTA = {
    "apiVersion": "extauthz.dev/v1alpha1",
    "kind": "WorkspaceQuota",
    "metadata": {"name": "rolling"},
    "spec": {
        "namespaceSelector": {"matchLabels": {"workspace": "rolling"}},
        "hard": {"pods": str(MOST * len(NAMES))},
        "mode": "Enforce",
    },
}


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    folder = tmp_path / "plane"
    folder.mkdir()
    (tmp_path / "sites").mkdir()
    with running_plane(folder=folder) as plane, Sites(plane, tmp_path / "sites", 3, W_S) as sites:
        plane.api.create(QUOTA)
        metadata = {"name": "rolling", "labels": {"workspace": "rolling"}}
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for name in NAMES:
            tree = workload(name, 0, {"cpu": "1m"})
            tree["metadata"]["namespace"] = "rolling"
            plane.api.create(tree)
        eventually(lambda: plane.api.list(LEDGER))
        sites.await_no_hold()
        yield sites


def options(plane: Plane, folder: Path) -> SidecarOptions:
    """One Envoy that knows all three."""
    gates = [Endpoint("", 0, str(folder / f"site-{number}" / "gate.sock")) for number in range(3)]
    return plane.sidecar(gates[0], failover_gates=tuple(gates[1:]), profile=Profile.SCALE)


class Scaling:
    """A client for each Deployment, up and down without a pause."""

    def __init__(self, sites: Sites, envoy: Envoy) -> None:
        self.written = dict.fromkeys(NAMES, 0)
        self.count = 0
        self.failed: list[RefusedError] = []
        self._sites, self._url = sites, f"https://127.0.0.1:{envoy.port}"
        self._stop = threading.Event()

    def scale(self, name: str) -> None:
        client = Api(self._url, self._sites.plane.tls, self._sites.token)
        while not self._stop.is_set():
            wanted = (self.written[name] + 2) % (MOST + 1)
            try:
                client.patch("Deployment", name, "rolling", {"spec": {"replicas": wanted}}, sub="scale")
            except RefusedError as error:
                self.failed.append(error)
            self.written[name] = wanted
            self.count += 1
        client.close()

    def go_on(self) -> None:
        enough = self.count + BETWEEN
        eventually(lambda: self.count > enough)

    def running(self) -> AbstractContextManager[None]:
        return side_by_side([partial(self.scale, name) for name in NAMES], self._stop)


def test_no_write_fails_while_every_gate_is_replaced_and_each_is_decided(sites: Sites, tmp_path: Path):
    with Envoy(options(sites.plane, sites.folder), tmp_path / "envoy") as envoy:
        scaling = Scaling(sites, envoy)
        with scaling.running():
            for site in sites:
                scaling.go_on()
                assert site.gate.terminate() == 0
                scaling.go_on()
                site.gate.start()
                # A rollout waits until the new one is ready.
                eventually(lambda: envoy.stat("cluster.extauthz.membership_healthy") == 3)
            scaling.go_on()
        assert scaling.failed == []
        lines = eventually(lambda: envoy.access_lines() if len(envoy.access_lines()) == scaling.count else [])
    by = {line["decision_id"] for line in lines}
    assert len(by) == scaling.count, "each by a decision of its own"

    def not_logged() -> set[str]:
        return by - {line["id"] for site in sites for line in site.gate.events("decision")}

    eventually(lambda: not not_logged(), not_logged)
    assert_all_gates_count(sites, scaling.written)


def assert_all_gates_count(sites: Sites, written: dict[str, int]) -> None:
    for name, replicas in written.items():
        assert sites.plane.api.get("Deployment", name, "rolling")["spec"]["replicas"] == replicas
    for site in sites:

        def counted(site=site) -> tuple[float, float]:
            rows = (f'extauthz_quota_{column}{{quota="rolling",resource="pods"}}' for column in ("used", "reserved"))
            used, reserved = (site.gate.metric(row) for row in rows)
            return used, reserved

        eventually(lambda counted=counted: counted() == (sum(written.values()), 0), counted)
