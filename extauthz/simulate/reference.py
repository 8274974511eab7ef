"""What is so in the simulated cluster, and what may come to be so: counted by itself, sharing nothing with the gate.

A write that a gate has allowed is a *promise* until it has landed or no longer can; only the simulation knows which.
The worst that promises can do, in whatever order they land, must fit every quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extauthz.core.model import Tree

from .judge import Charges, Key, Labels, Promise, Quota, State, View, reachable
from .server import ApiServer

DEPLOYMENTS = "/apis/apps/v1/deployments"
QUOTAS = "/apis/extauthz.dev/v1alpha1/workspacequotas"
NAMESPACES = "/api/v1/namespaces"


class ReferenceModel:
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
