"""A stand-in for lists of the API server that a workload's page reads: HPAs, the workload, events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from extauthz.serve.servers.page.cluster import MOST_BYTES, MOST_LISTED, WITHIN_S
from extauthz.testing import workload

HPAS = "/apis/autoscaling/v2/namespaces/team-a/horizontalpodautoscalers"
OBJECT = "/apis/apps/v1/namespaces/team-a/deployments"
EVENTS = "/api/v1/namespaces/team-a/events"

Tree = Any


class Listing:
    """Lists by path. Has ``items`` as a ``Connection`` has."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Tree] | Exception] = {HPAS: [hpa()], OBJECT: [workload("web", 3)], EVENTS: []}
        self.metadata: Tree = {}
        self.asked: list[tuple[str, str]] = []
        """Paths, each with what is selected."""
        self.gate: asyncio.Event | None = None
        """If given, answers wait for it."""
        self.under_way = 0

    async def items(
        self,
        path: str,
        take: Callable[[Tree], object],
        *,
        query: Sequence[tuple[str, str]] = (),
        timeout_s: float = 60.0,
        most_bytes: int | None = None,
    ) -> Tree:
        assert (timeout_s, most_bytes) == (WITHIN_S, MOST_BYTES)
        selected = dict(query)
        assert selected["limit"] == str(MOST_LISTED)
        self.asked.append((path, selected.get("fieldSelector", "")))
        self.under_way += 1
        if self.gate is not None:
            await self.gate.wait()
        self.under_way -= 1
        found = self.lists[path]
        if isinstance(found, Exception):
            raise found
        about = selected.get("fieldSelector", "") if path == EVENTS else ""
        for one in found:
            if about in ("", f"involvedObject.name={(one or {}).get('involvedObject', {}).get('name')}"):
                take(one)
        return self.metadata


def hpa(name: str = "web-hpa", *, to: str = "web", kind: str = "Deployment", metrics: int = 1) -> Tree:
    """At 84 % of a target of 80 %: within the tolerance."""
    named = {"name": "cpu"}
    aim = {"type": "Resource", "resource": named | {"target": {"type": "Utilization", "averageUtilization": 80}}}
    now = {"type": "Resource", "resource": named | {"current": {"averageUtilization": 84, "averageValue": "84m"}}}
    reasons = {"AbleToScale": "ReadyForNewScale", "ScalingActive": "ValidMetricFound"}
    return {
        "metadata": {"name": name, "namespace": "team-a", "annotations": {"large": "x" * 1000}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": to},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [aim] * metrics,
        },
        "status": {
            "currentReplicas": 3,
            "desiredReplicas": 3,
            "currentMetrics": [now] * metrics,
            "conditions": [{"type": one, "status": "True", "reason": reason} for one, reason in reasons.items()],
        },
    }


def event(minute: int, message: str = "told", *, kind: str = "Deployment", name: str = "web", **more: Tree) -> Tree:
    """Of the minute before the world's time."""
    stamp = f"2027-01-15T07:{minute:02}:00Z"
    about = {"kind": kind, "name": name}
    return {"involvedObject": about, "reason": "R", "message": message, "lastTimestamp": stamp, "count": 1} | more
