"""A population as the two files that ``extauthz serve`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from extauthz.core.model import Tree
from tests.support import numbered
from tests.support.objects import namespace, quota

from .population import Population, uid

UNBOUNDED = {f"pending_writes_per_{of}": 1_000_000 for of in ("source", "tree")} | {"pending_writes": 1_000_000}
"""No machine is fast enough to be refused, although workloads carry the writes of minutes, as W is the default."""

SERVE = numbered.command(["serve"], **UNBOUNDED)


class Files(NamedTuple):
    """What ``--quotas`` and ``--state`` take."""

    quotas: Path
    state: Path


def write(population: Population, directory: Path, mode: str = "Enforce") -> Files:
    """Write both files: the state as ``kubectl get ns,deploy,rs -A -o json`` prints it, a ReplicaSet a Deployment."""
    quotas, state = directory / "quotas.json", directory / "state.json"
    quotas.write_text(_list([_quota(i, mode) for i in range(population.quota_count)]))
    spaces = [namespace(name, **labels) for name, labels in population.namespaces.items()]
    state.write_text(_list([*spaces, *objects(population)]))
    return Files(quotas, state)


def _list(items: list[Tree]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


HARD = {"requests.cpu": "1M", "requests.memory": "1Pi", "limits.memory": "1Pi", "pods": "1M"}


def _quota(i: int, mode: str) -> Tree:
    return quota(f"quota-{i:06}", HARD, {"workspace": f"workspace-{i:06}"}, mode=mode)


def objects(population: Population) -> Iterator[Tree]:
    """Each Deployment with its ReplicaSet."""
    for i in range(population.workload_count):
        labels = {"app": population.name(i)}
        deployment = _object("Deployment", population, i, population.name(i), labels)
        yield deployment
        revision = _object("ReplicaSet", population, i, f"{population.name(i)}-7d4b9c6f5", labels)
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": population.name(i), "uid": uid(i)}
        revision["metadata"] |= {"uid": uid(i + (1 << 40)), "ownerReferences": [owner | {"controller": True}]}
        yield revision


def _object(kind: str, population: Population, i: int, name: str, labels: dict[str, str]) -> Tree:
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": population.namespace(i),
            "uid": uid(i),
            "resourceVersion": population.resource_version(i),
            "labels": labels,
        },
        "spec": {
            "replicas": 1 + i % 8,
            "selector": {"matchLabels": labels},
            "template": {"spec": {"containers": [{"name": "user-container", "resources": resources}]}},
        },
    }
