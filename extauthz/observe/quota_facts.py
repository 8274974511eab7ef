"""What the gate knows of each WorkspaceQuota, gathered for its status without holding up a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.accounts import Covered, UsageRow
from extauthz.core.quota.standing import Standing
from extauthz.core.quota.tree import QuotaNode, QuotaTree
from extauthz.observe.quota_status import Facts, Selected

SLICE = 200
"""Rows, quotas or namespaces looked at in one go: about a millisecond, which is the most that a decision waits."""

_NO_ROWS: Sequence[UsageRow] = ()

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Survey:
    """All quotas of a gate as they were while it was taken."""

    nodes: Mapping[str, QuotaNode]
    rows: Mapping[str, Sequence[UsageRow]]
    coverage: Mapping[str, Covered]
    above_parent: Mapping[str, tuple[str, ...]]
    parents: frozenset[str]
    """Those that have children."""
    selecting: frozenset[str]
    """Those whose namespaceSelector matches some namespace."""

    def facts(self, standing: Standing) -> Facts:
        """What the status of one object depends on."""
        name = standing.name
        node = self.nodes.get(name)
        coverage = self.coverage.get(name)
        if node is None or coverage is None:
            return Facts(standing)
        return Facts(
            standing=standing,
            rows=tuple(self.rows.get(name, _NO_ROWS)),
            mode=node.quota.mode,
            above_parent=self.above_parent.get(name, ()),
            selected=self._selected(node, coverage),
            unpriced=coverage.unpriced,
        )

    def _selected(self, node: QuotaNode, coverage: Covered) -> Selected:
        if coverage.workloads:
            return Selected.WORKLOADS
        if node.quota.namespace_selector is None:
            return Selected.CHILDREN if node.quota.name in self.parents else Selected.NOBODY
        if node.quota.name not in self.selecting:
            return Selected.NO_NAMESPACE
        return Selected.NO_WORKLOAD if node.quota.workload_selector is None else Selected.NO_LABELLED_WORKLOAD


async def survey(gate: Gate) -> Survey:
    """Look at all quotas, letting decisions pass in between: different quotas may be as of different moments."""
    ledger = gate.ledger
    tree = ledger.coverage.tree
    rows: dict[str, list[UsageRow]] = {}
    for row in await in_slices(ledger.usage.rows()):
        rows.setdefault(row.quota, []).append(row)
    above: dict[str, tuple[str, ...]] = {}
    for warning in tree.warnings:
        above[warning.quota] = (*above.get(warning.quota, ()), str(warning.problem))
    return Survey(
        nodes={node.quota.name: node for node in tree.nodes},
        rows=rows,
        coverage={one.quota: one for one in await in_slices(ledger.usage.covered())},
        above_parent=above,
        parents=frozenset(node.parent.quota.name for node in tree.nodes if node.parent is not None),
        selecting=await _selecting(tree, [namespace.labels for namespace in ledger.coverage.namespaces.values()]),
    )


async def _selecting(tree: QuotaTree, namespaces: Sequence[Mapping[str, str]]) -> frozenset[str]:
    found = await in_slices(tree.namespace_candidates(labels) for labels in namespaces)
    return frozenset(node.quota.name for candidates in found for node in candidates)


async def in_slices(items: Iterable[Item]) -> list[Item]:
    """The items as a list, with a chance for others to run after each ``SLICE`` of them."""
    taken = []
    for number, item in enumerate(items, 1):
        taken.append(item)
        if number % SLICE == 0:
            await asyncio.sleep(0)
    return taken
