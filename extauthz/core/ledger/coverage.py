"""Which quotas cover a workload, and whom one may come to cover: the quota tree over the labels of namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cachetools import LRUCache

from extauthz.core.model import Labels
from extauthz.core.objects.metadata import labels_dict
from extauthz.core.quota.tree import QuotaNode, QuotaTree

Nodes = tuple[QuotaNode, ...]

_CACHED_MATCHES = 65_536


@dataclass(slots=True)
class Namespace:
    """What of a namespace bears on coverage."""

    labels: Mapping[str, str]
    covered: bool = False
    """Some quota may cover some workload in it."""
    everything: Nodes | None = None
    """The quotas of all its workloads alike, where no candidate looks at workload labels."""


class Coverage:
    """The quota tree over the known namespaces. Answers are cached; a new tree or namespace starts afresh."""

    def __init__(self) -> None:
        self.tree = QuotaTree.build(())
        self.namespaces: dict[str, Namespace] = {}
        self._matches: LRUCache[tuple[str, Labels], Nodes] = LRUCache(_CACHED_MATCHES)

    def set_tree(self, tree: QuotaTree) -> None:
        """Put another quota tree in force."""
        self.tree = tree
        for namespace in self.namespaces.values():
            self._place(namespace)
        self._matches.clear()

    def labels(self, name: str) -> Mapping[str, str] | None:
        """The labels of a namespace; ``None``: it is not known."""
        known = self.namespaces.get(name)
        return known.labels if known is not None else None

    def set_labels(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Make a namespace known, or forget it (``None``)."""
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = namespace = Namespace(labels)
            self._place(namespace)
        self._matches.clear()

    def _place(self, namespace: Namespace) -> None:
        candidates = self.tree.namespace_candidates(namespace.labels)
        namespace.covered = bool(candidates)
        by_namespace_alone = all(node.quota.workload_selector is None for node in candidates)
        namespace.everything = self.tree.matching(namespace.labels, {}) if by_namespace_alone else None

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
            found = self._matches[key] = self.tree.matching(known.labels, labels_dict(labels))
        return found

    def may_cover(self, namespace: str) -> bool:
        """Whether some workload there can be under a quota. An unknown namespace may (docs/design.md rule 6)."""
        known = self.namespaces.get(namespace)
        return known is None or known.covered

    def candidates(self, namespace: str) -> Nodes:
        """Every quota that may cover some workload there, and every ancestor; none where that is not known."""
        known = self.namespaces.get(namespace)
        return self.tree.may_cover(known.labels) if known is not None else ()
