"""Which ReplicaSets are covered by a live Deployment, and so are charged through it (DESIGN rule 8).

Ownership is attributed, never a reason to exclude: a child counts with its owner up to the owner's grant, and what it
has above that is charged (``entry.position``).
"""

from __future__ import annotations

from typing import Protocol

from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.kinship import covers, owner_ref
from extauthz.core.model import Observed, WorkloadRef


class Entries(Protocol):
    """All workloads."""

    def get(self, ref: WorkloadRef) -> Entry | None:
        """The entry of a workload, if it is known."""


class Families:
    """Keeps ``Entry.head`` and ``Entry.children`` true to what is observed."""

    def __init__(self) -> None:
        self._children: dict[WorkloadRef, dict[WorkloadRef, Entry]] = {}
        """Owner named by a child, to the children that name it, covered or not."""
        self._owners: dict[WorkloadRef, WorkloadRef] = {}
        """Child to the owner that it names."""

    def touched(self, entry: Entry, observed: Observed | None, entries: Entries) -> tuple[Entry, ...]:
        """Every entry whose position may change when ``entry`` becomes ``observed``. Each once."""
        owner = owner_ref(entry.ref, observed.owner) if observed is not None else None
        named = entries.get(owner) if owner is not None else None
        ones = (entry, entry.head, named, *self._children.get(entry.ref, {}).values())
        return tuple({id(one): one for one in ones if one is not None}.values())

    def regroup(self, entry: Entry, entries: Entries) -> None:
        """Attach ``entry`` to its owner or detach it, and likewise the children that name it."""
        self._name_owner(entry)
        self._attach(entry, entries)
        for child in self._children.get(entry.ref, {}).values():
            self._attach(child, entries)

    def leave(self, entry: Entry) -> None:
        """Forget an entry that is no more."""
        self._detach(entry)
        self._unname_owner(entry)

    def _name_owner(self, entry: Entry) -> None:
        self._unname_owner(entry)
        shown = entry.shown
        owner = owner_ref(entry.ref, shown.owner) if shown is not None else None
        if owner is not None:
            self._children.setdefault(owner, {})[entry.ref] = entry
            self._owners[entry.ref] = owner

    def _unname_owner(self, entry: Entry) -> None:
        owner = self._owners.pop(entry.ref, None)
        if owner is None:
            return
        del self._children[owner][entry.ref]
        if not self._children[owner]:
            del self._children[owner]

    def _attach(self, child: Entry, entries: Entries) -> None:
        self._detach(child)
        owner = self._owners.get(child.ref)
        head = entries.get(owner) if owner is not None else None
        shown = child.shown
        if head is not None and shown is not None and covers(head.observed, shown):
            child.head = head
            head.children = {**(head.children or {}), child.ref: child}

    def _detach(self, child: Entry) -> None:
        head, child.head = child.head, None
        if head is not None and head.children is not None:
            del head.children[child.ref]
            head.children = head.children or None
