"""The memory of all nodes: what each has, and what the metrics API (metrics-server) says that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from extauthz.core import quantities
from extauthz.core.model import Tree
from extauthz.inputs.kube.resource import Resource
from extauthz.inputs.policies.plugins import Lists

from .marks import NodeMemory

NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NODE_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)

_ANY_VERSION: Final = (("resourceVersion", "0"),)
"""From the API server's cache: nodes are large, and a moment is no matter."""


async def read(lists: Lists, now_s: float, stale_after_s: float) -> list[NodeMemory]:
    """All nodes, in nano-units of bytes. ``now_s``: seconds since 1970.

    Raises:
        ApiError: and Unreachable, as ``Lists``.
        KeyError: and ValueError: what came has no such form.
    """
    nodes: list[tuple[str, Mapping[str, str], int]] = []
    used: dict[str, int] = {}

    def note(node: Tree) -> None:
        """Keep little of it: nodes are large."""
        metadata = node["metadata"]
        capacity = (node["status"].get("capacity") or {}).get("memory")
        if capacity is not None:  # a kubelet that has just begun has not said it yet
            nodes.append((metadata["name"], metadata.get("labels") or {}, quantities.parse(capacity)))

    def note_use(metrics: Tree) -> None:
        if now_s - datetime.fromisoformat(metrics["timestamp"]).timestamp() <= stale_after_s:
            used[metrics["metadata"]["name"]] = quantities.parse(metrics["usage"]["memory"])

    await lists.items(NODES.collection(), note, query=_ANY_VERSION)
    await lists.items(NODE_METRICS.collection(), note_use)
    return [NodeMemory(name, labels, capacity, used.get(name)) for name, labels, capacity in nodes]
