"""The reference model: what is so in the simulated cluster, and what may come to be. It shares nothing with gates.

A write that a gate has allowed is a *promise* until it has landed or no longer can; only the simulation knows which.
The worst that promises can do, in whatever order they land, must fit every quota.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from itertools import count, takewhile

from extauthz.core.model import Tree
from tests.worlds.judge import Charges, Key, Labels, Members, Promise, Quota, State, View, left_by, reachable
from tests.worlds.objects import CLAIM_GI, COLLECTIONS, KINDS, REPLICA_SET, kind_of, milli, word_of, workload_of
from tests.worlds.server import ApiServer

QUOTAS = "/apis/extauthz.dev/v1alpha1/workspacequotas"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLAIMS = "/api/v1/persistentvolumeclaims"

COUNTED = frozenset((*COLLECTIONS, CLAIMS))
"""Collections whose objects all cost something."""


class ReferenceModel:
    """Reads the API server's own state."""

    def __init__(self, server: ApiServer, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._server = server
        self._clock = clock
        self._overridden: dict[str, Tree] = {}
        self._taken_back: deque[tuple[float, str, Tree]] = deque(maxlen=16)
        """Quotas with overrides that are no more: when they went, and what they were."""
        self.promises: dict[str, Promise] = {}
        """Promises by decision."""
        self._left_behind: tuple[int, dict[Key, State]] = (-1, {})
        """As of a version."""

    def quotas(self) -> dict[str, Quota]:
        """By name."""
        there = {name: tree for (_, name), tree in self._server.objects(QUOTAS).items()}
        for name, tree in self._overridden.items():
            if there.get(name) is not tree:
                self._taken_back.append((self._clock(), name, tree))
        self._overridden = {name: tree for name, tree in there.items() if tree["spec"].get("overrides")}
        return self._quotas(self._clock())

    def _quotas(self, at_s: float) -> dict[str, Quota]:
        return {name: quota(tree, at_s) for (_, name), tree in self._server.objects(QUOTAS).items()}

    def workloads(self) -> dict[Key, State]:
        """Everything that exists, claims that were left behind included."""
        return {key: self.state(key, tree) for key, tree in self._trees()} | self._left()

    def workload(self, key: Key) -> State | None:
        """One workload; ``None``: it does not exist."""
        tree = self._server.objects(kind_of(key).collection).get(key)
        return self.state(key, tree) if tree is not None and owner(tree) is None else None

    def _trees(self) -> Iterable[tuple[Key, Tree]]:
        for collection in COLLECTIONS:
            for key, tree in self._server.objects(collection).items():
                if owner(tree) is None:
                    yield key, tree

    def _left(self) -> dict[Key, State]:
        """Claims of StatefulSets that are gone. They count by their own labels."""
        if self._left_behind[0] != self._server.version:
            self._left_behind = self._server.version, self._find_left()
        return self._left_behind[1]

    def _find_left(self) -> dict[Key, State]:
        there = self._server.objects(KINDS["sts"].collection)
        claims: dict[Key, list[Tree]] = {}
        for key, tree in self._server.objects(CLAIMS).items():
            if workload_of(key) not in there:
                claims.setdefault(workload_of(key), []).append(tree)
        return {left_by(key): _of_claims(some) for key, some in claims.items()}

    def left(self, key: Key) -> State | None:
        """The claims that a StatefulSet has left behind; ``None``: there are none, or it is there."""
        return self._left().get(left_by(key))

    def given(self) -> dict[Key, Key]:
        """ReplicaSets that were given to a workload, each with that."""
        sets = self._server.objects(REPLICA_SET.collection).items()
        return {key: (key[0], by) for key, tree in sets if word_of(key[1]) == "rs" and (by := owner(tree))}

    def state(self, key: Key, tree: Tree) -> State:
        """A workload as an object has it."""
        spec = tree["spec"]
        main, *side = _requested(tree)
        claims = spec.get("volumeClaimTemplates", ())
        size = sum(_amount("requests.storage", one["spec"]["resources"]["requests"]["storage"]) for one in claims)
        return State(spec["replicas"], main, _labels(tree).get("tier", ""), size, self._members(key), sum(side))

    def _members(self, key: Key) -> Members:
        namespace, name = key
        if word_of(name) == "sts":
            held = self._server.objects(CLAIMS)
            return Members(claims=sum(1 for _ in takewhile(lambda n: (namespace, f"data-{name}-{n}") in held, count())))
        if word_of(name) == "roll":
            sets = self._server.objects(REPLICA_SET.collection).items()
            owned = [(own, tree) for (within, own), tree in sets if within == namespace and owner(tree) == name]
            shown = [(own, tree["spec"]["replicas"], sum(_requested(tree))) for own, tree in owned]
            running = sorted(one[1:] for one in shown if one[1] and word_of(one[0]) == "roll")
            return Members(
                running=tuple(running),
                given=tuple(sorted(one[1:] for one in shown if one[1] and word_of(one[0]) == "rs")),
            )
        return Members()

    def view(self) -> View:
        """The quotas in force now."""
        return self._view(self._clock())

    def views_near(self, within_s: float) -> list[View]:
        """As they were and will be so near to now, where something changes by itself; also by overrides that were taken
        back a moment ago."""
        now_s = self._clock()
        found = self._near(self._view, self._server.objects(QUOTAS).values(), within_s)
        for at_s, name, tree in self._taken_back:
            if now_s - at_s <= 2 * within_s:
                found += self._near(partial(self._view_with, name, tree), [tree], within_s)
        return found

    def _near(self, view: Callable[[float], View], trees: Iterable[Tree], within_s: float) -> list[View]:
        now_s = self._clock()
        given = [one for tree in trees for one in tree["spec"].get("overrides", ())]
        edges = sorted({_seconds(one[edge]) for one in given for edge in ("from", "until")})
        near = [edge_s for edge_s in edges if abs(edge_s - now_s) <= within_s]
        return [view(at_s) for at_s in (now_s - within_s, *near)] if near else []

    def _view_with(self, name: str, tree: Tree, at_s: float) -> View:
        view = self._view(at_s)
        return view._replace(quotas={**view.quotas, name: quota(tree, at_s)})

    def _view(self, at_s: float) -> View:
        namespaces = {name: _labels(tree) for (_, name), tree in self._server.objects(NAMESPACES).items()}
        return View(self._quotas(at_s), namespaces, {})

    def charges(self) -> Charges:
        """What is in use now."""
        return self.view().total({key: [one] for key, one in self.workloads().items()})

    def worst(self, promises: Iterable[Promise] | None = None) -> Charges:
        """The most that may be in use, whichever promises land."""
        return self.view().total(self.reachable(promises))

    def reachable(
        self, promises: Iterable[Promise] | None = None, tiers: Mapping[Key, str] | None = None
    ) -> dict[Key, set[State]]:
        """What each workload may be like, whichever promises land; ``tiers`` instead of labels that are there."""
        by_key: dict[Key, list[Promise]] = {key: [] for key, _ in self._trees()}
        for promise in self.promises.values() if promises is None else promises:
            by_key.setdefault(promise.key, []).append(promise)
        found = {key: self._reachable_of(key, some, (tiers or {}).get(key)) for key, some in by_key.items()}
        return found | {key: {one} for key, one in self._left().items()}

    def _reachable_of(self, key: Key, promises: list[Promise], label: str | None) -> set[State]:
        first = self.workload(key)
        if first is None:
            return reachable(None, "", promises)
        version = self._server.objects(kind_of(key).collection)[key]["metadata"]["resourceVersion"]
        return reachable(first._replace(tier=label or first.tier), version, promises)


def owner(tree: Tree) -> str | None:
    """Name of the workload that an object was made for, or given to, and that selects it; ``None``: it stands alone."""
    owners = tree["metadata"].get("ownerReferences")
    return owners[0]["name"] if owners and _labels(tree).get("app") == owners[0]["name"] else None


def _requested(tree: Tree) -> list[int]:
    """Of each container, in thousandths of a CPU."""
    return [milli(one["resources"]["requests"]["cpu"]) for one in tree["spec"]["template"]["spec"]["containers"]]


def _of_claims(claims: list[Tree]) -> State:
    return State(0, 0, _labels(claims[0]).get("tier", ""), CLAIM_GI, Members(claims=len(claims)))


def quota(tree: Tree, at_s: float) -> Quota:
    """A WorkspaceQuota as it is written, at a time."""
    spec = tree["spec"]
    for one in spec.get("overrides", ()):
        if _seconds(one["from"]) <= at_s < _seconds(one["until"]):
            spec = {**spec, **{field: {**spec.get(field, {}), **one[field]} for field in ("hard", "guaranteed")}}
    name, parent = tree["metadata"]["name"], spec.get("parent") or ""
    namespaces = spec.get("namespaceSelector", {"matchLabels": {"workspace": name}}).get("matchLabels")
    workloads = (spec.get("workloadSelector") or {}).get("matchLabels") or {}
    hard, guaranteed = (
        {key: _amount(key, value) for key, value in spec.get(field, {}).items()} for field in ("hard", "guaranteed")
    )
    return Quota(name, parent, namespaces, workloads, hard, guaranteed)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _amount(key: str, value: str) -> int:
    if key == "requests.cpu":
        return milli(value)
    return int(value.removesuffix("Gi"))


def _labels(tree: Tree) -> Labels:
    labels: Labels = tree["metadata"].get("labels") or {}
    return labels
