"""A read-only view of the ledger: who uses what, how much more fits, what pends. Asking changes and reserves nothing.

Nothing is copied that was not asked for. What may be long comes as an iterator, so that a caller on the event loop can
let decisions pass in between; what it then shows is of different moments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.ledger.entry import Entry, PendingWrite
from extauthz.core.ledger.ledger import Ledger, Proposal
from extauthz.core.ledger.line import Seen
from extauthz.core.model import NO_PRECONDITION, Amounts, Decision, Observed, Shortage, WorkloadRef
from extauthz.core.objects.fields import MAX_REPLICAS
from extauthz.core.quota.tree import QuotaNode, QuotaTree, TreeProblem


class QuotaUse(NamedTuple):
    """One quota. Its parents and children are in ``node`` and in the order of the tree."""

    node: QuotaNode
    rows: tuple[UsageRow, ...]
    """Used, reserved and hard of each key, nano-units."""
    workloads: int
    """Those that are charged by themselves, descendants' included: a ReplicaSet of a Deployment is not."""
    unpriced: int
    """Those among them whose cost is not known."""
    namespaces: tuple[str, ...]
    """Those that its own ``namespaceSelector`` selects."""
    waiting: int | None = None
    """How many wait in line for it; ``None``: its tree has no turns."""

    @property
    def selects_namespace(self) -> bool:
        """Whether there is one."""
        return bool(self.namespaces)


class WorkloadUse(NamedTuple):
    """What is charged for one workload, with all that it covers (ReplicaSets, pods, claims). Nano-units by key."""

    ref: WorkloadRef
    replicas: int
    """Observed."""
    used: Amounts
    reserved: Amounts
    """What writes that pend may add. Zeros are left out."""
    is_priced: bool
    """Its cost is known."""


class Headroom(NamedTuple):
    """How many replicas a workload may have. A look, and no promise: it reserves nothing."""

    replicas: int | None
    """The most that fit, and no less than are observed; ``None``: no quota sets a bound."""
    bound: Shortage | None
    """What one replica more would lack; ``None``: nothing."""
    observed: int
    version: str
    """The resourceVersion that was looked at; empty where it was never observed."""
    is_certain: bool
    """Every cost, usage and limit that it rests on is known. If not, growth is refused unless a setting allows it."""
    audited: int | None = None
    """The most that would fit if quotas in mode Audit refused, where that is less; ``None``: it is not."""
    audits: Shortage | None = None
    """With that, what one replica more would lack of such a quota."""
    guaranteed: int | None = None
    """Up to this count, of those that fit, it takes only room that is kept for it; ``None``: none is, as far as can be
    told."""
    refused: Decision | None = None
    """What one replica more would get, where it was asked (``fitting``); ``None``: it would be granted."""


class WouldGrow(NamedTuple):
    """What a count would meet now."""

    observed: int
    shortages: tuple[Shortage, ...]
    """What quotas have too little of; empty: it fits."""
    fits: int | None
    """The largest count that fits in its place; ``None``: it fits, or none can be named."""
    never_fits: bool
    """What it would come to by itself is more than a limit."""
    is_certain: bool
    """As of ``Headroom``."""


class Ceiling(NamedTuple):
    """What a count can never come to: by itself it takes more than a quota may ever give it."""

    fits: int
    """The most replicas that would fit if nothing else was used."""
    quota: str
    resource: str
    needs: int
    """What the count takes, nano-units."""
    most: int
    """The most that it may ever have of it, nano-units."""


