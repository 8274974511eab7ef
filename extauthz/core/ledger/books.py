"""The books: every entry's position, and the accounts of all quotas kept equal to their sum.

Every change moves an entry from one ``Position`` to the next and the accounts by the difference, so that usage kept
incrementally equals usage recomputed from scratch (``drift`` tells, ``repair`` sees to it).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.ledger.accounts import Accounts, Coverage, Difference, UsageRow
from extauthz.core.ledger.entry import Entry, Position
from extauthz.core.ledger.position import NOWHERE, position
from extauthz.core.ledger.recount import Recount
from extauthz.core.ledger.scope import Scope
from extauthz.core.ledger.store import Store
from extauthz.core.model import Amounts, WorkloadRef
from extauthz.core.quota.tree import QuotaTree


class Books:
    """Entries, what bears on their positions from outside, and accounts."""

    def __init__(self, scope: Scope | None = None) -> None:
        self.scope = scope if scope is not None else Scope()
        self._entries = Store()
        self._accounts = Accounts(self.scope.tree)
        self._recounting: Recount | None = None

    def usage(self) -> Iterator[UsageRow]:
        """Used, reserved and hard of every quota and key, nano-units."""
        return self._accounts.rows()

    def coverage(self) -> Iterator[Coverage]:
        """How many workloads every quota covers."""
        return self._accounts.coverage()

    def set_tree(self, tree: QuotaTree) -> None:
        """Put another quota tree in force; intents stay.

        Use and reservations are counted anew, unless only limits have changed: those may at any time, with whatever
        number of workloads, and hold nothing up.
        """
        accounts = self._accounts.under(tree)
        self.scope.set_tree(tree)
        self._put_in_force(accounts if accounts is not None else self._recount())

    def observe_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Take the labels of a namespace (``None``: it is gone). Only its own workloads are counted anew."""
        if self.scope.labels(name) != labels:
            self._move_namespace(name, lambda: self.scope.set_labels(name, labels))

    def observe_limit_ranges(self, name: str, ranges: Sequence[LimitRangeDefaults]) -> None:
        """Take all LimitRanges of a namespace. Only its own workloads are counted anew."""
        if self.scope.limit_ranges(name) != tuple(ranges):
            self._move_namespace(name, lambda: self.scope.set_limit_ranges(name, ranges))

    def observe_runtime_class(self, name: str, overhead: Amounts | None) -> None:
        """Take what a RuntimeClass adds to its pods (``None``: it is gone), and count anew."""
        if self.scope.overheads.get(name) != overhead:
            self.scope.set_overhead(name, overhead)
            self._put_in_force(self._recount())

    def observe_default_storage_class(self, name: str) -> None:
        """Take the class of claims that name none (empty: there is none), and count anew."""
        if self.scope.default_storage_class != name:
            self.scope.set_default_storage_class(name)
            self._put_in_force(self._recount())

    def _move_namespace(self, name: str, change: Callable[[], None]) -> None:
        heads = [entry for entry in self._entries.in_namespace(name) if entry.head is None]
        for head in heads:
            self._shift(head.ref, self._position(head), NOWHERE)
        change()
        for head in heads:
            self._book(head, NOWHERE, self._add_up(head))

    def _put_in_force(self, accounts: Accounts) -> None:
        """Positions that entries keep name the nodes and the amounts of before, and so does a count under way."""
        self._recounting = None
        self._accounts = accounts
        for entry in self._entries.held():
            if entry.standing is not None:
                entry.standing = self._add_up(entry)

    def _recount(self) -> Accounts:
        accounts = Accounts(self.scope.tree)
        for entry in self._entries:
            if entry.head is None:
                accounts.move(NOWHERE, self._add_up(entry))
        return accounts

    def drift(self) -> Mapping[tuple[str, str], int]:
        """Recount from scratch: (quota, key) to how far the incremental count is off. Empty when all is well."""
        fresh = {(row.quota, row.resource): row.used + row.reserved for row in self._recount().rows()}
        kept = {(row.quota, row.resource): row.used + row.reserved for row in self.usage()}
        return {key: kept.get(key, 0) - amount for key, amount in fresh.items() if kept.get(key, 0) != amount}

    def repair(self, most: int) -> Generator[None, None, tuple[Difference, ...] | None]:
        """Recount ``most`` workloads at each step, between which the books may change as they like; repair at the end.

        Usage is put right and no intent is touched (docs/design.md L4). One count at a time.

        Returns:
            What was wrong; ``None`` if the count was overtaken by one that a change of quotas or prices made necessary.
        """
        assert self._recounting is None, "one count at a time"
        recount = self._recounting = Recount(self._entries, self.scope)
        try:
            while recount.step(most):
                yield
                if self._recounting is not recount:
                    return None
            found = tuple(self._accounts.differences(recount.accounts))
            if found:
                self._accounts = recount.accounts
            return found
        finally:
            if self._recounting is recount:
                self._recounting = None

    # Inner workings.

    def _position(self, head: Entry) -> Position:
        return head.standing if head.standing is not None else self._add_up(head)

    def _add_up(self, head: Entry) -> Position:
        return position(head, self.scope)

    def _shift(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        self._accounts.move(before, after)
        if self._recounting is not None:
            self._recounting.moved(ref, before, after)

    def _change(self, head: Entry, mutate: Callable[[], None]) -> None:
        before = self._position(head)
        mutate()
        self._book(head, before, self._add_up(head))

    def _book(self, head: Entry, before: Position, after: Position) -> None:
        if after is not before:
            self._shift(head.ref, before, after)
        head.standing = after if head.intents else None
