"""Usage: the accounts of all quotas, always equal to the sum of all workloads' positions.

Every change moves a workload from one ``Position`` to the next and the accounts by the difference, so that usage kept
incrementally equals usage recomputed from scratch (``drift`` tells, ``repair`` sees to it).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from operator import itemgetter
from typing import Final, Protocol

from extauthz.core.footprint import UNSPECIFIED, LimitRangeDefaults
from extauthz.core.ledger.accounts import NOTHING, NOWHERE, Accounts, Difference, Position, UsageRow
from extauthz.core.ledger.coverage import Coverage, changed
from extauthz.core.ledger.entry import NOT_KEPT, Entry, Workloads
from extauthz.core.ledger.envelope import position
from extauthz.core.ledger.pod_costs import PodCosts, Terms
from extauthz.core.model import Amounts, Kind, Template, WorkloadRef
from extauthz.core.quota.tree import QuotaTree

AT_ONCE: Final = 8
"""Workloads that are counted at once, as in a new workspace: less than a millisecond. More are counted in slices."""

ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"
"""The label of a namespace that lets claims of devices have administrators' access (``DRAAdminNamespaceLabelKey``)."""


class Witness(Protocol):
    """Told of what counts, as it changes. It must return at once."""

    def moved(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        """A workload that is charged by itself costs something else, or counts elsewhere. Not told: a higher count was
        granted, as nearly always; its decision tells."""

    def labelled(self, namespace: str, labels: Mapping[str, str] | None) -> None:
        """A namespace has other labels; ``None``: it is gone."""

    def limited(self, tree: QuotaTree) -> None:
        """Other quotas are in force, with all their overrides."""

    def counted_anew(self) -> None:
        """Positions may be others, and nobody was told of each."""


class Usage:
    """The accounts of all workloads, and what changes positions from outside."""

    def __init__(self, workloads: Workloads, coverage: Coverage, pod_costs: PodCosts) -> None:
        self._workloads = workloads
        self._coverage = coverage
        self._pod_costs = pod_costs
        self.accounts = Accounts(coverage.tree)
        self._epoch = 0
        """How often quotas or costs have changed. Positions of before are kept no longer."""
        self._under_way: _Recount | None = None
        """A count from scratch that is under way."""
        self.is_counting = False
        """Whether that counts anew, and not only checks."""
        self.is_loading = False
        """Whether nothing is counted."""
        self.on_count: Callable[[], None] | None = None
        """Called when everything must be counted anew; whoever is called sees to ``count`` until all is counted.
        ``None``: that is done at once."""
        self.witness: Witness | None = None
        """``None``: nobody has to know."""
        self.on_unreadable: Callable[[WorkloadRef, Exception], None] | None = None
        """Told of a workload whose cost cannot be worked out, and of what that raised; ``None``: it is raised."""

    # The first load.

    def load(self) -> None:
        """Count nothing until ``loaded``."""
        self.is_loading = True

    def loaded(self) -> None:
        """Count all that has come, pending writes among it."""
        self.is_loading = False
        self.count_anew()

    # What bears on the positions of many.

    def set_tree(self, tree: QuotaTree, pending: Iterable[Entry] = ()) -> None:
        """Put another quota tree in force; pending writes stay.

        Trees of which more than limits have changed are counted anew, and those alone: a new workspace concerns nobody
        else.

        Args:
            pending: workloads with pending writes of objects.
        """
        old = self._coverage.tree
        says_more = bool((tree.limited ^ old.limited) & UNSPECIFIED.keys())  # of what a pod costs
        self._coverage.set_tree(tree)
        self._pod_costs.require(tree.limited)
        if says_more or self.is_loading or any(map(self._finds_claims, pending)):
            self.count_anew()
        else:
            self._count_trees(changed(old, tree))

    @staticmethod
    def _finds_claims(entry: Entry) -> bool:
        """What it costs in one tree depends on where it counts in others (``envelope._with_claims_of_others``)."""
        return entry.observed is None and bool(entry.claims)

    def observe_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Take the labels of a namespace (``None``: it is gone). Its workloads are counted anew, unless it stays under
        the same quotas."""
        before = self._coverage.labels(name)
        if before == labels:
            return
        if before is not None and labels is not None and self._stays(before, labels):
            self._set_labels(name, labels)
        else:
            self._move_namespace(name, lambda: self._set_labels(name, labels))

    def _stays(self, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Whether labels of a namespace put it under the same quotas, and cost its pods the same."""
        select = self._coverage.tree.namespace_candidates
        return before.get(ADMIN_ACCESS) == after.get(ADMIN_ACCESS) and select(before) == select(after)

    def observe_limit_ranges(self, name: str, ranges: Sequence[LimitRangeDefaults]) -> None:
        """Take all LimitRanges of a namespace. Only its own workloads are counted anew."""
        self._set_terms(name, self._pod_costs.terms(name)._replace(ranges=tuple(ranges)))

    def observe_claim_templates(self, name: str, templates: Mapping[str, Template]) -> None:
        """Take all ResourceClaimTemplates of a namespace. Only its own workloads are counted anew."""
        claims = tuple(sorted(templates.items(), key=itemgetter(0)))
        self._set_terms(name, self._pod_costs.terms(name)._replace(claims=claims))

    def _set_terms(self, name: str, terms: Terms) -> None:
        if self._pod_costs.terms(name) != terms:
            self._move_namespace(name, lambda: self._pod_costs.set_terms(name, terms))

    def observe_device_class(self, name: str, extended: str | None) -> None:
        """Take the extended resource that devices of a DeviceClass are too (empty: none; ``None``: the class is gone),
        and count anew."""
        if self._pod_costs.set_extended(name, extended):
            self.count_anew()

    def observe_runtime_class(self, name: str, overhead: Amounts | None) -> None:
        """Take what a RuntimeClass adds to its pods (``None``: it is gone), and count anew."""
        if self._pod_costs.set_overhead(name, overhead):
            self.count_anew()

    def observe_default_storage_class(self, name: str) -> None:
        """Take the class of claims that name none (empty: there is none), and count anew."""
        if self._pod_costs.set_default_storage_class(name):
            self.count_anew()

    def count_anew(self) -> None:
        """Count everything anew: what pods cost has changed, or a change was not taken whole."""
        self._count_trees({node.root for node in self._coverage.tree.nodes})

    def mend(self, *positions: Position) -> None:
        """A move between these has failed: count anew the trees that are part of it."""
        self._count_trees(frozenset().union(*(at.trees for at in positions)))

    def _count_trees(self, roots: Set[str]) -> None:
        """Count all anew that counts in the trees of these roots. In others only limits have changed.

        Where ``on_count`` is told, that is done in slices, if it takes more than one. Until they are through, the sums
        of before are shown, and no growth is granted in these trees.
        """
        if self._under_way is not None:
            roots = roots | self._under_way.roots
        self.accounts = self.accounts.under(self._coverage.tree, roots)
        self._epoch += 1
        fresh = Accounts(self._coverage.tree, roots)
        self._under_way = _Recount(self, self._workloads, self._units_in(roots), fresh, roots)
        self.is_counting = True
        if self.on_count is None:
            self._finish()
        elif len(self._under_way) > AT_ONCE or self.count(AT_ONCE):
            self.on_count()

    def _units_in(self, roots: Set[str]) -> Iterator[tuple[Kind, str]]:
        """Kinds and namespaces of workloads that may count in the trees of these roots."""
        concerned = [node for node in self._coverage.tree.nodes if node.root in roots]
        spaces = {name for node in concerned for name in self._coverage.selected(node)}
        return (unit for unit in self._workloads.units() if unit[1] in spaces)

    def count(self, most: int) -> bool:
        """Count so many workloads of a count that ``on_count`` was told of. False: all is counted, and in force."""
        recount = self._under_way
        if recount is None or not self.is_counting:
            return False
        if recount.step(most):
            return True
        self._under_way, self.is_counting = None, False
        self.accounts.take(recount.fresh)
        if self.witness is not None:
            self.witness.counted_anew()
        return False

    def _finish(self) -> None:
        is_under_way = True
        while is_under_way:
            is_under_way = self.count(1000)

    def _set_labels(self, name: str, labels: Mapping[str, str] | None) -> None:
        if self.witness is not None:
            self.witness.labelled(name, labels)
        self._coverage.set_labels(name, labels)
        for_admins = (labels or {}).get(ADMIN_ACCESS) == "true"
        self._pod_costs.set_terms(name, self._pod_costs.terms(name)._replace(for_admins=for_admins))

    def _move_namespace(self, name: str, change: Callable[[], None]) -> None:
        """Do a change of a namespace, and count its workloads anew: at once, or with the trees that they count in.

        During another count it is done at once. Else whoever changes a namespace again and again would keep that from
        its end, for all.
        """
        heads = [entry for entry in self._workloads.in_namespace(name) if entry.head is None]
        is_alone = self.is_counting or self.is_loading or any(map(self._finds_claims, heads))
        if len(heads) > AT_ONCE and self.on_count is not None and not is_alone:
            roots = {node.root for node in self._coverage.candidates(name)}
            change()
            self._count_trees(roots | {node.root for node in self._coverage.candidates(name)})
            return
        for head in heads:
            self.shift(head.ref, self.position(head), NOWHERE)
        change()
        for head in heads:
            self.book(head, NOWHERE, self.add_up(head))

    # One workload.

    def add_up(self, head: Entry) -> Position:
        """The position of a workload that is charged by itself, worked out."""
        if self.is_loading:
            return NOWHERE
        try:
            return position(head, self._coverage, self._pod_costs)
        except Exception as error:
            if self.on_unreadable is None:
                raise
            self.on_unreadable(head.ref, error)
            nodes = self._coverage.candidates(head.ref.namespace)
            return Position(NOTHING, nodes, NOTHING, nodes, unknown=True)

    def position(self, head: Entry) -> Position:
        """The same, if it is kept."""
        epoch, at = head.kept_position
        return at if epoch == self._epoch else self.add_up(head)

    def shift(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        """Count ``before`` out and ``after`` in."""
        self.accounts.move(before, after)
        if self._under_way is not None:
            self._under_way.moved(ref, before, after)
        if self.witness is not None:
            is_grant = after.used is before.used and after.used_in is before.used_in and after.pod is not None
            if not (is_grant and after.envelope.replicas > before.envelope.replicas):
                self.witness.moved(ref, before, after)

    def book(self, head: Entry, before: Position, after: Position) -> None:
        """``shift``, and keep the position while a pending write lives on the workload."""
        self.keep(head, after)
        if after is not before:
            self.shift(head.ref, before, after)

    def keep(self, head: Entry, at: Position) -> None:
        """Keep a position while a pending write lives on the workload."""
        head.kept_position = (self._epoch, at) if head.pending_writes else NOT_KEPT

    def change(self, head: Entry, mutate: Callable[[], None]) -> None:
        """Do a change of the position of ``head``, and ``book`` it."""
        before = self.position(head)
        mutate()
        self.book(head, before, self.add_up(head))

    # All together.

    def rows(self) -> Iterator[UsageRow]:
        """Used, reserved and hard of every quota and key, nano-units."""
        return self.accounts.rows()

    def positions(self) -> Iterator[tuple[WorkloadRef, Position]]:
        """Every workload that is charged by itself. They may change meanwhile: each is as of its turn."""
        for unit in list(self._workloads.units()):
            for ref in self._workloads.of_unit(*unit):
                entry = self._workloads.get(ref)
                if entry is not None and entry.head is None:
                    yield ref, self.position(entry)

    def drift(self) -> Mapping[tuple[str, str], int]:
        """Count from scratch: quota and what of it, to the difference from what is kept. Empty if all is right."""
        self._finish()
        wrong = self.accounts.differences(self._recount())
        return {(one.quota, one.what): one.kept - one.counted for one in wrong}

    def _recount(self) -> Accounts:
        fresh = Accounts(self._coverage.tree)
        for entry in self._workloads:
            entry.part = None
        for entry in self._workloads:
            if entry.head is None:
                fresh.move(NOWHERE, self.add_up(entry))
        return fresh

    def repair(self, most: int) -> Generator[None, None, tuple[Difference, ...] | None]:
        """Recount ``most`` workloads at each step, between which usage may change as it likes; repair at the end.

        Usage is put right and no pending write is touched (design.md L4). One count at a time.

        Returns:
            What was wrong; ``None`` if the count was overtaken by one that a change of quotas or prices made necessary.
        """
        if self.is_counting:
            return None
        assert self._under_way is None, "one count at a time"
        fresh = Accounts(self._coverage.tree)
        recount = self._under_way = _Recount(self, self._workloads, self._workloads.units(), fresh)
        try:
            while recount.step(most):
                yield
                if self._under_way is not recount:
                    return None
            found = tuple(self.accounts.differences(fresh))
            if found:
                self.accounts = fresh
            return found
        finally:
            if self._under_way is recount:
                self._under_way = None


class _Recount:
    """A count from scratch, in small steps between which usage goes on.

    Each workload is counted once. What moves of those that are counted already is moved in both counts; those that are
    not are left alone until their turn. So at the end both counts have seen the same, and where they differ one is
    wrong.

    Args:
        units: kinds in namespaces that are to be counted.
        fresh: the new sums.
        roots: of the trees whose sums of before are in force no longer.
    """

    def __init__(
        self,
        usage: Usage,
        workloads: Workloads,
        units: Iterable[tuple[Kind, str]],
        fresh: Accounts,
        roots: Set[str] = frozenset(),
    ) -> None:
        self._usage = usage
        self._workloads = workloads
        self.fresh = fresh
        self.roots = roots
        self._later = dict.fromkeys(units)
        """Those that are still to be counted."""
        self._left: dict[WorkloadRef, None] = {}
        """Workloads of the present unit that are still to be counted."""

    def __len__(self) -> int:
        """How many kinds in namespaces are still to be counted."""
        return len(self._later)

    def step(self, most: int) -> bool:
        """Count so many workloads. False: all are counted."""
        for _ in range(most):
            while not self._left:
                if not self._later:
                    return False
                unit, _ = self._later.popitem()
                self._left = dict.fromkeys(self._workloads.of_unit(*unit))
            ref, _ = self._left.popitem()
            self._count(ref)
        return True

    def _count(self, ref: WorkloadRef) -> None:
        entry = self._workloads.get(ref)
        if entry is None or entry.head is not None:
            return
        at = self._usage.add_up(entry)
        self._usage.keep(entry, at)  # from here on both counts move by the same
        self.fresh.move(NOWHERE, at)

    def moved(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        """A workload was moved: so it is in the new sums, if it is part of them already."""
        if ref not in self._left and (ref[:2], ref.namespace) not in self._later:
            self.fresh.move(before, after)
