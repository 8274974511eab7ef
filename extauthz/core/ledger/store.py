"""Holds every workload, a million of them, in little memory: what is only observed is kept as that and nothing more."""

from __future__ import annotations

from collections.abc import Iterator

from extauthz.core.ledger.entry import Entry
from extauthz.core.model import Observed, WorkloadRef


class Store:
    """Entries by reference.

    A workload with no intent and no family is kept as its ``Observed`` under its name; ``get`` makes an ``Entry`` of it
    that lasts as long as its user. Whoever is about to change one says ``hold`` first, and ``release`` afterwards.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[str, ...], dict[str, Observed | Entry]] = {}
        """Group, resource and namespace to names: a name costs no key of its own."""

    def get(self, ref: WorkloadRef) -> Entry | None:
        """The entry of a workload; until it is held, another one each time."""
        names = self._names.get(ref[:3])
        found = names.get(ref.name) if names is not None else None
        return _entry(ref, found) if found is not None else None

    def __len__(self) -> int:
        return sum(map(len, self._names.values()))

    def __iter__(self) -> Iterator[Entry]:
        for (group, resource, namespace), names in self._names.items():
            for name, found in names.items():
                yield _entry(WorkloadRef(group, resource, namespace, name), found)

    def hold(self, entry: Entry) -> None:
        """Keep this very entry, so that ``get`` gives it to all."""
        self._names.setdefault(entry.ref[:3], {})[entry.ref.name] = entry

    def release(self, entry: Entry) -> None:
        """Keep of a held entry what has to be kept: nothing, what is observed, or all of it."""
        names = self._names.get(entry.ref[:3], {})
        if names.get(entry.ref.name) is not entry:
            return
        if entry.observed is not None and _is_plain(entry, entry.observed):
            names[entry.ref.name] = entry.observed
        elif entry.idle:
            del names[entry.ref.name]
            if not names:
                del self._names[entry.ref[:3]]


def _entry(ref: WorkloadRef, found: Observed | Entry) -> Entry:
    if isinstance(found, Entry):
        return found
    entry = Entry(ref)
    entry.observed = found
    return entry


def _is_plain(entry: Entry, observed: Observed) -> bool:
    """Nobody refers to it: no intent, no member of a family, no owner whose family it may come to join."""
    return not entry.intents and not entry.children and entry.head is None and observed.owner is None
