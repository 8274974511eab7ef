"""Random PodAutoscalers, config maps, and what their autoscaler gets to see."""

from __future__ import annotations

import random
from typing import Any

from extauthz.explain.knative.rules import CONFIG, KPA, NAMESPACE

Tree = Any

PLACE = "kpas"
GROUP = "autoscaling.knative.dev"
CHANCES = {
    "metric": 0.3,
    "target": 0.6,
    "target-utilization-percentage": 0.4,
    "min-scale": 0.3,
    "max-scale": 0.4,
    "initial-scale": 0.3,
    "scale-down-delay": 0.2,
    "window": 0.4,
    "panic-window-percentage": 0.4,
    "panic-threshold-percentage": 0.4,
    "activation-scale": 0.25,
    "target-burst-capacity": 0.3,
    "scale-to-zero-pod-retention-period": 0.2,
}


def annotations(chance: random.Random) -> dict[str, str]:
    """As owners write them; now and then one that is no number."""
    least = chance.randint(0, 4)
    values = {
        "metric": chance.choice(["concurrency", "rps"]),
        "target": chance.choice(["1", "2.5", "10", "70", "100", "0.2"]),
        "target-utilization-percentage": chance.choice(["1", "50", "70", "75.5", "100"]),
        "min-scale": str(least),
        "max-scale": str(chance.randint(max(least, 1), 12)),
        "initial-scale": str(chance.randint(0, 5)),
        "scale-down-delay": chance.choice(["0s", "4s", "30s", "1m"]),
        "window": chance.choice(["6s", "20s", "1m", "1m30s"]),
        "panic-window-percentage": chance.choice(["1", "10", "12.5", "50", "100"]),
        "panic-threshold-percentage": chance.choice(["110", "150", "200", "1000"]),
        "activation-scale": str(chance.randint(2, 5)),
        "target-burst-capacity": chance.choice(["-1", "0", "200"]),
        "scale-to-zero-pod-retention-period": chance.choice(["0s", "10s", "1m"]),
    }
    notes = {f"{GROUP}/{name}": values[name] for name, often in CHANCES.items() if chance.random() < often}
    if notes and chance.random() < 0.1:
        # A metric may have any name, and Go's durations overflow in their own way.
        odd = set(notes) - {f"{GROUP}/metric", f"{GROUP}/panic-window-percentage"}
        name = chance.choice(sorted(odd) or [f"{GROUP}/target"])
        notes[name] = chance.choice(["many", "", "1.5x", "99999999999999"])
    return notes | {f"{GROUP}/class": KPA}


def autoscaler(name: str, chance: random.Random) -> Tree:
    """One of the class ``kpa``."""
    labels = {f"serving.knative.dev/{key}": name for key in ("revision", "revisionUID", "configuration", "service")}
    return {
        "apiVersion": "autoscaling.internal.knative.dev/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {"name": name, "namespace": PLACE, "labels": labels, "annotations": annotations(chance)},
        "spec": {
            "protocolType": "http1",
            "containerConcurrency": chance.choice([0, 0, 1, 5, 50]),
            "reachability": chance.choice(["Reachable", "Reachable", "", "Unreachable"]),
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        },
    }


def config(chance: random.Random) -> dict[str, str]:
    """Of config-autoscaler, such as the autoscaler takes it."""
    values = {
        "max-scale-up-rate": chance.choice(["1.1", "2", "10", "1000.0"]),
        "max-scale-down-rate": chance.choice(["1.1", "2.0", "100"]),
        "container-concurrency-target-percentage": chance.choice(["0.5", "70", "100"]),
        "container-concurrency-target-default": chance.choice(["10", "100"]),
        "requests-per-second-target-default": chance.choice(["20", "200"]),
        "panic-window-percentage": chance.choice(["10", "33"]),
        "panic-threshold-percentage": chance.choice(["150", "200"]),
        "stable-window": chance.choice(["6s", "60s"]),
        "scale-down-delay": chance.choice(["0s", "10s"]),
        "enable-scale-to-zero": chance.choice(["true", "false"]),
        "max-scale": chance.choice(["0", "8"]),
        "min-scale": chance.choice(["0", "2"]),
        "initial-scale": chance.choice(["1", "3"]),
    }
    return {name: value for name, value in values.items() if chance.random() < 0.35}


def config_map(data: dict[str, str]) -> Tree:
    return {"kind": "ConfigMap", "metadata": {"name": CONFIG, "namespace": NAMESPACE}, "data": data}


def looks(target: float, chance: random.Random) -> list[dict[str, float]]:
    """What an autoscaler sees, one look after another: traffic that rises, falls, and stops."""
    found, at, ready = [], 0.0, chance.choice([0, 1, 2, 5])
    load = target * chance.choice([0, 1, 3, 10])
    for _ in range(12):
        if chance.random() < 0.4:
            load = target * chance.choice([0, 0.5, 1, 2, chance.uniform(0, 12), 40])
        panic = load * chance.choice([1, 1, chance.uniform(0, 4)])
        found.append({"At": at, "Ready": ready, "Stable": load, "Panic": panic})
        at += chance.choice([2, 2, 2, 8, 100])
        ready = max(0, ready + chance.choice([0, 0, 1, -1, 4, -3]))
    return found
