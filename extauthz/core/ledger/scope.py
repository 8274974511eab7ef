"""Which quotas cover a workload, and what one of its pods costs: what the ledger needs to know of everything else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cachetools import LRUCache

from extauthz.core.footprint import LimitRangeDefaults, per_claim, per_pod
from extauthz.core.model import Amounts, Labels, Template
from extauthz.core.objects.metadata import labels_dict
from extauthz.core.quota.tree import QuotaNode, QuotaTree

Nodes = tuple[QuotaNode, ...]

_CACHED_MATCHES = 65_536
_CACHED_CLAIMS = 4_096

Costs = dict[bytes, Amounts]
"""What one pod of a template costs under some limit ranges, by the template's text."""


@dataclass(slots=True)
class Namespace:
    """What of a namespace bears on quota."""

    labels: Mapping[str, str]
    costs: Costs
    """Shared by all namespaces whose limit ranges are equal."""
    covered: bool = False
    """Some quota may cover some workload in it."""
    everything: Nodes | None = None
    """The quotas of all its workloads alike, where no candidate looks at workload labels."""


@dataclass(slots=True)
class Scope:
    """The quota tree over the known namespaces. Answers are cached; a new tree or namespace starts afresh."""

    tree: QuotaTree = field(default_factory=lambda: QuotaTree.build(()))
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    overheads: dict[str, Amounts] = field(default_factory=dict)
    """RuntimeClass to what each of its pods costs besides its containers."""
    default_storage_class: str = ""
    """What claims get that name no class."""
    charge_surge: bool = False
    """Pods that a rollout may add for a while are charged beforehand (``Policy.charge_surge``)."""
    max_footprints: int = 262_144
    """Footprints that are kept by template; beyond that they are worked out anew."""
    _limit_ranges: dict[str, tuple[LimitRangeDefaults, ...]] = field(default_factory=dict)
    _costs: dict[tuple[LimitRangeDefaults, ...], Costs] = field(default_factory=dict)
    _claims: LRUCache[bytes, tuple[int, Mapping[str, Amounts]]] = field(
        default_factory=lambda: LRUCache(_CACHED_CLAIMS)
    )
    _sizes: dict[tuple[tuple[str, int], ...], Amounts] = field(default_factory=dict)
    _matches: LRUCache[tuple[str, Labels], Nodes] = field(default_factory=lambda: LRUCache(_CACHED_MATCHES))

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
            self.namespaces[name] = namespace = Namespace(labels, self._costs_under(self.limit_ranges(name)))
            self._place(namespace)
        self._matches.clear()

    def limit_ranges(self, name: str) -> tuple[LimitRangeDefaults, ...]:
        """Those of a namespace, known or not: they may be heard of first."""
        return self._limit_ranges.get(name, ())

    def set_limit_ranges(self, name: str, ranges: Sequence[LimitRangeDefaults]) -> None:
        """Replace those of a namespace."""
        self._limit_ranges.pop(name, None)
        if ranges:
            self._limit_ranges[name] = tuple(ranges)
        if name in self.namespaces:
            self.namespaces[name].costs = self._costs_under(tuple(ranges))

    def set_overhead(self, runtime_class: str, overhead: Amounts | None) -> None:
        """Replace what a RuntimeClass adds to each of its pods, or forget it (``None``)."""
        self.overheads.pop(runtime_class, None)
        if overhead is not None:
            self.overheads[runtime_class] = overhead
        self._forget_costs()

    def set_default_storage_class(self, name: str) -> None:
        """Replace the class of claims that name none."""
        self.default_storage_class = name
        self._forget_costs()

    def _costs_under(self, ranges: tuple[LimitRangeDefaults, ...]) -> Costs:
        """The table that all namespaces of equal limit ranges share; those of ranges that are no more are dropped."""
        if len(self._costs) > 2 * len(self._limit_ranges) + 1:
            used = {(), *self._limit_ranges.values()}
            self._costs = {key: costs for key, costs in self._costs.items() if key in used}
        return self._costs.setdefault(ranges, {})

    def _forget_costs(self) -> None:
        for costs in self._costs.values():
            costs.clear()
        self._claims.clear()
        self._sizes.clear()

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

    def per_pod(self, namespace: str, template: Template) -> Amounts:
        """What one pod costs, nano-units by quota key.

        Raises:
            FootprintError: the template is none that the API server would accept.
        """
        known = self.namespaces.get(namespace)
        costs = known.costs if known is not None else self._costs_under(())
        cost = costs.get(template.text)
        if cost is None:
            if len(costs) >= self.max_footprints:
                costs.clear()
                self._sizes.clear()
            cost = costs[template.text] = self._share(
                per_pod(
                    json.loads(template.text),
                    self.limit_ranges(namespace) if known is not None else (),
                    overheads=self.overheads,
                    default_storage_class=self.default_storage_class,
                )
            )
        return cost

    def claims(self, template: Template) -> tuple[int, Mapping[str, Amounts]]:
        """A StatefulSet's first ordinal, and what a claim of each of its claim templates costs, by name.

        Raises:
            FootprintError: the template is none that the API server would accept.
        """
        found = self._claims.get(template.text)
        if found is None:
            found = self._claims[template.text] = per_claim(json.loads(template.text), self.default_storage_class)
        return found

    def _share(self, cost: dict[str, int]) -> Amounts:
        """The same object for equal amounts: templates are many, sizes of pods are few."""
        return self._sizes.setdefault(tuple(sorted(cost.items())), cost)