class Queries:
    """Answers from one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._names: tuple[QuotaTree | None, Mapping[str, QuotaNode]] = (None, {})
        """Quotas by name, made when somebody asks, once a tree."""

    # Quotas.

    def quota(self, name: str) -> QuotaUse | None:
        """One quota; ``None``: no quota has that name."""
        return next(self.quotas(name), None)

    def quotas(self, below: str | None = None, after: str | None = None) -> Iterator[QuotaUse]:
        """All quotas, each after its parent; or one and all below it, if there is one of that name.

        ``after``: only those that follow that quota. If it is gone, none does.

        Those that are in force now: if others come into force before the last was asked for, none of these is seen.
        """
        accounts, turns, selected = self._ledger.usage.accounts, self._ledger.turns, self._ledger.coverage.selected
        for node in self._following(below, after):
            workloads, unpriced = accounts.covered_by(node)
            waiting = turns.number(node) if node.root in turns.lines else None
            yield QuotaUse(node, tuple(accounts.rows_of(node)), workloads, unpriced, selected(node), waiting)

    def _following(self, below: str | None, after: str | None) -> Iterator[QuotaNode]:
        tree, last = self._ledger.coverage.tree, self._node(after) if after is not None else None
        if after is not None and last is None:
            return iter(())
        if below is None:
            return tree.since(last.index + 1 if last is not None else 0)
        top = self._node(below)
        return tree.below(top, last) if top is not None else iter(())

    def names(self, below: str | None = None) -> Iterator[str]:
        """Names of all quotas, or of one and all below it."""
        nodes = self._ledger.coverage.tree.nodes if below is None else self._subtree(below)
        return (node.quota.name for node in nodes)

    def namespaces(self, quota: str) -> list[str]:
        """Those that a quota or one below it selects."""
        selected = self._ledger.coverage.selected
        return list({name: None for node in self._subtree(quota) for name in selected(node)})

    def selected(self, use: QuotaUse) -> dict[str, Mapping[str, str]]:
        """The labels of the namespaces that a quota itself selects."""
        labels = self._ledger.coverage.labels
        return {name: found for name in use.namespaces if (found := labels(name)) is not None}

    def own_namespaces(self, quota: str) -> tuple[str, ...]:
        """Those that a quota itself selects."""
        node = self._node(quota)
        return self._ledger.coverage.selected(node) if node is not None else ()

    def tree_warnings(self) -> tuple[TreeProblem, ...]:
        """What is allowed of the quotas, but hardly meant."""
        return self._ledger.coverage.tree.warnings

    def rows(self) -> Iterator[UsageRow]:
        """Used, reserved and hard of every key of every quota, nano-units."""
        return self._ledger.usage.rows()

    def _node(self, name: str) -> QuotaNode | None:
        tree = self._ledger.coverage.tree
        if self._names[0] is not tree:
            self._names = tree, {node.quota.name: node for node in tree.nodes}
        return self._names[1].get(name)

    def _subtree(self, name: str) -> Iterator[QuotaNode]:
        top = self._node(name)
        return self._ledger.coverage.tree.below(top) if top is not None else iter(())

    # Workloads.

    def observed(self, ref: WorkloadRef) -> Observed | None:
        """The newest state that was seen of a workload; ``None``: it is not there, as far as is known."""
        entry = self._ledger.get(ref)
        return entry.observed if entry is not None else None

    def workload(self, ref: WorkloadRef) -> WorkloadUse | None:
        """What is charged for one workload, through its owner if it has one; ``None``: it is not known."""
        entry = self._ledger.get(ref)
        return self._charged(entry.root) if entry is not None else None

    def counts_in(self, ref: WorkloadRef, quota: str) -> bool:
        """Whether a workload counts in a quota, or may come to."""
        return self._node(quota) in self._covering(ref)

    def quotas_of(self, ref: WorkloadRef) -> list[str]:
        """The quotas that a workload counts in, or may come to, each after its parent. Empty: it is not known."""
        return [node.quota.name for node in sorted(self._covering(ref), key=lambda node: node.index)]

    def _covering(self, ref: WorkloadRef) -> Nodes:
        entry = self._ledger.get(ref)
        return self._ledger.usage.position(entry.root).envelope_in if entry is not None else ()

    def workloads(self, quota: str) -> Iterator[WorkloadUse]:
        """Every workload that counts in a quota, or may come to. Costs in proportion to those in its namespaces."""
        return (use for use in self.scan(quota) if use is not None)

    def charges(self) -> Iterator[tuple[WorkloadRef, Amounts, Sequence[QuotaNode]]]:
        """What each workload uses, nano-units by key, with all that it covers, and the quotas in which that counts."""
        return ((ref, at.used.amounts, at.used_in) for ref, at in self._ledger.usage.positions())

    def scan(self, quota: str) -> Iterator[WorkloadUse | None]:
        """The same, with ``None`` for each workload of its namespaces that does not count: a step, too."""
        top = self._node(quota)
        for name in self.namespaces(quota):
            for kind in self._ledger.workloads.kinds():
                for ref in self._ledger.workloads.of_unit(kind, name):
                    yield self._use_in(top, ref)

    def _use_in(self, quota: QuotaNode | None, ref: WorkloadRef) -> WorkloadUse | None:
        entry = self._ledger.get(ref)
        if entry is None or entry.head is not None or quota not in self._ledger.usage.position(entry).envelope_in:
            return None
        return self._charged(entry)

    def _charged(self, head: Entry) -> WorkloadUse:
        at = self._ledger.usage.position(head)
        used = at.used.amounts
        more = {key: amount - used.get(key, 0) for key, amount in at.envelope.amounts.items()}
        replicas = head.observed.replicas if head.observed is not None else 0
        reserved = {key: amount for key, amount in more.items() if amount}
        return WorkloadUse(head.ref, replicas, used, reserved, not (at.unknown or at.takes_unknown_devices))

    # What fits.

    def headroom(self, ref: WorkloadRef) -> Headroom | None:
        """How many replicas a workload may have; ``None``: it is not known."""
        entry = self._ledger.get(ref)
        if entry is None:
            return None
        observed = entry.observed.replicas if entry.observed is not None else 0
        version = entry.observed.resource_version if entry.observed is not None else ""
        most = self._propose(entry, MAX_REPLICAS)
        is_certain = not (most.step.after.unknown or most.growth.is_uncertain)
        fits, bound = self._fitting(entry, most) if most.growth.shortages else (None, None)
        found = Headroom(fits, bound, observed, version, is_certain, guaranteed=self._guaranteed(entry, most, fits))
        return self._audited(entry, found) if most.growth.audit else found

    def growth(self, ref: WorkloadRef, replicas: int, refused: Container[str]) -> WouldGrow:
        """What a count of a known workload would meet now. Nothing is reserved.

        Args:
            refused: names of quotas that have refused it. Of others, those that bind only some people are left out:
                whoever asked may not be one of them.
        """
        entry = self._ledger.get(ref)
        assert entry is not None, "who asks has seen it"
        proposal = self._propose(entry, replicas)
        growth = proposal.growth
        bound = {node.quota.name for node in growth.grows if node.quota.requesters is None}
        short = tuple(row for row in growth.shortages if row.quota in bound or row.quota in refused)
        fits = self._ledger.largest_replicas(ref, _count(replicas), proposal) if short else None
        observed = entry.observed.replicas if entry.observed is not None else 0
        is_certain = not (proposal.step.after.unknown or growth.is_uncertain)
        never_fits = proposal.step.never_fits((row.resource, row.hard) for row in short)
        return WouldGrow(observed, short, fits, never_fits, is_certain)

    def ceiling(self, ref: WorkloadRef, replicas: int) -> Ceiling | None:
        """The tightest bound that a count can never get past, whatever others use; ``None``: there is none, as far as
        can be told. Quotas that only audit, or that bind only some people, are left out.

        Limits are those of the spec, of now and of the next override: the highest counts.
        """
        entry = self._ledger.get(ref)
        if entry is None or entry.head is not None or (entry.observed and entry.observed.replicas > replicas):
            return None  # it is not known, or it will shrink
        step = self._propose(entry, replicas).step
        needs, covering = step.this_write_only.envelope.amounts, step.after.envelope_in
        binding = [node for node in covering if not node.audits and node.quota.requesters is None]
        above = [
            (node, key, most)
            for node in binding
            for key in node.hard.keys() & needs.keys()
            if needs[key] > (most := _most(node, key, covering))
        ]
        if not above:
            return None  # usually
        with_one = self._propose(entry, replicas + 1).step.this_write_only.envelope.amounts
        found = [
            Ceiling(max(replicas + (most - needs[key]) // each, 0), node.quota.name, key, needs[key], most)
            for node, key, most in above
            if (each := with_one[key] - needs[key])
        ]
        return min(found, key=lambda one: (one.fits, one.resource), default=None)

    def _audited(self, entry: Entry, found: Headroom) -> Headroom:
        """With what quotas in mode Audit would say: the highest count that none of them has too little room for."""
        high = MAX_REPLICAS if found.replicas is None else found.replicas
        if not self._propose(entry, high).growth.audit:
            return found
        more = range(found.observed + 1, high)
        low = found.observed + bisect_left(more, True, key=lambda count: bool(self._propose(entry, count).growth.audit))
        short = self._propose(entry, low + 1).growth.audit
        return found._replace(audited=low, audits=short[0]) if short else found

    def _guaranteed(self, entry: Entry, most: Proposal, fits: int | None) -> int | None:
        """The highest count, of those up to ``fits``, that takes nothing but what is kept for it."""
        only_kept = self._ledger.usage.accounts.takes_only_kept
        if fits is None or entry is not most.head or only_kept(most.step) is None:
            return None  # nobody is guaranteed what it takes
        return bisect_left(range(fits + 1), True, key=lambda count: not only_kept(self._propose(entry, count).step)) - 1

    def _fitting(self, entry: Entry, most: Proposal) -> tuple[int, Shortage]:
        found = self._ledger.largest_replicas(entry.ref, _count(MAX_REPLICAS), most)
        assert found is not None, "a bound is met, and a count of zero grows nothing"
        return found, self._propose(entry, found + 1).growth.shortages[0]

    def _propose(self, entry: Entry, replicas: int) -> Proposal:
        return self._ledger.propose(entry.ref, _count(replicas), entry.expected, entry)

    # What pends.

    def pending(self, quota: str | None = None) -> Iterator[tuple[WorkloadRef, PendingWrite]]:
        """Every write that pends, oldest first, with its workload; or those that may count in one quota."""
        node = self._node(quota) if quota is not None else None
        for ref, pending_write in list(self._ledger.pending):
            if quota is None or (node in self._ledger.pending.nodes(pending_write.id)):
                yield ref, pending_write

    # Who waits.

    def line(self, quota: str, now_s: float) -> list[Seen]:
        """Who waits in line for a quota, the first one first; for a root: in its whole tree."""
        return self._ledger.turns.waiting(quota, now_s)

    # How much there is.

    @property
    def quota_count(self) -> int:
        return len(self._ledger.coverage.tree.nodes)

    @property
    def workload_count(self) -> int:
        return len(self._ledger)

    @property
    def pending_count(self) -> int:
        return len(self._ledger.pending)


def _most(node: QuotaNode, key: str, covering: Sequence[QuotaNode]) -> int:
    """What one that counts in these quotas may ever have of a key there: all that is not kept for others."""
    limits = [node.hard, node.quota.hard]
    limits += [node.next_override.hard] if node.next_override is not None else []
    hard = max(amounts.get(key, 0) for amounts in limits)
    own = sum(child.holds.get(key, 0) for child in covering if child.parent is node)
    return max(hard - node.promised.get(key, 0) + own, min(hard, own))


_NEVER: Final = float("inf")


def _count(replicas: int) -> PendingWrite:
    return PendingWrite("", replicas, (), (), False, NO_PRECONDITION, _NEVER)
