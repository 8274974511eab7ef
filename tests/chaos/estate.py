"""Who is there: twenty workloads in five namespaces, under quotas of five trees, some of them under two roots."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import httpx

from tests.controlplane.api import MERGE, Api, RefusedError, path_of
from tests.controlplane.load import Together
from tests.controlplane.plane import Plane
from tests.controlplane.sites import Sites
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
    spec: Tree = {"hard": {resource: str(amount) for resource, amount in quota.hard.items()}, "mode": "Enforce"}
    if quota.parent is not None:
        spec["parent"] = quota.parent
    if quota.labels is not None:
        spec["namespaceSelector"] = {"matchLabels": dict(quota.labels)}
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": name}, "spec": spec}


JSON_PATCH = "application/json-patch+json"
MOST = 6
"""Replicas that one asks for at most."""
PAUSE_S = (0.05, 0.6)


class Scalers(Together):
    """A context manager: they work from enter to exit.

    Args:
        workloads: paths of Deployments.
        past_envoy: how many of them, as a part of all, write to the API server directly.
    """

    def __init__(
        self, sites: Sites, workloads: Sequence[str], number: int, seed: int, *, past_envoy: float = 0.0
    ) -> None:
        self.said: Counter[str] = Counter()
        """What they were answered."""
        self._sites, self._workloads, self._seed = sites, workloads, seed
        self._direct = round(number * past_envoy)
        self._lock = threading.Lock()
        super().__init__(*(partial(self._scale, each) for each in range(number)))

    def _scale(self, number: int) -> None:
        choose = random.Random(f"{self._seed}-{number}")
        write = (_as_knative, _as_hpa, _as_kubectl)[number % 3]
        if number < self._direct:
            client = Api(self._sites.plane.url, self._sites.plane.tls, self._sites.token)
        else:
            client = self._sites[number % len(list(self._sites))].client(self._sites.token)
        try:
            while not self._stop.is_set():
                self._count(_said(write, client, choose.choice(self._workloads), choose.randint(0, MOST)))
                self._stop.wait(choose.uniform(*PAUSE_S))
        finally:
            client.close()

    def _count(self, said: str) -> None:
        with self._lock:
            self.said[said] += 1


def _said(write: Any, client: Api, path: str, replicas: int) -> str:
    try:
        write(client, path, replicas)
    except RefusedError as error:
        return f"{error.code}"
    except httpx.HTTPError as error:
        return type(error).__name__
    return "200"


def _as_knative(client: Api, path: str, replicas: int) -> None:
    """Whatever is there."""
    patch = [{"op": "add", "path": "/spec/replicas", "value": replicas}]
    client.call("PATCH", f"{path}/scale", json.dumps(patch).encode(), JSON_PATCH)


def _as_hpa(client: Api, path: str, replicas: int) -> None:
    """Only upon what it has read."""
    scale = client.call("GET", f"{path}/scale")
    scale["spec"]["replicas"] = replicas
    client.call("PUT", f"{path}/scale", scale)


def _as_kubectl(client: Api, path: str, replicas: int) -> None:
    client.call("PATCH", f"{path}/scale", {"spec": {"replicas": replicas}}, MERGE)
