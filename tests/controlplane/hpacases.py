"""Random HPAs with what they look at: a Deployment, pods in every condition, and metrics near and far from targets."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Tree = Any

NAMESPACE = "default"
CONDITIONS = ("ready",) * 14 + ("pending", "never-ready", "was-ready", "warming", "fresh", "failed", "ending", "done")
RATIOS = (0.0, 0.3, 0.5, 0.7, 0.85, 0.88, 0.9, 0.91, 0.94, 0.97, 1.0, 1.02, 1.04, 1.07, 1.1, 1.11, 1.2, 1.5, 2.0, 3.1)
FINALIZER = "example.dev/held"


@dataclass
class Case:
    """One HPA. ``pods`` are as created, each with the status that it gets then."""

    name: str
    deployment: Tree
    hpa: Tree
    pods: list[tuple[Tree, Tree]]
    pod_metrics: list[Tree] = field(default_factory=list)
    values: dict[str, list[Tree]] = field(default_factory=dict)

    @property
    def metric_objects(self) -> list[Tree]:
        """As metrics servers answer."""
        return [*self.pod_metrics, *(one for values in self.values.values() for one in values)]

    @property
    def asks(self) -> set[str]:
        """What the controller asks metrics servers for."""
        return {f"app={self.name}", *self.values}


def case(seed: str, number: int, now: float) -> Case:
    """One, by its number."""
    chance = random.Random(f"{seed}/{number}")
    name = f"case-{number}"
    count = chance.randint(1, 8)
    requests = [_requests(chance, name) for name in ("app", "side")[: chance.choice((1, 1, 2))]]
    whole = _pod_level(chance, requests)
    pods = [_pod(chance, f"{name}-{index}", name, requests, whole, now) for index in range(count)]
    asked = max(0, count + chance.choice((0, 0, 0, 0, 0, 1, -1, 3))) if chance.random() > 0.02 else 0
    made = Case(name, _deployment(name, asked, count, requests, whole), {}, pods)
    specs = [_spec(chance, f"m-{number}-{index}", requests) for index in range(chance.choice((1, 1, 1, 2, 3)))]
    made.hpa = _hpa(chance, name, asked, specs)
    measure(made, chance, now)
    return made


def measure(made: Case, chance: random.Random, now: float) -> None:
    """New values for all its metrics."""
    made.values = {}
    ratio = chance.choice(RATIOS) * chance.choice((1, 1, 1, 0.995, 1.003))
    usage = {"cpu": 0.0, "memory": 0.0}
    failing = chance.choice((0.03,) * 7 + (0.7,))
    for spec in made.hpa["spec"]["metrics"]:
        body = spec[spec["type"][0].lower() + spec["type"][1:]]
        if spec["type"] in ("Resource", "ContainerResource"):
            usage[body["name"]] = ratio
        else:
            made.values[body["metric"]["name"]] = (
                [] if chance.random() < failing else _values(chance, made, spec["type"], body, ratio, now)
            )
        ratio = chance.choice(RATIOS)
    made.pod_metrics = [] if chance.random() < failing else _pod_metrics(chance, made, usage, now)


def _pod_metrics(chance: random.Random, made: Case, usage: dict[str, float], now: float) -> list[Tree]:
    targets = {
        body["name"]: body["target"]
        for spec in made.hpa["spec"]["metrics"]
        if spec["type"] in ("Resource", "ContainerResource")
        for body in [spec[spec["type"][0].lower() + spec["type"][1:]]]
    }
    lacking = chance.random() < 0.3
    found = []
    for pod, _ in made.pods:
        if lacking and chance.random() < 0.3:
            continue
        containers = pod["spec"]["containers"]
        found.append(
            {
                "metadata": {"name": pod["metadata"]["name"], "namespace": NAMESPACE, "labels": {"app": made.name}},
                "timestamp": _text(now - 5),
                "window": "30s",
                "containers": [
                    {"name": one["name"], "usage": _usage(chance, one, pod["spec"], usage, targets)}
                    for one in containers
                ],
            }
        )
    return found


def _usage(chance: random.Random, container: Tree, pod: Tree, usage: dict[str, float], targets: Tree) -> Tree:
    """Of a container: the ratio of its target, more or less. What the pod requests as a whole is shared out evenly."""
    asked = container["resources"].get("requests", {})
    whole = pod.get("resources", {}).get("requests", {})
    count = len(pod["containers"])
    said = {}
    for resource, unit in (("cpu", "m"), ("memory", "Mi")):
        target = targets.get(resource, {})
        if "averageUtilization" in target:
            own, shared = _digits(asked.get(resource, "100m")), _digits(whole.get(resource, "0")) / count
            aim = (shared or own) * target["averageUtilization"] / 100
        else:
            aim = _digits(target.get("averageValue", "100m")) / count
        said[resource] = f"{round(aim * usage[resource] * chance.choice((1, 1, 1, 0.9, 1.1)))}{unit}"
    return said


def _values(chance: random.Random, made: Case, kind: str, body: Tree, ratio: float, now: float) -> list[Tree]:
    target = body["target"]
    aim = int(target.get("value") or target["averageValue"])
    share = 1 if "value" in target or kind == "Pods" else max(made.deployment["status"]["replicas"], 1)
    value = f"{round(1000 * aim * ratio * share)}m"
    name = body["metric"]["name"]
    if kind == "External":
        half = f"{round(500 * aim * ratio * share)}m"
        # KEDA's adapter gives null, and has filtered by the selector.
        stamp = {"metricName": name, "metricLabels": chance.choice((None, None, {})), "timestamp": _text(now)}
        return [stamp | {"value": value}] if chance.random() < 0.7 else [stamp | {"value": half}] * 2
    common = {"metric": {"name": name}, "timestamp": _text(now - 5), "value": value}
    if kind == "Object":
        return [common | {"describedObject": dict(body["describedObject"], namespace=NAMESPACE)}]
    return [
        common | {"describedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": pod["metadata"]["name"]}}
        for pod, _ in made.pods
        if chance.random() < 0.95
    ]


def _spec(chance: random.Random, name: str, requests: list[Tree]) -> Tree:
    kind = chance.choice(("Resource", "Resource", "Resource", "ContainerResource", "Pods", "Object", "External"))
    if kind in ("Resource", "ContainerResource"):
        resource = chance.choice(("cpu", "cpu", "memory"))
        unit = "m" if resource == "cpu" else "Mi"
        target: Tree = {"type": "Utilization", "averageUtilization": chance.choice((50, 60, 75, 80, 90, 120))}
        if chance.random() < 0.3:
            target = {"type": "AverageValue", "averageValue": f"{chance.choice((80, 150, 333, 500))}{unit}"}
        body: Tree = {"name": resource, "target": target}
        if kind == "ContainerResource":
            body["container"] = chance.choice(requests)["name"]
        return {"type": kind, kind[0].lower() + kind[1:]: body}
    body = {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": str(chance.choice((7, 20)))}}
    if kind != "Pods" and chance.random() < 0.5:
        body["target"] = {"type": "Value", "value": str(chance.choice((10, 30, 100)))}
    if kind == "External" and chance.random() < 0.5:
        body["metric"]["selector"] = {"matchLabels": {"scaledobject.keda.sh/name": name}}
    if kind == "Object":
        body["describedObject"] = {"apiVersion": "v1", "kind": "Service", "name": "front"}
    return {"type": kind, kind.lower(): body}


def _hpa(chance: random.Random, name: str, asked: int, metrics: list[Tree]) -> Tree:
    least = chance.choice((1, 1, 1, 2, 3))
    most = max(least, asked + chance.choice((-2, 0, 1, 4, 10, 20, 20, 20)))
    spec: Tree = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": least,
        "maxReplicas": max(most, 1),
        "metrics": metrics,
    }
    if chance.random() < 0.6:
        spec["behavior"] = {way: _rules(chance) for way in ("scaleUp", "scaleDown") if chance.random() < 0.75}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def _rules(chance: random.Random) -> Tree:
    rules: Tree = {}
    if chance.random() < 0.7:
        rules["stabilizationWindowSeconds"] = chance.choice((0, 0, 0, 60, 300))
    if chance.random() < 0.5:
        rules["tolerance"] = chance.choice(("0", "0.01", "0.05", "70m", "0.1", "0.2", "0.5"))
    if chance.random() < 0.5:
        rules["selectPolicy"] = chance.choice(("Max", "Min", "Disabled"))
    if chance.random() < 0.6:
        rules["policies"] = [
            {
                "type": chance.choice(("Pods", "Percent")),
                "value": chance.choice((1, 2, 4, 10, 50, 100)),
                "periodSeconds": chance.choice((15, 60, 300)),
            }
            for _ in range(chance.randint(1, 2))
        ]
    return rules


def _requests(chance: random.Random, name: str) -> Tree:
    asked = {"cpu": f"{chance.choice((50, 100, 333, 500))}m", "memory": f"{chance.choice((64, 100, 256))}Mi"}
    if chance.random() < 0.03:
        asked = {}
    return {"name": name, "image": "registry.test/app:1", "resources": {"requests": asked}}


def _pod_level(chance: random.Random, containers: list[Tree]) -> Tree:
    """What a pod requests as a whole: one resource or both, never less than its containers together."""
    if chance.random() < 0.7:
        return {}
    more = chance.choice((1, 1.5, 3))
    asked = {}
    for resource, unit in chance.choice(((("cpu", "m"),), (("memory", "Mi"),), (("cpu", "m"), ("memory", "Mi")))):
        own = sum(_digits(one["resources"]["requests"].get(resource, "0")) for one in containers)
        asked[resource] = f"{round((own or 100) * more)}{unit}"
    return {"resources": {"requests": asked}}


def _digits(text: str) -> int:
    return int(text.rstrip("mMi"))


def _deployment(name: str, asked: int, observed: int, containers: list[Tree], whole: Tree) -> Tree:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers} | whole}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": asked, "selector": {"matchLabels": {"app": name}}, "template": template},
        "status": {"replicas": observed},
    }


def _pod(
    chance: random.Random, name: str, app: str, containers: list[Tree], whole: Tree, now: float
) -> tuple[Tree, Tree]:
    condition = chance.choice(CONDITIONS)
    metadata: Tree = {"name": name, "namespace": NAMESPACE, "labels": {"app": app}}
    if condition == "ending":
        metadata["finalizers"] = [FINALIZER]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers} | whole}
    return pod, _status(condition, now)


def _status(condition: str, now: float) -> Tree:
    old = now - 3600
    started, ready, changed = {
        "never-ready": (old, "False", old + 5),
        "was-ready": (old, "False", now - 600),
        "warming": (now - 60, "False", now - 50),
        "fresh": (now - 100, "True", now - 15),
    }.get(condition, (old, "True", old + 5))
    phase = {"pending": "Pending", "failed": "Failed", "done": "Succeeded"}.get(condition, "Running")
    if condition == "pending":
        return {"phase": phase}
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": _text(changed)}]
    return {"phase": phase, "startTime": _text(started), "conditions": conditions}


def _text(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
