"""Which quotas cover a workload, and which may come to cover it: the quota tree and the labels of namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from cachetools import LRUCache

from extauthz.core.model import ANY_LABELS, Labels
from extauthz.core.objects.fields import labels_dict
from extauthz.core.quota.tree import AT_ONCE, QuotaNode, QuotaTree, Steps, finished

Nodes = tuple[QuotaNode, ...]

_CACHED_MATCHES = 16_384
"""They are dropped together, in about a millisecond."""


@dataclass(slots=True)
class Namespace:
    """What matters of a namespace for coverage."""

    labels: Mapping[str, str]
    covered: bool = field(init=False)
    """Some quota may cover some workload in it."""
    everything: Nodes | None = None
    """The quotas of all its workloads, if no candidate looks at workload labels."""


class Coverage:
    """The quota tree over the known namespaces. Answers are cached; a new tree or namespace empties the cache."""

    def __init__(self, tree: QuotaTree | None = None) -> None:
        self.tree = tree if tree is not None else QuotaTree.build(())
        self.namespaces: dict[str, Namespace] = {}
        self._selected: dict[QuotaNode, dict[str, None]] = {}
        """Names of namespaces by the quota that selects them itself."""
        self._matches: LRUCache[tuple[str, Labels], Nodes] = LRUCache(_CACHED_MATCHES)
        self._next: Coverage | None = None
        """The same namespaces under the tree that comes next."""

    def placing(self, tree: QuotaTree) -> Steps[None]:
        """Prepare ``set_tree`` in steps. What is learnt of namespaces meanwhile is in both."""
        following = self._next = Coverage(tree)
        for number, name in enumerate(list(self.namespaces)):
            if not number % AT_ONCE:
                yield
            if (namespace := self.namespaces.get(name)) is not None:
                following.set_labels(name, namespace.labels)

    def set_tree(self, tree: QuotaTree) -> None:
        """Put another quota tree in force."""
        if self._next is None or self._next.tree is not tree:
            finished(self.placing(tree))
        following, self._next = self._next, None
        assert following is not None, "it is placed"
        self.tree, self.namespaces, self._selected = tree, following.namespaces, following._selected
        self._matches = LRUCache(_CACHED_MATCHES)

    def labels(self, name: str) -> Mapping[str, str] | None:
        """The labels of a namespace; ``None``: it is not known."""
        known = self.namespaces.get(name)
        return known.labels if known is not None else None

    def set_labels(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Make a namespace known, or forget it (``None``)."""
        before = self.namespaces.pop(name, None)
        for node in self.tree.namespace_candidates(before.labels) if before is not None else ():
            del self._selected[node][name]
        if labels is not None:
            self.namespaces[name] = namespace = Namespace(labels)
            self._place(name, namespace)
        self._matches = LRUCache(_CACHED_MATCHES)
        if self._next is not None:
            self._next.set_labels(name, labels)

    def _place(self, name: str, namespace: Namespace) -> None:
        candidates = self.tree.namespace_candidates(namespace.labels)
        for node in candidates:
            self._selected.setdefault(node, {})[name] = None
        namespace.covered = bool(candidates)
        by_namespace_alone = all(node.quota.workload_selector is None for node in candidates)
        namespace.everything = self.tree.matching(namespace.labels, {}) if by_namespace_alone else None

    def selected(self, node: QuotaNode) -> tuple[str, ...]:
        """Names of namespaces that a quota selects itself, without those that its children select."""
        return tuple(self._selected.get(node, ()))

    def nodes(self, namespace: str, labels: Labels) -> Nodes:
        """Every quota that covers a workload with ``labels``, and every ancestor; none in an unknown namespace."""
        known = self.namespaces.get(namespace)
        if known is None:
            return ()
        if known.everything is not None:
            return known.everything
        key = (namespace, labels)
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = self._matching(known, labels)
        return found

    def _matching(self, namespace: Namespace, labels: Labels) -> Nodes:
        if labels == ANY_LABELS:
            return self.tree.may_cover(namespace.labels)
        return self.tree.matching(namespace.labels, labels_dict(labels))

    def may_cover(self, namespace: str) -> bool:
        """Whether some workload there may be under a quota. In an unknown namespace it may (design.md rule 6)."""
        known = self.namespaces.get(namespace)
        return known is None or known.covered

    def candidates(self, namespace: str) -> Nodes:
        """Every quota that may cover some workload there, and every ancestor; none where that is not known."""
        known = self.namespaces.get(namespace)
        return self.tree.may_cover(known.labels) if known is not None else ()


def leaves(nodes: Nodes) -> frozenset[str]:
    """Names of ``nodes`` without their ancestors."""
    parents = {node.parent for node in nodes}
    return frozenset(node.quota.name for node in nodes if node not in parents)


def changed(old: QuotaTree, new: QuotaTree) -> set[str]:
    """Roots of trees in which some quota has come or gone, or counts otherwise, by what they are or were called."""
    before, after = ({node.quota.name: node for node in tree.nodes} for tree in (old, new))
    roots: set[str] = set()
    for name in before.keys() | after.keys():
        was, now = before.get(name), after.get(name)
        if was is None or now is None or not _count_alike(was, now):
            roots |= {node.root for node in (was, now) if node is not None}
    return roots


def _count_alike(old: QuotaNode, new: QuotaNode) -> bool:
    """Whether two nodes at the same place of two trees are charged for the same workloads, in the same keys.

    Nodes stand in an order that names and parents give.
    """
    if old.quota is new.quota and old.bounds == new.bounds:
        return True  # nearly always
    alike = _COVERS_BY(old.quota) == _COVERS_BY(new.quota) and old.quota.hard.keys() == new.quota.hard.keys()
    return alike and old.bounds == new.bounds


_COVERS_BY = attrgetter("name", "parent", "namespace_selector", "workload_selector", "mode")
