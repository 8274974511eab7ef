"""A count of all accounts from scratch, in small steps between which the books go on.

Each workload is counted once. What moves of those that are counted already is moved here as well; those that are not
are left alone until their turn. So at the end both counts have seen the same, and where they differ one is wrong.
"""

from __future__ import annotations

from extauthz.core.ledger.accounts import Accounts
from extauthz.core.ledger.entry import Position
from extauthz.core.ledger.position import NOWHERE, position
from extauthz.core.ledger.scope import Scope
from extauthz.core.ledger.store import Store
from extauthz.core.model import WorkloadRef


class Recount:
    """One such count."""

    def __init__(self, entries: Store, scope: Scope) -> None:
        self._entries = entries
        self._scope = scope
        self.accounts = Accounts(scope.tree)
        self._later = dict.fromkeys(entries.units())
        """Kinds in namespaces whose turn has not come."""
        self._left: dict[WorkloadRef, None] = {}
        """Workloads of the present one that have not been counted."""

    def step(self, most: int) -> bool:
        """Count so many workloads. False: all are counted."""
        for _ in range(most):
            while not self._left:
                if not self._later:
                    return False
                unit, _ = self._later.popitem()
                self._left = dict.fromkeys(self._entries.of_unit(*unit))
            ref, _ = self._left.popitem()
            self._count(ref)
        return True

    def _count(self, ref: WorkloadRef) -> None:
        entry = self._entries.get(ref)
        if entry is None or entry.head is not None:
            return
        at = position(entry, self._scope)
        if entry.standing is not None:
            entry.standing = at  # from here on both counts move by the same
        self.accounts.move(NOWHERE, at)

    def moved(self, ref: WorkloadRef, before: Position, after: Position) -> None:
        """Take note that the books have moved a workload."""
        if ref not in self._left and (ref[:2], ref.namespace) not in self._later:
            self.accounts.move(before, after)
