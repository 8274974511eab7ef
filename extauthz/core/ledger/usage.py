"""Usage: the accounts of all quotas, always equal to the sum of all workloads' positions.

Every change moves a workload from one ``Position`` to the next and the accounts by the difference, so that usage kept
incrementally equals usage recomputed from scratch (``drift`` tells, ``repair`` sees to it).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from extauthz.core.footprint import UNSPECIFIED, LimitRangeDefaults
from extauthz.core.ledger.accounts import NOTHING, NOWHERE, Accounts, Difference, Position, UsageRow, changed
from extauthz.core.ledger.coverage import Coverage
from extauthz.core.ledger.entry import Entry, Workloads
from extauthz.core.ledger.envelope import position
from extauthz.core.ledger.pod_costs import PodCosts
from extauthz.core.model import Amounts, Template, WorkloadRef
from extauthz.core.quota.tree import QuotaTree

AT_ONCE: Final = 64
"""Workloads that are moved at once where a quota comes or goes: a few milliseconds. Of more all are counted anew."""

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
        self._standing: set[Entry] = set()
        """Those whose position is kept."""
        self._recounting: _Recount | None = None
        self._loading = False
        self._anew: _Recount | None = None
        """A count of everything that is under way."""
        self.is_counting = False
        """Whether everything is being counted anew."""
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
        self._loading = True

    def loaded(self) -> None:
        """Count all that has come, pending writes among it."""
        self._loading = False
        for entry in [one for one in self._standing if one.head is not None or not one.pending_writes]:
            self.unbook(entry)
        self.count_anew()

    @property
    def is_loading(self) -> bool:
        """Whether nothing is counted."""
        return self._loading

    # What bears on the positions of many.

    def set_tree(self, tree: QuotaTree) -> None:
        """Put another quota tree in force; pending writes stay.

        Use and reservations are counted anew, unless only limits have changed: those may at any time, with whatever
        number of workloads, and hold nothing up.
        """
        accounts = self.accounts.under(tree) if self._anew is None else None
        moved = self._few_moved(tree) if accounts is None and self._anew is None else None
        for head in moved or ():
            self.shift(head.ref, self.position(head), NOWHERE)
        if moved is not None:
            accounts = self.accounts.carried(tree)
        self._coverage.set_tree(tree)
        self._pod_costs.require(tree.limited)
        if accounts is None:
            self.count_anew()
            return
        self._put_in_force(accounts)
        for head in moved or ():
            self.book(head, NOWHERE, self.add_up(head))

    def _few_moved(self, tree: QuotaTree) -> list[Entry] | None:
        """The workloads in namespaces of which other quotas may count some; ``None``: these are many, or what a pod
        must say changes.

        A new workspace is a quota more, and concerns nobody else.
        """
        old, moved = self._coverage.tree, list[Entry]()
        if self._loading or (tree.limited ^ old.limited) & UNSPECIFIED.keys():
            return None
        others = changed(old, tree)
        for name, namespace in self._coverage.namespaces.items():
            covering = {node.quota.name for one in (old, tree) for node in one.may_cover(namespace.labels)}
            if not others.isdisjoint(covering):
                moved += (entry for entry in self._workloads.in_namespace(name) if entry.head is None)
                if len(moved) > AT_ONCE:
                    return None
        return moved

    def observe_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Take the labels of a namespace (``None``: it is gone). Only its own workloads are counted anew."""
        if self._coverage.labels(name) != labels:
            self._move_namespace(name, lambda: self._set_labels(name, labels))

    def observe_limit_ranges(self, name: str, ranges: Sequence[LimitRangeDefaults]) -> None:
        """Take all LimitRanges of a namespace. Only its own workloads are counted anew."""
        if self._pod_costs.limit_ranges(name) != tuple(ranges):
            self._move_namespace(name, lambda: self._pod_costs.set_limit_ranges(name, ranges))

    def observe_claim_templates(self, name: str, templates: Mapping[str, Template]) -> None:
        """Take all ResourceClaimTemplates of a namespace. Only its own workloads are counted anew."""
        if self._pod_costs.claim_templates(name) != templates:
            self._move_namespace(name, lambda: self._pod_costs.set_claim_templates(name, templates))

    def observe_device_class(self, name: str, extended: str | None) -> None:
        """Take the extended resource that devices of a DeviceClass are too (empty: none; ``None``: the class is gone),
        and count anew."""
        if self._pod_costs.extended.get(name) != extended:
            self._pod_costs.set_extended(name, extended)
            self.count_anew()

    def observe_runtime_class(self, name: str, overhead: Amounts | None) -> None:
        """Take what a RuntimeClass adds to its pods (``None``: it is gone), and count anew."""
        if self._pod_costs.overheads.get(name) != overhead:
            self._pod_costs.set_overhead(name, overhead)
            self.count_anew()

    def observe_default_storage_class(self, name: str) -> None:
        """Take the class of claims that name none (empty: there is none), and count anew."""
        if self._pod_costs.default_storage_class != name:
            self._pod_costs.set_default_storage_class(name)
            self.count_anew()

    def count_anew(self) -> None:
        """Count everything anew: quotas or costs have changed, or a change was not taken whole.

        Where ``on_count`` is told, that is done in slices. Until they are through, the sums of before are shown, and no
        growth is granted (``is_counting``).
        """
        if self.on_count is None:
            self._put_in_force(self._recount())
            return
        self.accounts = self.accounts.shown_under(self._coverage.tree)
        self._recounting = self._anew = _Recount(self, self._workloads, Accounts(self._coverage.tree))
        self.is_counting = True
        for entry in self._standing:
            entry.standing = None  # of the old quotas and costs
        self.on_count()

    def count(self, most: int) -> bool:
        """Count so many workloads of a count that ``on_count`` was told of. False: all is counted, and in force."""
        anew = self._anew
        if anew is None:
            return False
        if anew.step(most):
            return True
        self.accounts, self._anew, self._recounting, self.is_counting = anew.accounts, None, None, False
        if self.witness is not None:
            self.witness.counted_anew()
        return False

    def _set_labels(self, name: str, labels: Mapping[str, str] | None) -> None:
        if self.witness is not None:
            self.witness.labelled(name, labels)
        self._coverage.set_labels(name, labels)
        self._pod_costs.set_for_admins(name, (labels or {}).get(ADMIN_ACCESS) == "true")

    def _move_namespace(self, name: str, change: Callable[[], None]) -> None:
        heads = [entry for entry in self._workloads.in_namespace(name) if entry.head is None]
        for head in heads:
            self.shift(head.ref, self.position(head), NOWHERE)
        change()
        for head in heads:
            self.book(head, NOWHERE, self.add_up(head))

    def _put_in_force(self, accounts: Accounts) -> None:
        """Positions that entries keep belong to the old nodes and amounts. So does a count that is running."""
        self._recounting, self._anew, self.is_counting = None, None, False
        self.accounts = accounts
        for entry in self._standing:
            entry.standing = self.add_up(entry)
        if self.witness is not None:
            self.witness.counted_anew()

    # One workload.

    def add_up(self, head: Entry) -> Position:
        """The position of a workload that is charged by itself, worked out."""
        if self._loading:
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
        return head.standing if head.standing is not None else self.add_up(head)

    def shift(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        """Count ``before`` out and ``after`` in. If that fails, nothing has changed."""
        if self._anew is None:
            self.accounts.move(before, after)
        if self._recounting is None and self.witness is None:
            return  # nearly always
        try:
            self._tell(ref, before, after)
        except Exception:
            if self._anew is not None:
                self.count_anew()  # what it has counted is not sure any more
            else:
                self.accounts.move(after, before)
                self._recounting = None  # nor here
            raise

    def _tell(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        """Those who follow moves."""
        if self._recounting is not None:
            self._recounting.moved(ref, before, after)
        if self.witness is not None:
            is_grant = after.used is before.used and after.used_in is before.used_in and after.pod is not None
            if not (is_grant and after.envelope.replicas > before.envelope.replicas):
                self.witness.moved(ref, before, after)

    def book(self, head: Entry, before: Position, after: Position) -> None:
        """``shift``, and keep the position while a pending write lives on the workload."""
        if after is not before:
            self.shift(head.ref, before, after)
        self.keep(head, after)

    def keep(self, head: Entry, at: Position) -> None:
        """Keep a position while a pending write lives on the workload."""
        if head.pending_writes:
            head.standing = at
            self._standing.add(head)
        elif head.standing is not None:
            self.unbook(head)

    def restore(self, head: Entry, standing: Position | None) -> None:
        """Keep the position that was kept before a grant which failed."""
        self.unbook(head)
        if standing is not None:
            head.standing = standing
            self._standing.add(head)

    def unbook(self, entry: Entry) -> None:
        """Keep no position of an entry: nothing pends on it, or it is charged through another one."""
        entry.standing = None
        self._standing.discard(entry)

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

    def _recount(self) -> Accounts:
        accounts = Accounts(self._coverage.tree)
        for entry in self._workloads:
            if entry.head is None:
                accounts.move(NOWHERE, self.add_up(entry))
        return accounts

    def drift(self) -> Mapping[tuple[str, str], int]:
        """Count from scratch: (quota, key) to the difference from what is kept. Empty if all is right."""
        while self.count(AT_ONCE):
            pass
        fresh, kept = _numbers(self._recount().rows()), _numbers(self.rows())
        both = ((key, kept.get(key, 0) - fresh.get(key, 0)) for key in fresh.keys() | kept.keys())
        return {key: more for key, more in both if more}

    def repair(self, most: int) -> Generator[None, None, tuple[Difference, ...] | None]:
        """Recount ``most`` workloads at each step, between which usage may change as it likes; repair at the end.

        Usage is put right and no pending write is touched (design.md L4). One count at a time.

        Returns:
            What was wrong; ``None`` if the count was overtaken by one that a change of quotas or prices made necessary.
        """
        if self._anew is not None:
            return None
        assert self._recounting is None, "one count at a time"
        recount = self._recounting = _Recount(self, self._workloads, Accounts(self._coverage.tree))
        try:
            while recount.step(most):
                yield
                if self._recounting is not recount:
                    return None
            found = tuple(self.accounts.differences(recount.accounts))
            if found:
                self.accounts = recount.accounts
            return found
        finally:
            if self._recounting is recount:
                self._recounting = None


def _numbers(rows: Iterable[UsageRow]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        found[row.quota, row.resource] = row.used + row.reserved
        if row.kept:
            found[row.quota, f"kept {row.resource}"] = row.kept
    return found


class _Recount:
    """A count of all accounts from scratch, in small steps between which usage goes on.

    Each workload is counted once. What moves of those that are counted already is moved here as well; those that are
    not are left alone until their turn. So at the end both counts have seen the same, and where they differ one is
    wrong.
    """

    def __init__(self, usage: Usage, workloads: Workloads, accounts: Accounts) -> None:
        self._usage = usage
        self._workloads = workloads
        self.accounts = accounts
        self._later = dict.fromkeys(workloads.units())
        """Kinds in namespaces that are still to be counted."""
        self._left: dict[WorkloadRef, None] = {}
        """Workloads of the present kind that are still to be counted."""

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
        self.accounts.move(NOWHERE, at)

    def moved(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        """Note that a workload was moved."""
        if ref not in self._left and (ref[:2], ref.namespace) not in self._later:
            self.accounts.move(before, after)
