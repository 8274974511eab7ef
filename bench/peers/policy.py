"""What the policy in Rego looks things up in: the quotas and workloads of the gate's own files, made plain."""

from __future__ import annotations

import json
from typing import Any

from bench.inputs import Files
from extauthz.core.objects.fields import read_amounts
from extauthz.core.quota import spec

Tree = Any
NANO, MICRO = 10**9, 10**6


def data(files: Files) -> dict[str, Tree]:
    """Quotas with what is used, namespaces with their quota, and workloads with their count and what a pod costs."""
    items = json.loads(files.state.read_text())["items"]
    quotas = [spec.parse(one) for one in json.loads(files.quotas.read_text())["items"]]
    namespaces = {
        one["metadata"]["name"]: quota.name
        for quota in quotas
        for one in items
        if one["kind"] == "Namespace" and quota.matches(one["metadata"]["labels"], {})
    }
    used = {quota.name: dict.fromkeys(quota.hard, 0) for quota in quotas}
    workloads: dict[str, dict[str, Tree]] = {namespace: {} for namespace in namespaces}
    for one in items:
        if one["kind"] == "Deployment":
            namespace, replicas = one["metadata"]["namespace"], one["spec"]["replicas"]
            pod = _pod(one["spec"]["template"]["spec"]["containers"])
            workloads[namespace][one["metadata"]["name"]] = {"replicas": replicas, "pod": pod}
            for key, amount in pod.items():
                used[namespaces[namespace]][key] += replicas * amount
    limits = {quota.name: {key: plain(key, amount) for key, amount in quota.hard.items()} for quota in quotas}
    both = {name: {"hard": hard, "used": used[name]} for name, hard in limits.items()}
    return {"quotas": both, "namespaces": namespaces, "workloads": workloads}


def plain(key: str, nanos: int) -> int:
    """Thousandths of a processor, or bytes, or pods: numbers that the evaluator adds quickest."""
    return nanos // (MICRO if key.endswith("cpu") else NANO)


def _pod(containers: list[Tree]) -> dict[str, int]:
    """What one pod costs. No init containers, no overhead: the population has none."""
    (one,) = containers
    found = {"pods": 1}
    for half, names in one["resources"].items():
        for name, nanos in read_amounts(names, half).items():
            found[f"{half}.{name}"] = plain(name, nanos)
    return found
