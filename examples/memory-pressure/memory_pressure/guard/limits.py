"""Reads what the guard looks at, and writes limits, by the API server.

A pod is lowered in two writes: first the annotation that says what will be changed, then the resize. It is restored in
two: first the resize, then the annotation goes. So after any of them it is known what to restore.
"""

from __future__ import annotations

from typing import Final

from extauthz.core import quantities
from extauthz.core.model import Tree
from extauthz.inputs.kube.resource import Lists, Resource
from memory_pressure import nodes

from . import pods
from .pods import ANNOTATION, Pod
from .rounds import Use

PODS: Final = Resource("", "v1", "pods", "Pod")
POD_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


class Limits:
    """One cluster, and the namespaces that have opted in. Its methods raise ApiError and Unreachable."""

    def __init__(self, calls: Lists, namespaces: tuple[str, ...]) -> None:
        self._calls = calls
        self._namespaces = namespaces

    async def pods(self) -> list[Pod]:
        """All pods of the namespaces that run on a node."""
        trees = [tree for one in self._namespaces for tree in await self._items(PODS.collection(one))]
        return [pod for pod in map(pods.read, trees) if pod is not None]

    async def uses(self, now_s: float, stale_after_s: float) -> dict[str, Use]:
        """The memory of each node of which there are metrics that are not out of date."""
        found = await nodes.read(self._calls, now_s, stale_after_s)
        return {one.name: Use(one.used, one.capacity) for one in found if one.used is not None}

    async def memory(self) -> dict[tuple[str, str], int]:
        """What each pod of the namespaces uses."""
        trees = [tree for one in self._namespaces for tree in await self._items(POD_METRICS.collection(one))]
        return {
            (one["metadata"]["namespace"], one["metadata"]["name"]): sum(
                quantities.parse(container["usage"]["memory"]) for container in one["containers"]
            )
            for one in trees
        }

    async def lower(self, pod: Pod) -> None:
        """Write on the pod what will be changed, then change it. Refused if it has changed since it was read."""
        version = await self._annotate(pod, pod.version, pods.encoded(pod.possible))
        await self._resize(pod, version, {one.container: one.lowered for one in pod.possible})

    async def restore(self, pod: Pod) -> None:
        """Restore what the annotation says, then take it away."""
        changes = pods.to_restore(pod)
        if changes:
            await self._resize(pod, pod.version, {one.container: one.limit for one in changes})
        await self._annotate(pod, None, None)  # of any version: the kubelet writes its status at this moment

    async def _annotate(self, pod: Pod, version: str | None, note: str | None) -> str:
        """The version that this makes."""
        metadata = {"uid": pod.uid, "resourceVersion": version, "annotations": {ANNOTATION: note}}
        return await self._patch(PODS.object(*pod.key), {"metadata": metadata}, MERGE)

    async def _resize(self, pod: Pod, version: str, limits: dict[str, str]) -> None:
        containers = [{"name": name, "resources": {"limits": {"cpu": limit}}} for name, limit in limits.items()]
        body = {"metadata": {"uid": pod.uid, "resourceVersion": version}, "spec": {"containers": containers}}
        await self._patch(f"{PODS.object(*pod.key)}/resize", body, STRATEGIC)

    async def _patch(self, path: str, body: Tree, content_type: str) -> str:
        tree = await self._calls.call("PATCH", path, body=body, content_type=content_type)
        return str(tree["metadata"]["resourceVersion"])

    async def _items(self, path: str) -> list[Tree]:
        found: list[Tree] = (await self._calls.call("GET", path))["items"]
        return found
