"""Holds every workload, a million of them, in little memory: what is only observed is kept as that and nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from extauthz.core.ledger.entry import Entry
from extauthz.core.model import Kind, Observed, WorkloadRef

_Names: TypeAlias = dict[str, Observed | Entry]


class Store:
    """Entries by reference.

    A workload with no intent and no family is kept as its ``Observed`` under its name; ``get`` makes an ``Entry`` of it
    that lasts as long as its user. Whoever is about to change one says ``hold`` first, and ``release`` afterwards.
    """

    def __init__(self) -> None:
        self._spaces: dict[str, dict[Kind, _Names]] = {}
        """Namespace, then group and resource, to names: a name costs no key of its own."""

    def get(self, ref: WorkloadRef) -> Entry | None:
        """The entry of a workload; until it is held, another one each time."""
        names = self._spaces.get(ref.namespace, _EMPTY).get(ref[:2])
        found = names.get(ref.name) if names is not None else None
        return _entry(ref, found) if found is not None else None

    def __len__(self) -> int:
        return sum(len(names) for kinds in self._spaces.values() for names in kinds.values())

    def __iter__(self) -> Iterator[Entry]:
        for namespace in self._spaces:
            yield from self.in_namespace(namespace)

    def in_namespace(self, namespace: str) -> Iterator[Entry]:
        """All entries of one namespace."""
        for (group, resource), names in self._spaces.get(namespace, _EMPTY).items():
            for name, found in names.items():
                yield _entry(WorkloadRef(group, resource, namespace, name), found)

    def observed(self, kind: Kind) -> Iterator[WorkloadRef]:
        """Every workload of a kind that is there, as far as was seen."""
        for namespace, kinds in self._spaces.items():
            for name, found in kinds.get(kind, {}).items():
                if not isinstance(found, Entry) or found.observed is not None:
                    yield WorkloadRef(*kind, namespace, name)

    def kinds(self) -> set[Kind]:
        """The kinds that some workload is of."""
        return {kind for kinds in self._spaces.values() for kind in kinds}

    def hold(self, entry: Entry) -> None:
        """Keep this very entry, so that ``get`` gives it to all."""
        names = self._spaces.setdefault(entry.ref.namespace, {}).setdefault(entry.ref[:2], {})
        names[entry.ref.name] = entry

    def release(self, entry: Entry, *, is_plain: bool) -> None:
        """Keep of a held entry what has to be kept: nothing, what is observed if it is plain, or all of it."""
        ref = entry.ref
        kinds = self._spaces.get(ref.namespace, _EMPTY)
        names = kinds.get(ref[:2], {})
        if names.get(ref.name) is not entry:
            return
        if entry.observed is not None and is_plain:
            names[ref.name] = entry.observed
        elif entry.idle:
            del names[ref.name]
            if not names:
                del kinds[ref[:2]]
            if not kinds:
                del self._spaces[ref.namespace]


_EMPTY: dict[Kind, _Names] = {}


def _entry(ref: WorkloadRef, found: Observed | Entry) -> Entry:
    if isinstance(found, Entry):
        return found
    entry = Entry(ref)
    entry.observed = found
    return entry
