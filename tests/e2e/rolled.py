"""A release of the chart, its gates and who writes meanwhile: for tests that upgrade it under load.

Real are:

- the API server and etcd, Helm and the chart;
- kube-controller-manager, which rolls the gates' Deployment as its strategy says, writes the EndpointSlices of the
  Service, and runs the HPAs;
- the gates, each started with the arguments of its pod.

Stood in are:

- the gates' kubelet (``tests/controlplane/gatepods.py``); readiness probe, preStop and grace period are the pod's;
- kube-proxy (``kubeproxy.py``), whose rules are a second old, and which makes the worst choice that they allow;
- the kubelet of the workloads' pods, and metrics-server.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.history import Judge, Watcher
from tests.controlplane.access import service_account
from tests.controlplane.api import Api, RefusedError
from tests.controlplane.gatepods import GatePods
from tests.controlplane.load import side_by_side
from tests.controlplane.manager import ControllerManager
from tests.controlplane.plane import running_plane
from tests.controlplane.test_chart import NAMESPACE, Cluster
from tests.controlplane.workspace import autoscaler, workload
from tests.support.kubelet import Kubelet
from tests.support.metricsapi import MetricsApi
from tests.waiting import eventually

Tree = Any
GATES, W_S, HARD = 3, 10, 10
SCALED, DRIVEN = ("web", "api"), ("batch", "cron")
"""Deployments with an HPA, and those that a client scales."""
JSON_AND_ALL_HISTORY = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")
CONTROLLERS = "--controllers=*,-node-lifecycle-controller"
"""The node is a name: nobody renews its lease."""
VALUES = f"--set=settings.window-s={W_S}"
WAIT = ("--wait", "--timeout=110s")
SENTENCE = "exceeded workspace quota: rolling"
GROWN = 3
"""Growth that HPAs must have been granted before the upgrade, between it and the rollback, and afterwards."""


class Scene:
    """A cluster with one release, from ``install`` on. Ended by *stack*."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.judge = folder, Judge(W_S)
        self.meanwhile = 0
        """Growth that was granted to HPAs while gates were replaced."""
        self._stack = stack
        for name in ("plane", "pods"):
            (folder / name).mkdir()
        self.plane = stack.enter_context(running_plane(JSON_AND_ALL_HISTORY, folder / "plane"))
        self.watcher = stack.enter_context(Watcher(self.plane.etcd_url, self.judge))
        self.helm = Cluster(self.plane)
        self.plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.pods = stack.enter_context(GatePods(self.plane, NAMESPACE, folder / "pods"))
        stack.enter_context(Kubelet(self.plane.url, self.plane.tls, leaves=(NAMESPACE,)))
        self.metrics = stack.enter_context(MetricsApi(self.plane.url, self.plane.tls))
        self.metrics.usage["rolling"] = {"cpu": "1", "memory": "1Mi"}
        self.token = service_account(self.plane, "kube-system", "scaler", "cluster-admin")

    def install(self, server: str) -> None:
        """With kube-controller-manager behind this address, which knows metrics too."""
        self._stack.enter_context(ControllerManager(self.plane, server, self.folder, [CONTROLLERS]))
        self.helm("install", "mine", "charts/extauthz", VALUES, *WAIT)

    def populate(self) -> None:
        """A quota and what is under it; then the HPAs, once it counts."""
        spec = {
            "namespaceSelector": {"matchLabels": {"workspace": "rolling"}},
            "hard": {"pods": str(HARD)},
            "mode": "Enforce",
        }
        quota = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "rolling"}}
        self.plane.api.create(quota | {"spec": spec})
        metadata = {"name": "rolling", "labels": {"workspace": "rolling"}}
        self.plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self._create(*(workload(name, 1, {"cpu": "1"}) for name in SCALED))
        self._create(*(workload(name, 0, {"cpu": "1"}) for name in DRIVEN))
        self._await_decisions()
        self._create(*(_fast(autoscaler(name)) for name in SCALED))

    def _create(self, *trees: Tree) -> None:
        """Also where the webhook is asked: of a new ledger nothing is granted for a landing window."""

        def created(tree: Tree) -> bool:
            with suppress(RefusedError):
                return bool(self.plane.api.create(tree))
            return False

        for tree in trees:
            tree["metadata"]["namespace"] = "rolling"
            eventually(partial(created, tree))

    def _await_decisions(self) -> None:
        """Until the quota counts for each gate, and its ledger is no longer new."""

        def pages() -> list[str]:
            return [pod.page("/metrics") + pod.page("/readyz") for pod in self.pods.running]

        counted = 'extauthz_quota_used{quota="rolling",resource="pods"} 2.0'
        eventually(lambda: all(counted in page and "grants no growth" not in page for page in pages()), pages)

    def step(self, *words: str) -> str:
        """One of Helm's, with growth before it. The hash of the template that runs now."""
        self.await_growth()
        grown, before = self.grown(), {pod.uid for pod in self.pods.all}
        self.helm(*words, *WAIT)
        self._await_rolled(before)
        self.meanwhile += self.grown() - grown
        return self.template()

    def upgrade(self) -> str:
        """To another template of pods."""
        return self.step("upgrade", "mine", "charts/extauthz", VALUES, "--set=logLevel=debug")

    def rollback(self) -> str:
        return self.step("rollback", "mine", "1")

    def _await_rolled(self, before: set[str]) -> None:
        """Until so many gates are ready as there shall be, none of them an old one, and no other is there."""

        def rolled() -> bool:
            new = [pod.ready and pod.uid not in before for pod in self.pods.running]
            return new == [True] * GATES or self.pods.failure is not None

        eventually(rolled, lambda: [(pod.uid, pod.ready) for pod in self.pods.running])

    def template(self) -> str:
        """The hash of the one pod template that runs."""
        (found,) = {pod.hash for pod in self.pods.running}
        return found

    def replicas(self, name: str) -> int:
        return int(self.plane.api.get("Deployment", name, "rolling")["spec"]["replicas"])

    def grown(self) -> int:
        """Growth that was granted to HPAs: nobody else grows what they scale."""
        return sum(
            tree["verdict"] == "allow" and tree.get("to", 0) > tree.get("from", 0)
            for pod in self.pods.all
            for line in pod.log.read_text().splitlines()
            if any(f'"deployments.apps/rolling/{name}"' in line for name in SCALED)
            for tree in (json.loads(line),)
        )

    def await_growth(self) -> None:
        enough = self.grown() + GROWN
        eventually(lambda: self.grown() >= enough or self.pods.failure, self.grown)

    def assert_each_gate_was_replaced_twice(self) -> None:
        """And each stopped cleanly, within its grace period."""
        assert len(self.pods.all) == 3 * GATES
        assert [pod.code for pod in self.pods.all[: 2 * GATES]] == [0] * 2 * GATES

    def assert_never_over(self) -> None:
        """By etcd's own history."""
        newest = int(self.plane.api.call("GET", "/api/v1/namespaces")["metadata"]["resourceVersion"])
        eventually(lambda: self.watcher.revision >= newest or self.watcher.failure)
        assert self.judge.in_excess == [], self.judge.in_excess
        assert self.judge.accounts["rolling", "pods"].highest > HARD * 1000 // 2, "hardly anything was allowed"


