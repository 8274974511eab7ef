"""What was wanted: used and reserved of every quota, had nothing been refused. No limit is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from extauthz.core.ledger.accounts import highest
from extauthz.core.ledger.coverage import Coverage, Nodes
from extauthz.core.ledger.entry import is_newer
from extauthz.core.ledger.pod_costs import count_one
from extauthz.core.model import Amounts, WorkloadRef
from extauthz.core.quota.tree import QuotaNode
from extauthz.record.reading import Ask, Load

_NONE: Amounts = {}


@dataclass(slots=True, eq=False)
class _Workload:
    ref: WorkloadRef
    replicas: int = 0
    pending: int = -1
    """The highest count that is granted and may still land."""
    above: int = -1
    """A count that the record has refused."""
    pod: Amounts = field(default_factory=dict)
    brought: Amounts = field(default_factory=dict)
    """The pod of an object that may still land."""
    beside: Amounts = field(default_factory=dict)
    covers: Amounts = field(default_factory=dict)
    labels: str = ""
    version: str = ""
    is_there: bool = False
    nodes: Nodes = ()
    """Where it is counted."""
    cost: Amounts = field(default_factory=dict)
    """As it is counted."""


def left_of(beside: Amounts, covers: Amounts, pod: Amounts, more: int) -> Amounts:
    """What is beside a workload that has so many more replicas, where these take up ``covers``."""
    if not covers or more <= 0:
        return beside
    return {key: amount - min(covers.get(key, 0), more * pod.get(key, 0)) for key, amount in beside.items()}


class Demand:
    """The sums.

    Args:
        coverage: which quotas cover a workload.
        moved: told of a quota and key, and how much is wanted of it now.
    """

    def __init__(self, coverage: Coverage, moved: Callable[[QuotaNode, str, int], None]) -> None:
        self._coverage = coverage
        self._moved = moved
        self._workloads: dict[WorkloadRef, _Workload] = {}
        self._sums: dict[QuotaNode, dict[str, int]] = {}

    def load(self, load: Load) -> None:
        """The record has seen a workload so."""
        one = self._of(load.ref)
        if one.is_there and is_newer(one.version, load.version):
            return
        if not one.is_there or load.replicas < one.replicas:
            one.above = -1
        one.replicas, one.pod, one.beside, one.covers = load.replicas, load.pod, load.beside, load.covers
        one.labels, one.version, one.is_there = load.labels, load.version, True
        one.pending, one.brought = (load.most if load.most > load.replicas else -1), load.may
        self._count(one)

    def gone(self, ref: WorkloadRef) -> None:
        """A workload is gone."""
        one = self._workloads.pop(ref, None)
        if one is not None:
            one.is_there, one.pending, one.above = False, -1, -1
            self._count(one)

    def ask(self, ask: Ask, *, is_refused: bool) -> None:
        """A question. ``is_refused``: for another reason than quotas."""
        if is_refused or ask.to is None or ask.operation == "resize":
            return
        one = self._of(ask.ref)
        is_plain = one.is_there and ask.is_allowed and ask.labels is None and one.above < 0
        if is_plain and ask.to <= max(one.replicas, one.pending):
            return  # it asks for what is counted already
        if ask.is_allowed:
            one.above, one.pending = -1, max(one.pending, ask.to)
        else:
            one.above = ask.to
        if ask.labels is not None:
            one.brought = ask.pod if ask.pod is not None else _NONE
            one.labels = one.labels if one.is_there else ask.labels
        self._count(one)

    def recount(self) -> None:
        """Quotas or labels of namespaces are others."""
        self._sums = {node: dict.fromkeys(node.hard, 0) for node in self._coverage.tree.nodes}
        for one in self._workloads.values():
            one.nodes, one.cost = (), _NONE
        for one in self._workloads.values():
            self._count(one)

    def _of(self, ref: WorkloadRef) -> _Workload:
        found = self._workloads.get(ref)
        if found is None:
            found = self._workloads[ref] = _Workload(ref)
        return found

    def _count(self, one: _Workload) -> None:
        nodes = self._coverage.nodes(one.ref.namespace, one.labels)
        cost = self._cost(one)
        for node in one.nodes if one.nodes is not nodes else ():
            self._add(node, one.cost, -1)
            self._tell(node)
        if one.nodes is nodes and cost == one.cost:
            return
        for node in nodes:
            if one.nodes is nodes:
                self._add(node, one.cost, -1)
            self._add(node, cost, 1)
            self._tell(node)
        one.nodes, one.cost = nodes, cost

    def _cost(self, one: _Workload) -> Amounts:
        count = max(one.replicas if one.is_there else -1, one.pending, one.above)
        if count < 0 or not (one.is_there or one.brought):
            return _NONE
        pod = highest((one.pod, one.brought)) if one.brought else one.pod
        cost = {key: count * each for key, each in pod.items()}
        left = left_of(one.beside, one.covers, pod, count - one.replicas)
        for each in (left, count_one(one.ref)):
            for key, amount in each.items():
                cost[key] = cost.get(key, 0) + amount
        return cost

    def _add(self, node: QuotaNode, cost: Amounts, times: int) -> None:
        sums = self._sums.setdefault(node, dict.fromkeys(node.hard, 0))
        for key in sums:
            sums[key] += times * cost.get(key, 0)

    def _tell(self, node: QuotaNode) -> None:
        for key, amount in self._sums[node].items():
            self._moved(node, key, amount)
