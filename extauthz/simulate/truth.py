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

Labels = Mapping[str, str]

Charges = dict[tuple[str, str], int]
"""(quota, key) to an amount."""

Amounts = Mapping[str, int]
"""Quota key to an amount: CPU in thousandths, pods and objects by count."""


class State(NamedTuple):
    """A Deployment, as far as it costs."""

    replicas: int
    cpu_m: int
    tier: str
    """Its own label, by which quotas select."""

    def amounts(self) -> Amounts:
        """What it costs."""
        return {
            "pods": self.replicas,
            "requests.cpu": self.replicas * self.cpu_m,
            "count/deployments.apps": 1,
        }


class Promise(NamedTuple):
    """A write that was allowed and may still land. ``None``: it leaves that as it is."""

    key: Key
    replicas: int | None
    cpu_m: int | None
    tier: str | None = None
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


class View(NamedTuple):
    """What says in which quotas a Deployment counts, as it is or as it was."""

    quotas: Mapping[str, Quota]
    namespaces: Mapping[str, Labels]
    tiers: Mapping[Key, str]
    """Labels of Deployments, where they are not what they are now."""

    def covering(self, namespace: str, tier: str) -> set[str]:
        """Names of the quotas that a Deployment counts in: those that select it, and all above them."""
        found: set[str] = set()
        labels = self.namespaces.get(namespace)
        for one in self.quotas.values():
            if labels is None or one.namespaces is None or not _meets(labels, one.namespaces):
                continue
            name = one.name if _meets({"tier": tier}, one.workloads) else ""
            while name and name not in found:
                found.add(name)
                name = self.quotas[name].parent if self.quotas[name].parent in self.quotas else ""
        return found

    def total(self, states: Mapping[Key, Iterable[State]]) -> Charges:
        """(quota, key) to the most that is in use, whichever of its states each Deployment is in."""
        totals = {(name, resource): 0 for name, one in self.quotas.items() for resource in one.hard}
        for (namespace, _), some in states.items():
            top: Charges = {}
            for one in some:
                amounts = one.amounts()
                for name in self.covering(namespace, one.tier):
                    for resource in self.quotas[name].hard:
                        at = name, resource
                        top[at] = max(amounts.get(resource, 0), top.get(at, 0))
            for at, amount in top.items():
                totals[at] += amount
        return totals


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

    def view(self) -> View:
        """What is in force now."""
        namespaces = {name: _labels(tree) for (_, name), tree in self._server.objects(NAMESPACES).items()}
        return View(self.quotas(), namespaces, {})

    def charges(self) -> Charges:
        """What is in use."""
        return self.view().total({key: [one] for key, one in self.workloads().items()})

    def worst(self, promises: Iterable[Promise] | None = None) -> Charges:
        """The most that may be in use, whichever promises land."""
        return self.view().total(self.reachable(promises))

    def reachable(
        self, promises: Iterable[Promise] | None = None, tiers: Mapping[Key, str] | None = None
    ) -> dict[Key, set[State]]:
        """What each Deployment may be like, whichever promises land; ``tiers`` instead of labels that are there."""
        by_key: dict[Key, list[Promise]] = {key: [] for key in self._server.objects(DEPLOYMENTS)}
        for promise in self.promises.values() if promises is None else promises:
            by_key.setdefault(promise.key, []).append(promise)
        return {key: self._reachable_of(key, some, (tiers or {}).get(key)) for key, some in by_key.items()}

    def _reachable_of(self, key: Key, promises: list[Promise], label: str | None) -> set[State]:
        tree = self._server.objects(DEPLOYMENTS).get(key)
        if tree is None:
            return reachable(None, "", promises)
        first = state(tree)
        return reachable(first._replace(tier=label or first.tier), tree["metadata"]["resourceVersion"], promises)


def reachable(first: State | None, version: str, promises: Iterable[Promise]) -> set[State]:
    """Every state that some order of landings leads through. A count and a price that were not promised together can
    only meet if one of both was promised alone, or was there."""
    here: set[State | None] = {first}
    for one in promises:
        if one.only_on and one.only_on == version:  # it can only be the first to land
            here.add(landed(first, one))
    free = [one for one in promises if not one.only_on]
    todo = list(here)
    while todo:
        at = todo.pop()
        for one in free:
            after = landed(at, one)
            if after not in here:
                here.add(after)
                todo.append(after)
    return {one for one in here if one is not None}


def landed(at: State | None, promise: Promise) -> State | None:
    """What a Deployment is once a write has landed on it; ``None``: there is none."""
    if at is None or promise.creates:
        if at is not None or not promise.creates:
            return at
        return State(promise.replicas or 0, promise.cpu_m or 0, promise.tier or "")
    return State(
        at.replicas if promise.replicas is None else promise.replicas,
        at.cpu_m if promise.cpu_m is None else promise.cpu_m,
        at.tier if promise.tier is None else promise.tier,
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
    return State(tree["spec"]["replicas"], price, _labels(tree).get("tier", ""))


def tier(name: str) -> str:
    """The label that Deployments of this world are made with, by their names."""
    return name.split("-", 1)[0]


def _amount(key: str, value: str) -> int:
    if key != "requests.cpu":
        return int(value)
    return int(value[:-1]) if value.endswith("m") else int(value) * 1000


def _labels(tree: Tree) -> Labels:
    labels: Labels = tree["metadata"].get("labels") or {}
    return labels


def _meets(labels: Labels, wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