def _fast(tree: Tree) -> Tree:
    """An HPA that may double at each look: by default it pauses for 15 s."""
    policy = {"type": "Percent", "value": 100, "periodSeconds": 1}
    tree["spec"]["behavior"] = {"scaleUp": {"policies": [policy]}, "scaleDown": {"selectPolicy": "Disabled"}}
    return tree


class Clients:
    """Scale without a pause: some up and down, and what an HPA has grown down again."""

    def __init__(self, scene: Scene, client: Callable[[], Api]) -> None:
        self.failed: list[RefusedError] = []
        self.refused = 0
        """By a quota."""
        self._scene, self._client, self._stop = scene, client, threading.Event()

    def running(self) -> AbstractContextManager[None]:
        lowering = [partial(self._lower, name) for name in SCALED]
        return side_by_side([*lowering, *(partial(self._drive, name) for name in DRIVEN)], self._stop)

    def _drive(self, name: str) -> None:
        client, wanted = self._client(), 0
        while not self._stop.is_set():
            wanted = (wanted + 2) % 5
            self._scale(client, name, wanted)
        client.close()

    def _lower(self, name: str) -> None:
        client = self._client()
        while not self._stop.wait(0.1):
            if self._scene.replicas(name) > 1:
                self._scale(client, name, 1)
        client.close()

    def _scale(self, client: Api, name: str, replicas: int) -> None:
        try:
            client.patch("Deployment", name, "rolling", {"spec": {"replicas": replicas}}, sub="scale")
        except RefusedError as error:
            if error.code == 403 and SENTENCE in str(error):
                self.refused += 1
            else:
                self.failed.append(error)


def upgraded_and_rolled_back(scene: Scene, client: Callable[[], Api]) -> None:
    """Under load. Each gate is replaced twice, no write of a client fails, and the quota is never exceeded."""
    clients, installed = Clients(scene, client), scene.template()
    with clients.running():
        upgraded, rolled_back = scene.upgrade(), scene.rollback()
        scene.await_growth()
    assert installed == rolled_back != upgraded
    scene.assert_each_gate_was_replaced_twice()
    assert clients.failed == [], f"{len(clients.failed)} failed: {Counter(map(str, clients.failed)).most_common(3)}"
    assert clients.refused, "there was room for all"
    assert scene.meanwhile, "no HPA grew while gates were replaced"
    scene.assert_never_over()
