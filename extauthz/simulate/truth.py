"""What is so in the simulated cluster, and what may come to be so: counted by itself, sharing nothing with the gate.

A write that a gate has allowed is a *promise* until it has landed or no longer can; only the simulation knows which.
The worst that promises can do, in whatever order they land, must fit every quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from extauthz.core.model import Tree

from .server import ApiServer, Key

DEPLOYMENTS = "/apis/apps/v1/deployments"
QUOTAS = "/apis/extauthz.dev/v1alpha1/workspacequotas"
NAMESPACES = "/api/v1/namespaces"

Amounts = Mapping[str, int]
"""Quota key to an amount: CPU in thousandths, pods and objects by count."""


class State(NamedTuple):
    """A Deployment, as far as it costs."""

    replicas: int
    cpu_m: int

    def amounts(self) -> Amounts:
        """What it costs."""
        return {
            "pods": self.replicas,
            "requests.cpu": self.replicas * self.cpu_m,
            "count/deployments.apps": 1,
        }


class Promise(NamedTuple):
    """A write that was allowed and may still land."""

    key: Key
    replicas: int | None
    """``None``: it leaves the count as it is."""
    cpu_m: int | None
    creates: bool = False
    only_on: str = ""
    """The resourceVersion without which it is refused."""


class Quota(NamedTuple):
    """A WorkspaceQuota."""

    name: str
    parent: str
    namespaces: Mapping[str, str] | None
    workloads: Mapping[str, str]
    hard: Amounts


class Truth:
    """Reads the API server's own state."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.promises: dict[str, Promise] = {}
        """By decision."""

    def quotas(self) -> dict[str, Quota]:
        """By name."""
        return {name: quota(tree) for (_, name), tree in self._server.objects(QUOTAS).items()}

    def workloads(self) -> dict[Key, State]:
        """What there is."""
        return {key: state(tree) for key, tree in self._server.objects(DEPLOYMENTS).items()}

    def charges(self) -> dict[tuple[str, str], int]:
        """(quota, key) to what is in use."""
        return self._sum({key: one.amounts() for key, one in self.workloads().items()})

    def worst(self, promises: Iterable[Promise] | None = None) -> dict[tuple[str, str], int]:
        """(quota, key) to the most that may be in use, whichever promises land."""
        by_key: dict[Key, list[Promise]] = {key: [] for key in self._server.objects(DEPLOYMENTS)}
        for promise in self.promises.values() if promises is None else promises:
            by_key.setdefault(promise.key, []).append(promise)
        return self._sum({key: self._worst_of(key, some) for key, some in by_key.items()})

    def _worst_of(self, key: Key, promises: list[Promise]) -> Amounts:
        tree = self._server.objects(DEPLOYMENTS).get(key)
        first = state(tree) if tree is not None else None
        version = tree["metadata"]["resourceVersion"] if tree is not None else ""
        top: dict[str, int] = {}
        for one in reachable(first, version, promises):
            for name, amount in one.amounts().items():
                top[name] = max(amount, top.get(name, 0))
        return top

    def _sum(self, amounts: Mapping[Key, Amounts]) -> dict[tuple[str, str], int]:
        quotas = self.quotas()
        totals = {(name, resource): 0 for name, one in quotas.items() for resource in one.hard}
        for key, each in amounts.items():
            for name in self.covering(key, quotas):
                for resource in quotas[name].hard:
                    totals[name, resource] += each.get(resource, 0)
        return totals

    def covering(self, key: Key, quotas: Mapping[str, Quota]) -> set[str]:
        """Names of the quotas that a Deployment counts in: those that select it, and all above them."""
        namespace = self._server.objects(NAMESPACES).get(("", key[0]))
        tree = self._server.objects(DEPLOYMENTS).get(key)
        own = _labels(tree) if tree is not None else {"tier": tier(key[1])}
        found: set[str] = set()
        for one in quotas.values():
            if namespace is None or one.namespaces is None or not _meets(_labels(namespace), one.namespaces):
                continue
            name = one.name if _meets(own, one.workloads) else ""
            while name and name not in found:
                found.add(name)
                name = quotas[name].parent if quotas[name].parent in quotas else ""
        return found


def reachable(first: State | None, version: str, promises: Iterable[Promise]) -> set[State]:
    """Every state that some order of landings leads through. A count and a price that were not promised together can
    only meet if one of both was promised alone, or was there."""
    here: set[State | None] = {first}
    for one in promises:
        if one.only_on and one.only_on == version:  # it can only be the first to land
            here.add(_landed(first, one))
    free = [one for one in promises if not one.only_on]
    todo = list(here)
    while todo:
        at = todo.pop()
        for one in free:
            after = _landed(at, one)
            if after not in here:
                here.add(after)
                todo.append(after)
    return {one for one in here if one is not None}


def _landed(at: State | None, promise: Promise) -> State | None:
    if at is None or promise.creates:
        if at is not None or not promise.creates:
            return at
        return State(promise.replicas or 0, promise.cpu_m or 0)
    return State(
        at.replicas if promise.replicas is None else promise.replicas,
        at.cpu_m if promise.cpu_m is None else promise.cpu_m,
    )


def quota(tree: Tree) -> Quota:
    """A WorkspaceQuota as it is written."""
    spec = tree["spec"]
    namespaces = (spec.get("namespaceSelector") or {}).get("matchLabels")
    workloads = (spec.get("workloadSelector") or {}).get("matchLabels") or {}
    hard = {key: _amount(key, value) for key, value in spec["hard"].items()}
    return Quota(tree["metadata"]["name"], spec.get("parent") or "", namespaces, workloads, hard)


def state(tree: Tree) -> State:
    """A Deployment as it is written."""
    containers = tree["spec"]["template"]["spec"]["containers"]
    price = sum(_amount("requests.cpu", one["resources"]["requests"]["cpu"]) for one in containers)
    return State(tree["spec"]["replicas"], price)


def tier(name: str) -> str:
    """The label that Deployments of this world have, by their names."""
    return name.split("-", 1)[0]


def _amount(key: str, value: str) -> int:
    if key != "requests.cpu":
        return int(value)
    return int(value[:-1]) if value.endswith("m") else int(value) * 1000


def _labels(tree: Tree) -> Mapping[str, str]:
    labels: Mapping[str, str] = tree["metadata"].get("labels") or {}
    return labels


def _meets(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
