"""A real HPA and a real Knative autoscaler at two gates take turns under one full root; first come, one starves."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.controlplane import knative
from tests.controlplane.activator import Activator
from tests.controlplane.manager import ControllerManager
from tests.controlplane.plane import running_plane
from tests.controlplane.sites import LEDGER, Sites
from tests.controlplane.workspace import autoscaler, condition
from tests.support import objects
from tests.support.kubelet import Kubelet
from tests.support.metricsapi import MetricsApi, route
from tests.waiting import eventually

pytestmark = [pytest.mark.controlplane("kube-controller-manager", "autoscaler-v0.50.0"), pytest.mark.envoy]

GPU = "requests.nvidia.com/gpu"
SLOW, QUICK = "slow", "quick"
"""Namespaces, and what is in them: an HPA's, and Knative's."""
SYNC = "--horizontal-pod-autoscaler-sync-period=6s"
"""An HPA asks every 15 s unless its operator says otherwise, Knative every 2 s."""
FULL = 4
W_S = 10
NOT_YET = "2nd in line for workspace quota house"
BUSY, IDLE = {"cpu": "1500m", "memory": "1Mi"}, {"cpu": "1m", "memory": "1Mi"}
"""Of a container that requests one CPU: three times what its HPA aims at, and hardly anything."""


class House:
    """A root of four GPUs: an HPA asks the first gate, Knative's autoscaler the second."""

    def __init__(self, sites: Sites, metrics: MetricsApi, activator: Activator) -> None:
        self.sites, self.api = sites, sites.plane.api
        self._metrics, self._activator = metrics, activator

    def populate(self) -> None:
        hard = {GPU: str(FULL)}
        self.api.create(objects.quota("house", hard, {"none": "such"}, sharing={"turns": "FirstCome"}))
        for name in (SLOW, QUICK):
            self.api.create(objects.quota(name, hard, {"team": name}, parent="house"))
            self.api.create(objects.namespace(name, team=name))
        size = {"cpu": "1", "nvidia.com/gpu": "1"}
        slow, _ = knative.revision(SLOW, SLOW, size)
        quick, kpa = knative.revision(QUICK, QUICK, size)
        kpa["metadata"]["annotations"]["autoscaling.knative.dev/min-scale"] = "1"
        hpa = autoscaler(SLOW, most=3)
        hpa["metadata"]["namespace"] = SLOW
        for tree in (slow, hpa, quick, kpa):
            self.api.create(tree)
        knative.await_service(self.sites.plane.api, QUICK, QUICK)

    def slow(self, *, busy: bool = False, least: int = 1) -> None:
        """The load of the HPA's workload: it wants three replicas, or as few as it may have."""
        self._metrics.usage[SLOW] = BUSY if busy else IDLE
        self.api.patch("HorizontalPodAutoscaler", SLOW, SLOW, {"spec": {"minReplicas": least}})

    def quick(self, replicas: int) -> None:
        """The requests under way at Knative's: it wants a replica for each."""
        self._activator.concurrent[QUICK, QUICK] = replicas

    @property
    def replicas(self) -> tuple[int, int]:
        """Of both."""
        slow, quick = (self.api.get("Deployment", name, name)["spec"]["replicas"] for name in (SLOW, QUICK))
        assert slow + quick <= FULL
        return slow, quick

    def reaches(self, slow: int, quick: int) -> None:
        eventually(lambda: self.replicas == (slow, quick), self.seen)

    def refused_slow(self) -> str:
        """What the HPA says of its last write; empty if that was taken."""
        able = condition(self.api.get("HorizontalPodAutoscaler", SLOW, SLOW), "AbleToScale")
        return str(able["message"]) if able.get("reason") == "FailedUpdateScale" else ""

    def refused_quick(self) -> list[str]:
        """What the events of Knative's autoscaler say, each sentence once."""
        events = self.api.list("Event.v1", QUICK)
        return [event["message"] for event in events if event["reason"] == "InternalError"]

    def await_line(self, *names: str) -> None:
        """Until both gates have this line, the first one first."""
        eventually(lambda: self._lines() == [list(names)] * 2, self.seen)

    def _lines(self) -> list[list[str]]:
        pages = [json.loads(site.gate.page("/api/v1/quotas/house/line")) for site in self.sites]
        return [[one["name"] for one in page["items"]] for page in pages]

    def frees_one_and_takes_it(self) -> str:
        """What becomes of a replica that Knative's autoscaler gives back and wants again: the refusal, or "granted"."""
        self.quick(2)
        self.reaches(1, 2)
        before = len(self.refused_quick())
        self.quick(3)
        said = lambda: "granted" if self.replicas == (1, 3) else next(iter(self.refused_quick()[before:]), "")  # noqa: E731
        return eventually(said, self.seen)

    def seen(self) -> object:
        return self.replicas, self._lines(), self.refused_slow(), self.refused_quick()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder, of_plane = tmp_path_factory.mktemp("house"), tmp_path_factory.mktemp("plane")
    with (
        running_plane(folder=of_plane) as plane,
        Kubelet(plane.url, plane.tls),
        MetricsApi(plane.url, plane.tls) as metrics,
        Sites(plane, folder, 2, W_S, alter=lambda tree: route(metrics.port, tree)) as sites,
        ControllerManager(plane, sites[0].url, folder, [SYNC]) as manager,
        knative.running_autoscaler(plane, "v0.50.0", sites[1].url, folder) as child,
        Activator() as activator,
    ):
        eventually(lambda: plane.api.list(LEDGER))
        sites.await_no_hold()
        made = House(sites, metrics, activator)
        made.populate()
        yield made
        assert manager.running
        assert child.running, child.tail()


def test_first_come_the_quick_one_takes_what_the_slow_one_waits_for_and_with_turns_each_has_its_own(house: House):
    house.quick(3)
    house.reaches(1, 3)
    house.slow(busy=True)
    eventually(lambda: "exceeded workspace quota: house" in house.refused_slow(), house.seen)
    assert house.frees_one_and_takes_it() == "granted"
    house.api.patch("WorkspaceQuota", "house", None, {"spec": {"sharing": {"turns": "Share"}}})
    house.await_line(SLOW)  # by the ledger object: it asks the first gate alone
    assert NOT_YET in house.frees_one_and_takes_it()
    house.await_line(SLOW, QUICK)
    house.quick(1)
    house.reaches(3, 1)
    house.quick(3)
    house.await_line(QUICK)
    house.slow(least=2)
    house.reaches(2, 1)
    house.slow(busy=True)
    eventually(lambda: NOT_YET in house.refused_slow(), house.seen)
    house.await_line(QUICK, SLOW)
    house.slow()
    house.reaches(1, 3)
    house.await_line()
