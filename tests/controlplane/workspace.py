"""One test's part of the cluster: namespaces under one WorkspaceQuota, and what is put into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tests.controlplane.world import World
from tests.support import objects
from tests.waiting import eventually

Tree = Any
IMAGE = "registry.test/app:1"


class Workspace:
    """A namespace (more with ``add_namespace``) whose label ``workspace`` a quota selects. A context manager.

    Args:
        mode: of the quota; empty: that of the world.
    """

    def __init__(self, world: World, name: str, hard: Mapping[str, str], mode: str = "") -> None:
        self.world, self.name, self.api = world, name, world.api
        self.namespaces: list[str] = []
        self._quota = objects.quota(name, hard, mode=mode or world.mode)

    def __enter__(self) -> Self:
        self.api.create(self._quota)
        self.add_namespace(self.name)
        return self

    def __exit__(self, *_: object) -> None:
        for namespace in self.namespaces:
            # Autoscalers first: one that goes on would be busy in a namespace that is going.
            self.api.call("DELETE", f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers")
            self.api.delete("Namespace", namespace)
        self.api.delete("WorkspaceQuota", self.name)

    @property
    def namespace(self) -> str:
        """The first one."""
        return self.namespaces[0]

    def add_namespace(self, name: str) -> str:
        self.api.create(objects.namespace(name, workspace=self.name))
        self.namespaces.append(name)
        return name

    def set_hard(self, hard: Mapping[str, str]) -> None:
        """Replaces the limits."""
        self.api.patch("WorkspaceQuota", self.name, None, {"spec": {"hard": dict(hard)}})

    def able(self, name: str = "web") -> Tree:
        """The condition by which an HPA says whether its last scale was taken."""
        return condition(self.api.get("HorizontalPodAutoscaler", name, self.namespace), "AbleToScale")

    def await_refused(self, name: str = "web") -> str:
        """What an HPA says, once its last scale was refused."""
        eventually(lambda: self.able(name).get("reason") == "FailedUpdateScale", lambda: self.able(name))
        return str(self.able(name)["message"])

    def create(self, tree: Tree) -> Tree:
        """Create an object in the first namespace."""
        tree["metadata"].setdefault("namespace", self.namespace)
        return self.api.create(tree)

    def runs(self, replicas: int) -> None:
        """A Deployment ``web`` of one CPU a pod, once the gate counts it."""
        self.create(workload("web", replicas, {"cpu": "1"}))
        eventually(lambda: self.used() == replicas, self.used)

    def always_grows(self, most: int, kind: str = "Deployment") -> None:
        """One ready pod of ``web``, which is busy at any size, and its HPA."""
        self.create(workload("web", 1, {"cpu": "1"}, kind))
        self.await_ready("web", 1, kind)
        self.busy("900m")
        self.create(autoscaler("web", kind, most=most))

    def busy(self, cpu: str) -> None:
        """What every container of the first namespace uses from now on."""
        self.world.metrics.usage[self.namespace] = {"cpu": cpu, "memory": "1Mi"}

    def used(self, resource: str = "requests.cpu") -> float:
        """What the gate counts as used, in cores, bytes or objects."""
        return self._measured("used", resource=resource)

    def charged(self, resource: str = "requests.cpu") -> float:
        """What it counts as used or reserved."""
        return self._measured("used", "reserved", resource=resource)

    def hard(self, resource: str = "requests.cpu") -> float:
        """The limit that the gate goes by."""
        return self._measured("hard", resource=resource)

    def _measured(self, *what: str, resource: str) -> float:
        labels = f'{{quota="{self.name}",resource="{resource}"}}'
        return self.world.gate.metric(*(f"extauthz_quota_{one}{labels}" for one in what))

    def replicas(self, name: str, kind: str = "Deployment") -> int:
        return int(self.api.get(kind, name, self.namespace)["spec"]["replicas"])

    def await_ready(self, name: str, replicas: int, kind: str = "Deployment") -> None:
        """Until the controllers have made so many pods, and all are ready."""

        def status() -> Tree:
            return self.api.get(kind, name, self.namespace).get("status", {})

        eventually(lambda: status().get("readyReplicas") == replicas, lambda: status())

    def events(self, reason: str, name: str) -> list[Tree]:
        """Core events of one reason about one object."""
        found = self.api.list("Event.v1", self.namespace)
        return [event for event in found if event["reason"] == reason and event["involvedObject"]["name"] == name]


def workload(
    name: str, replicas: int, requests: Mapping[str, str], kind: str = "Deployment", image: str = IMAGE
) -> Tree:
    """A Deployment or StatefulSet of one container a pod."""
    container = {"name": "main", "image": image, "resources": {"requests": dict(requests)}}
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def autoscaler(
    name: str, target: str = "Deployment", *, most: int = 10, api_version: str = "apps/v1", least: int = 1
) -> Tree:
    """An HPA by CPU, at half of what is requested, that grows as fast as it may."""
    half = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": api_version, "kind": target, "name": name},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": half}}],
        },
    }


def condition(hpa: Tree, kind: str) -> Tree:
    """One condition of an HPA; empty before it has any."""
    conditions = hpa.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})
