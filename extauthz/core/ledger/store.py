"""Keeps every workload, up to a million, in little memory. A workload that is only observed is kept as that and nothing
more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from extauthz.core.ledger.entry import Entry
from extauthz.core.model import Kind, Observed, WorkloadRef

_Names: TypeAlias = dict[str, Observed | Entry]
_Spaces: TypeAlias = dict[str, _Names]


class Store:
    """Entries by reference.

    A workload with no pending write and no family is kept as its ``Observed`` under its name; ``get`` makes an
    ``Entry`` of it that lasts as long as its user. Whoever is about to change one says ``hold`` first, and
    ``release`` afterwards.
    """

    def __init__(self) -> None:
        self._kinds: dict[Kind, _Spaces] = {}
        """Kinds, then namespaces, to names. There is one table for each namespace and kind, so a name costs no key of
        its own."""

    def get(self, ref: WorkloadRef) -> Entry | None:
        """The entry of a workload. Until it is held, each call makes another one."""
        names = self._kinds.get(ref[:2], _EMPTY).get(ref.namespace)
        found = names.get(ref.name) if names is not None else None
        return _entry(ref, found) if found is not None else None

    def __len__(self) -> int:
        return sum(len(names) for spaces in self._kinds.values() for names in spaces.values())

    def __iter__(self) -> Iterator[Entry]:
        for kind, spaces in self._kinds.items():
            for namespace, names in spaces.items():
                yield from _entries(kind, namespace, names)

    def held(self) -> Iterator[Entry]:
        """Workloads that are kept as entries: all with a pending write or a family."""
        for spaces in self._kinds.values():
            for names in spaces.values():
                yield from (found for found in names.values() if isinstance(found, Entry))

    def in_namespace(self, namespace: str) -> Iterator[Entry]:
        """All entries of one namespace."""
        for kind, spaces in self._kinds.items():
            yield from _entries(kind, namespace, spaces.get(namespace, {}))

    def observed(self, kind: Kind) -> Iterator[WorkloadRef]:
        """Every observed workload of a kind."""
        for namespace, names in self._kinds.get(kind, _EMPTY).items():
            for name, found in names.items():
                if not isinstance(found, Entry) or found.observed is not None:
                    yield WorkloadRef(*kind, namespace, name)

    def kinds(self) -> set[Kind]:
        """The kinds of all workloads."""
        return set(self._kinds)

    def units(self) -> Iterator[tuple[Kind, str]]:
        """Every kind in every namespace. In these pieces all entries can be visited while they change."""
        for kind, spaces in self._kinds.items():
            for namespace in spaces:
                yield kind, namespace

    def of_unit(self, kind: Kind, namespace: str) -> list[WorkloadRef]:
        """The workloads of one kind in one namespace, as of now."""
        return [WorkloadRef(*kind, namespace, name) for name in self._kinds.get(kind, _EMPTY).get(namespace, {})]

    def hold(self, entry: Entry) -> None:
        """Keep this very entry. ``get`` then returns it to all."""
        names = self._kinds.setdefault(entry.ref[:2], {}).setdefault(entry.ref.namespace, {})
        names[entry.ref.name] = entry

    def release(self, entry: Entry, *, is_plain: bool) -> None:
        """Keep of a held entry what has to be kept: nothing, what is observed if it is plain, or all of it."""
        ref = entry.ref
        spaces = self._kinds.get(ref[:2], _EMPTY)
        names = spaces.get(ref.namespace, {})
        if names.get(ref.name) is not entry:
            return
        if entry.observed is not None and is_plain:
            names[ref.name] = entry.observed
        elif entry.idle:
            del names[ref.name]
            if not names:
                del spaces[ref.namespace]
            if not spaces:
                del self._kinds[ref[:2]]


_EMPTY: _Spaces = {}


def _entries(kind: Kind, namespace: str, names: _Names) -> Iterator[Entry]:
    for name, found in names.items():
        yield _entry(WorkloadRef(*kind, namespace, name), found)


def _entry(ref: WorkloadRef, found: Observed | Entry) -> Entry:
    if isinstance(found, Entry):
        return found
    entry = Entry(ref)
    entry.observed = found
    return entry
