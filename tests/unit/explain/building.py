"""Objects for explanations, as short as they can be."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from extauthz.explain.answer import Answer
from extauthz.explain.decide import decide, scene_of
from extauthz.explain.objects import Flags, Objects
from extauthz.explain.specs import Scene

Tree = Any

NOW = 1_800_000_000.0
CALM = {"AbleToScale": "ReadyForNewScale", "ScalingActive": "ValidMetricFound", "ScalingLimited": ""}


def text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def hpa(*metrics: Tree, least: int = 1, most: int = 100, behavior: Tree = None, status: Tree = None) -> Tree:
    spec: Tree = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": list(metrics),
    }
    if behavior is not None:
        spec["behavior"] = behavior
    tree = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
    return tree if status is None else tree | {"status": status}


def status(count: int, before: int | None = None, scaled_at: float | None = None, **reasons: str) -> Tree:
    """Of an HPA that went from ``before`` to ``count`` when it last looked. Conditions by their reasons."""
    said = CALM | reasons
    conditions = [
        {"type": kind, "reason": reason, "status": "True" if reason else "False"} for kind, reason in said.items()
    ]
    tree = {"currentReplicas": count if before is None else before, "desiredReplicas": count, "conditions": conditions}
    return tree if scaled_at is None else tree | {"lastScaleTime": text(scaled_at)}


def deployment(count: int, observed: int | None = None) -> Tree:
    return {
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": count, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"replicas": count if observed is None else observed},
    }


def cpu(percent: int = 50) -> Tree:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def memory(average: str) -> Tree:
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "Resource", "resource": {"name": "memory", "target": target}}


def external(name: str, value: str = "", average: str = "") -> Tree:
    target = {"type": "Value", "value": value} if value else {"type": "AverageValue", "averageValue": average}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def said(name: str, value: str) -> Tree:
    """An external value."""
    return {"metricName": name, "metricLabels": {}, "value": value, "timestamp": text(NOW)}


def pod(name: str, ready: str = "True", started: float = 3600, changed: float = 3500, phase: str = "Running") -> Tree:
    """``started`` and ``changed`` are so many seconds ago. It requests 100m of CPU."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": text(NOW - changed)}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]},
        "status": {"phase": phase, "startTime": text(NOW - started), "conditions": [condition]},
    }


def used(name: str, cpu: str = "50m", memory: str = "0", at: float = 10, window: str = "30s") -> Tree:
    """What the metrics server says of a pod."""
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "timestamp": text(NOW - at),
        "window": window,
        "containers": [{"name": "app", "usage": {"cpu": cpu, "memory": memory}}],
    }


def alike(count: int, usage: str) -> list[Tree]:
    """Ready pods that use the same."""
    names = [f"web-{number}" for number in range(count)]
    return [*(pod(name) for name in names), *(used(name, usage) for name in names)]


def scene(autoscaler: Tree, *objects: Tree, flags: Flags | None = None, asked: Iterable[str] = ()) -> Scene:
    found = Objects([autoscaler, *objects], asked)
    return scene_of(found, autoscaler, Flags() if flags is None else flags, NOW)


def explained(autoscaler: Tree, *objects: Tree, flags: Flags | None = None, asked: Iterable[str] = ()) -> Answer:
    return decide(scene(autoscaler, *objects, flags=flags, asked=asked))
