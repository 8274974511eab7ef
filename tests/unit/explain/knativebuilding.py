"""Objects of Knative and KEDA for explanations, as short as they can be."""

from __future__ import annotations

from typing import Any

from extauthz.explain.knative import scene
from extauthz.explain.knative.decide import Answer, decide
from extauthz.explain.knative.decider import Values
from extauthz.explain.objects import Objects
from tests.unit.explain.building import NOW, deployment, text

Tree = Any

LONG_S = 10_000.0


def kpa(
    scale: int | None = 1, ready: int = 1, active: str = "True", since: float = LONG_S, ran: bool = True, **notes: str
) -> Tree:
    """Annotations with ``_`` for ``-``; ``target`` is 10 at 100 % if nothing else is said."""
    usual = {"target": "10", "target_utilization_percentage": "100"}
    annotations = {
        f"autoscaling.knative.dev/{name.replace('_', '-')}": value for name, value in (usual | notes).items() if value
    }
    conditions = [
        {"type": "Active", "status": active, "lastTransitionTime": text(NOW - since)},
        {"type": "ScaleTargetInitialized", "status": str(ran)},
    ]
    status = {"actualScale": ready, "conditions": conditions} | ({} if scale is None else {"desiredScale": scale})
    return {
        "kind": "PodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "status": status,
    }


def config(**data: str) -> Tree:
    given = {name.replace("_", "-"): value for name, value in data.items()}
    return {
        "kind": "ConfigMap",
        "metadata": {"name": "config-autoscaler", "namespace": "knative-serving"},
        "data": given,
    }


def refusal(replicas: int, name: str = "web", ago: float = 5) -> Tree:
    return {
        "kind": "Event",
        "metadata": {"name": f"web.{replicas}", "namespace": "shop"},
        "involvedObject": {"kind": "PodAutoscaler", "name": name},
        "lastTimestamp": text(NOW - ago),
        "message": f"error scaling target: failed to apply scale {replicas} to scale target web: exceeded quota",
    }


def look(tree: Tree, *more: Tree, replicas: int = 1, asked: tuple[str, ...] = (scene.EVENT,)) -> scene.Scene:
    """A config map is there, unless another one is given, and events have been read."""
    maps = [] if any(one["kind"] == "ConfigMap" for one in more) else [config()]
    return scene.of(Objects([tree, deployment(replicas), *maps, *more], asked), tree, NOW)


def decided(tree: Tree, stable: float | None = None, *more: Tree, panic: float | None = None, **how: Any) -> Answer:
    panics = how.pop("panics", None)
    values = None if stable is None else Values(stable, stable if panic is None else panic, panics)
    return decide(look(tree, *more, **how), values)
