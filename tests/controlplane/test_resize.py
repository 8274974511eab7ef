"""Pods that are resized in place count as ResourceQuota counts them: both watch one real API server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from extauthz.core import quantities
from tests.controlplane.api import MERGE
from tests.controlplane.living import Live, agrees, living, namespace
from tests.controlplane.manager import ControllerManager
from tests.controlplane.plane import Plane
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

Tree = Any
POD = "/api/v1/namespaces/resized/pods/web"
QUOTA = "/api/v1/namespaces/resized/resourcequotas/compute"
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "no node has it"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "later"}


@pytest.fixture(scope="module")
def counting(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """ResourceQuota's own controller."""
    flags = ["--controllers=resourcequota-controller"]
    with ControllerManager(plane, plane.url, tmp_path_factory.mktemp("manager"), flags):
        yield


def wants(cpu: str) -> Tree:
    return {"requests": {"cpu": cpu}, "limits": {"cpu": "50"}}


def web() -> Tree:
    """A container of one CPU, and a sidecar of a tenth."""
    main = {"name": "main", "image": "x", "resources": wants("1")}
    sidecar = {"name": "proxy", "image": "x", "restartPolicy": "Always", "resources": wants("100m")}
    metadata = {"name": "web", "namespace": "resized"}
    spec = {"containers": [main], "initContainers": [sidecar]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def resize(plane: Plane, main: str, sidecar: str = "100m") -> None:
    """What ``kubectl patch --subresource resize`` sends."""
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": main}}}],
        "initContainers": [{"name": "proxy", "resources": {"requests": {"cpu": sidecar}}}],
    }
    plane.api.call("PATCH", f"{POD}/resize", {"spec": spec}, "application/strategic-merge-patch+json")


def holds(
    plane: Plane, given: str, runs_with: str, *conditions: Tree, sidecar: tuple[str, str] = ("100m", "100m")
) -> None:
    """What a kubelet writes."""

    def of(name: str, given: str, runs_with: str) -> Tree:
        started = {"name": name, "image": "x", "imageID": "", "ready": True, "restartCount": 0}
        return started | {"allocatedResources": {"cpu": given}, "resources": wants(runs_with)}

    generation = plane.api.call("GET", POD)["metadata"]["generation"]
    status = {
        "phase": "Running",
        "conditions": [one | {"observedGeneration": generation} for one in conditions],
        "containerStatuses": [of("main", given, runs_with)],
        "initContainerStatuses": [of("proxy", *sidecar)],
    }
    plane.api.call("PATCH", f"{POD}/status", {"status": status}, MERGE)


STEPS: list[tuple[str, Any, str]] = [
    ("runs", lambda plane: holds(plane, "1", "1"), "1100m"),
    ("up, asked", lambda plane: resize(plane, "4"), "4100m"),
    ("up, deferred", lambda plane: holds(plane, "1", "1", DEFERRED), "4100m"),
    ("up, infeasible", lambda plane: holds(plane, "1", "1", INFEASIBLE), "1100m"),
    ("up, less", lambda plane: (resize(plane, "2"), holds(plane, "2", "1")), "2100m"),
    ("up, done", lambda plane: holds(plane, "2", "2"), "2100m"),
    ("down, asked", lambda plane: resize(plane, "1m"), "2100m"),
    ("down, given", lambda plane: holds(plane, "1m", "2"), "2100m"),
    ("down, still given", lambda plane: holds(plane, "2", "1m"), "2100m"),
    ("down, done", lambda plane: holds(plane, "1m", "1m"), "101m"),
    ("sidecar up", lambda plane: resize(plane, "1m", "3"), "3001m"),
    ("sidecar down", lambda plane: (holds(plane, "1m", "1m", sidecar=("3", "3")), resize(plane, "1m", "1")), "3001m"),
]


async def test_the_gate_and_resource_quota_count_alike_at_every_step_of_a_resize(plane, relayed, counting):
    """A resize is asked of ResourceQuota; the gate only observes it (docs/counting.md)."""
    namespace(plane, "resized")
    hard = {"requests.cpu": "50"}
    metadata = {"name": "compute", "namespace": "resized"}
    plane.api.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    plane.api.create(web())
    counter = itertools.count(51)
    async with living(plane, relayed, "resized") as live:
        for step, act, cpu in STEPS:
            await asyncio.to_thread(act, plane)
            await agrees(live)
            assert counted(live) == quantities.parse(cpu), step
            await asyncio.to_thread(quota_counts, plane, cpu, next(counter))
    assert live.invalid == []


def counted(live: Live) -> int:
    return live.used()["resized requests.cpu"]


def quota_counts(plane: Plane, cpu: str, hard: int) -> None:
    """Its controller counts anew once the limit is another."""
    plane.api.call("PATCH", QUOTA, {"spec": {"hard": {"requests.cpu": str(hard)}}}, MERGE)

    def status() -> Tree:
        return plane.api.call("GET", QUOTA).get("status", {})

    def counts() -> bool:
        found = status()
        known = found.get("hard", {}).get("requests.cpu") == str(hard)
        return known and quantities.parse(found["used"]["requests.cpu"]) == quantities.parse(cpu)

    eventually(counts, status)
