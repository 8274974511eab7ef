"""Who is there: twenty workloads in five namespaces, under quotas of five trees, some of them under two roots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.controlplane.api import path_of
from tests.controlplane.plane import Plane
from tests.controlplane.workspace import workload

Tree = Any


class Quota(NamedTuple):
    """As a person would describe it."""

    hard: Mapping[str, int]
    parent: str | None = None
    labels: Mapping[str, str] | None = None


QUOTAS = {
    "acme": Quota({"pods": 14, "requests.cpu": 6}),
    "acme-dev": Quota({"pods": 9}, "acme", {"team": "acme-dev"}),
    "acme-prod": Quota({"requests.cpu": 4}, "acme", {"team": "acme-prod"}),
    "beta": Quota({"pods": 10}, None, {"team": "beta"}),
    "gamma": Quota({"requests.cpu": 5}),
    "gamma-lab": Quota({"pods": 8}, "gamma", {"team": "gamma-lab"}),
    "delta": Quota({"pods": 16}, None, {"team": "delta"}),
    "scarce": Quota({"pods": 14, "requests.cpu": 7}, None, {"scarce": "yes"}),
}
ROOTS = ("acme", "beta", "gamma", "delta", "scarce")
MOVES, MOVES_TO = "gamma-lab", ("gamma", "delta")
TEAMS = ("acme-dev", "acme-prod", "beta", "gamma-lab", "delta")
OF_SCARCE = {"acme-dev", "beta"}
"""Their workloads count under two roots."""
EACH = 4
CPU = ("250m", "500m")


def build(plane: Plane) -> list[str]:
    """Make all of it; the paths of the workloads, which have no replicas yet."""
    for name, quota in QUOTAS.items():
        plane.api.create(_object(name, quota))
    paths = []
    for team in TEAMS:
        labels = {"team": team} | ({"scarce": "yes"} if team in OF_SCARCE else {})
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team, "labels": labels}})
        for number in range(EACH):
            tree = workload(f"web-{number}", 0, {"cpu": CPU[number % len(CPU)]})
            tree["metadata"]["namespace"] = team
            plane.api.create(tree)
            paths.append(path_of("Deployment", team, f"web-{number}"))
    return paths


def _object(name: str, quota: Quota) -> Tree:
    spec: Tree = {"hard": {resource: str(amount) for resource, amount in quota.hard.items()}}
    if quota.parent is not None:
        spec["parent"] = quota.parent
    if quota.labels is not None:
        spec["namespaceSelector"] = {"matchLabels": dict(quota.labels)}
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": name}, "spec": spec}
