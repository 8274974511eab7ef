"""Pending writes: all live pending writes of all workloads, from their record to their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from extauthz.core.ledger.accounts import Position
from extauthz.core.ledger.coverage import Nodes, leaves
from extauthz.core.ledger.entry import Entry, Event, PendingWrite, State, Workloads
from extauthz.core.ledger.ownership import Ownership
from extauthz.core.ledger.usage import Usage
from extauthz.core.model import WorkloadRef
from extauthz.core.policies import Fate

UNCOVERED: Final = frozenset([""])
"""Where no quota covers a workload, all such workloads share one bound."""

_FATES: Final = {Event.NOT_FORWARDED: Fate.NOT_SENT, Event.REFUSED: Fate.REFUSED}


class PendingWrites:
    """Live pending writes in the order in which they were recorded or renewed. All of an entry's go through this."""

    def __init__(self, workloads: Workloads, ownership: Ownership, usage: Usage) -> None:
        self._workloads = workloads
        self._ownership = ownership
        self._usage = usage
        self._pending_writes: dict[str, tuple[Entry, PendingWrite]] = {}
        self._counts: dict[str, tuple[Entry, PendingWrite]] = {}
        self._objects: dict[str, tuple[Entry, PendingWrite]] = {}
        """All of them once more, by their landing windows. Each of the two is in the order of expiry."""
        self._answered: dict[str, Entry] = {}
        self._of_source: Counter[str] = Counter()
        self._trees: dict[str, frozenset[str]] = {}
        self._of_tree: Counter[str] = Counter()
        self._on_owners: dict[str, tuple[WorkloadRef, PendingWrite]] = {}
        """Those that may bring a workload into a family: the owner, and what pends on that as long."""
        self._held: dict[str, tuple[frozenset[str], int]] = {}
        """Of those that hold bytes worth a bound: in which quotas, and how many; ``{""}`` where no quota covers the
        workload."""
        self._bytes: Counter[str] = Counter()
        self.bytes_held = 0
        """By all of them."""
        self.on_end: Callable[[str, Fate], None] | None = None
        """Told of each that has ended, and of what became of it."""

    def __len__(self) -> int:
        return len(self._pending_writes)

    def follows(self, pending_id: str) -> bool:
        """Whether a pending write of that id is live."""
        return pending_id in self._pending_writes

    def __iter__(self) -> Iterator[tuple[WorkloadRef, PendingWrite]]:
        """Every live pending write with its workload."""
        for entry, pending_write in self._pending_writes.values():
            yield entry.ref, pending_write

    def with_objects(self) -> Iterator[Entry]:
        """Workloads on which objects pend."""
        return (entry for entry, _ in self._objects.values())

    def get(self, pending_id: str) -> tuple[WorkloadRef, PendingWrite] | None:
        """A live pending write with its workload."""
        found = self._pending_writes.get(pending_id)
        return (found[0].ref, found[1]) if found is not None else None

    def of_source(self, source: str) -> int:
        """How many live pending writes that source has."""
        return self._of_source[source]

    def of_tree(self, root: str) -> int:
        """How many live pending writes were recorded in the tree of that root quota."""
        return self._of_tree[root]

    def nodes(self, pending_id: str) -> Nodes:
        """The quotas in which the workload of a live pending write may come to count; none if it is not live."""
        found = self._pending_writes.get(pending_id)
        return self._usage.position(found[0].root).envelope_in if found is not None else ()

    def leaf_quotas(self, pending_id: str) -> frozenset[str]:
        """Their names, without their ancestors."""
        return leaves(self.nodes(pending_id))

    def bytes_held_in(self, quota: str) -> int:
        """What those hold that were recorded in one quota without quotas below it; empty: in none."""
        return self._bytes[quota]

    # How they come.

    def add(self, entry: Entry, pending_write: PendingWrite, position: Position) -> None:
        """Put ``pending_write`` on ``entry``, which counts in the quotas of ``position``."""
        assert pending_write.id not in self._pending_writes, f"pending write {pending_write.id} is recorded already"
        alike, held = self._alike(pending_write), held_by(entry.ref, pending_write, position.envelope_in)
        quotas = (leaves(position.envelope_in) or UNCOVERED) if held else None
        trees = position.trees
        self._trees[pending_write.id] = trees
        self._pending_writes[pending_write.id] = alike[pending_write.id] = entry, pending_write
        self._of_source[pending_write.source] += 1
        for root in trees:
            self._of_tree[root] += 1
        if pending_write.answered_s is not None:
            self._answered[pending_write.id] = entry
        entry.add(pending_write)
        if quotas is not None:
            self._count_bytes(quotas, held)
            self._held[pending_write.id] = quotas, held
        if entry.observed is None:
            self._ownership.find_claims(entry)

    def take_back(self, entry: Entry, pending_write: PendingWrite) -> None:
        """Undo ``add`` and ``add_to_owner``, as far as they have come. Whoever calls sees to positions."""
        followed = self._on_owners.pop(pending_write.id, None)
        owner = self._workloads.get(followed[0]) if followed is not None else None
        if followed is not None and owner is not None and followed[1].id in (owner.pending_writes or ()):
            owner.remove(followed[1])
        if pending_write.id in self._trees:
            self._remove(pending_write)
        self._ownership.find_claims(entry)

    def add_to_owner(self, owner: Entry, pending_write: PendingWrite, template: PendingWrite) -> None:
        """As long as ``pending_write`` is live, let pend on ``owner`` what it may bring there."""
        entry = self._workloads.get(owner.ref) or owner
        self._workloads.keep(entry)
        self._on_owners[pending_write.id] = entry.ref, template
        self._usage.change(entry.root, lambda: entry.add(template))

    def entering(self, entry: Entry) -> Iterator[tuple[Entry, PendingWrite]]:
        """Live pending writes that may bring something into the family of ``entry``."""
        for pending_id, (ref, _) in self._on_owners.items():
            owner = self._workloads.get(ref)
            if owner is not None and entry in owner.lineage():
                yield self._pending_writes[pending_id]

    def renew(self, pending_write: PendingWrite, expires_s: float) -> None:
        """Let a live ``pending_write`` also stand for one more request of the same effect, which may land until
        ``expires_s``."""
        self._extend(pending_write, pending_write.renewed + 1, expires_s)

    def learn(self, told: PendingWrite) -> None:
        """Take what another gate says of a pending write that is live here too: for how many requests it stands, and
        until when."""
        _, known = self._pending_writes[told.id]
        self._extend(known, told.renewed, told.expires_s)

    def _extend(self, pending_write: PendingWrite, renewed: int, expires_s: float) -> None:
        if renewed > pending_write.renewed:
            pending_write.renewed = renewed
            pending_write.state, pending_write.answered_s = State.OPEN, None  # the answer was to an earlier request
            self._answered.pop(pending_write.id, None)
        if expires_s > pending_write.expires_s:
            pending_write.expires_s = expires_s
            for order in (self._pending_writes, self._alike(pending_write)):
                order[pending_write.id] = order.pop(pending_write.id)

    def _alike(self, pending_write: PendingWrite) -> dict[str, tuple[Entry, PendingWrite]]:
        """Those that have the same landing window: an object brings labels, and be it none."""
        return self._objects if pending_write.labels else self._counts

    # How they end: by these and by nothing else.

    def settle(self, pending_id: str, event: Event, now_s: float) -> WorkloadRef | None:
        """Take what became of the request of a pending write. Unknown ids do nothing.

        Returns:
            The workload whose consistent read, begun after ``now_s``, would end the pending write; else ``None``.
        """
        found = self._pending_writes.get(pending_id)
        if found is None:
            return None
        entry, pending_write = found
        if pending_write.on(event):
            self.end(entry, [pending_write], _FATES.get(event, Fate.ENDED))
            return None
        if event is not Event.ANSWERED_OK or pending_write.renewed:
            return None
        if pending_write.answered_s is None:
            pending_write.answered_s = now_s
            self._answered[pending_write.id] = entry
        return entry.ref

    def tick(self, now_s: float) -> int:
        """Let time pass: where the landing window has elapsed, a write waits for a read. Returns how many."""
        waiting = 0
        for _, pending_write in self._expired(now_s):
            pending_write.on(Event.WINDOW_ELAPSED)
            waiting += 1
        return waiting

    def due(self, now_s: float) -> list[WorkloadRef]:
        """Workloads with a pending write that waits for a consistent read: it was answered, or its landing window has
        elapsed. Each once.

        A name that begins with ``#`` is no object's: it stands for a create that left the name to the API server. To
        read it is to list, and to observe, all of that kind in its namespace.
        """
        waiting = {entry.ref: None for entry, _ in self._expired(now_s)}
        waiting.update((entry.ref, None) for entry in self._answered.values())
        return list(waiting)

    def read(self, ref: WorkloadRef, started_s: float) -> int:
        """A consistent read of ``ref`` that began at ``started_s`` has been observed.

        Returns how many pending writes on it ended by that (L3c, L3e). Those on its ReplicaSets stay.
        """
        entry = self._workloads.get(ref)
        if entry is None:
            return 0
        own = [one for one in entry.live_pending_writes() if one.id in self._pending_writes]
        return self._end_by_read(entry, own, started_s)

    def consistent_read(self, started_s: float) -> int:
        """The whole state is taken to be as of ``started_s`` or newer: whose landing window had elapsed by then ends.

        Returns how many ended by it (L3e). What was only answered stays: this is for sources that nobody can ask for
        the state after an answer.
        """
        expired: dict[int, tuple[Entry, list[PendingWrite]]] = {}
        for entry, pending_write in self._expired(started_s):
            expired.setdefault(id(entry), (entry, []))[1].append(pending_write)
        return sum(self._end_by_read(entry, pending_writes, started_s) for entry, pending_writes in expired.values())

    def forget(self, pending_id: str) -> None:
        """Drop a pending write that was never granted, or that another gate has ended. Unknown ids do nothing."""
        found = self._pending_writes.get(pending_id)
        if found is not None:
            self.end(found[0], [found[1]], Fate.WITHDRAWN)

    def end_passed(self, entry: Entry | None, is_passed: Callable[[PendingWrite], bool]) -> None:
        """End those of an entry whose precondition can no longer be met (L3d)."""
        live = entry.live_pending_writes() if entry is not None else ()
        passed = [one for one in live if is_passed(one) and one.on(Event.PRECONDITION_PASSED)]
        if entry is not None and passed:
            self.end(entry, passed)

    def end(self, entry: Entry, pending_writes: Iterable[PendingWrite], fate: Fate = Fate.ENDED) -> None:
        """Remove ended pending writes from their entry, and free their room.

        Args:
            fate: what became of those whose success nobody has answered.
        """

        def remove() -> None:
            for pending_write in pending_writes:
                self._remove(pending_write)
                if self.on_end is not None:
                    self.on_end(pending_write.id, fate if pending_write.answered_s is None else Fate.LANDED)
            self._ownership.find_claims(entry)

        self._change(entry, remove)
        for ended in pending_writes:
            if ended.id in self._on_owners:
                self._leave(*self._on_owners.pop(ended.id))

    def _leave(self, owner: WorkloadRef, template: PendingWrite) -> None:
        entry = self._workloads.get(owner)
        assert entry is not None, "it has a pending write"
        self._change(entry, lambda: entry.remove(template))

    def _change(self, entry: Entry, remove: Callable[[], None]) -> None:
        """Take pending writes off an entry, and forget it if nothing is left. What is forgotten is no part of the
        position any more: a family counts otherwise with it than without."""
        head = entry.root

        def change() -> None:
            remove()
            if entry is not head:
                self._ownership.forget_gone(entry)

        self._usage.change(head, change)
        self._ownership.forget_gone(head)

    def _end_by_read(self, entry: Entry, pending_writes: Iterable[PendingWrite], started_s: float) -> int:
        ended = [pending_write for pending_write in pending_writes if pending_write.on_read(started_s)]
        if ended:
            self.end(entry, ended)
        return len(ended)

    def _expired(self, now_s: float) -> Iterator[tuple[Entry, PendingWrite]]:
        """Pending writes whose landing window has elapsed. One that is behind another with more time left waits for it,
        which is safe."""
        for order in (self._counts, self._objects):
            for entry, pending_write in order.values():
                if pending_write.expires_s > now_s:
                    break
                yield entry, pending_write

    def _remove(self, pending_write: PendingWrite) -> None:
        entry, _ = self._pending_writes.pop(pending_write.id)
        del self._alike(pending_write)[pending_write.id]
        self._answered.pop(pending_write.id, None)
        self._of_source[pending_write.source] -= 1
        if not self._of_source[pending_write.source]:
            del self._of_source[pending_write.source]
        for root in self._trees.pop(pending_write.id):
            self._of_tree[root] -= 1
            if not self._of_tree[root]:
                del self._of_tree[root]
        if pending_write.id in self._held:
            quotas, held = self._held.pop(pending_write.id)
            self._count_bytes(quotas, -held)
        if pending_write.id in (entry.pending_writes or ()):
            entry.remove(pending_write)

    def _count_bytes(self, quotas: Iterable[str], more: int) -> None:
        self.bytes_held += more
        for quota in quotas:
            self._bytes[quota] += more
            if not self._bytes[quota]:
                del self._bytes[quota]


RECORD_BYTES: Final = 128
"""What the record of a count takes in the ledger object, beside the names in it."""


def held_by(ref: WorkloadRef, pending_write: PendingWrite, nodes: Nodes) -> int:
    """Bytes of the templates and labels that a pending write may leave, and that its bounds count.

    A count holds none. Where no quota covers the workload (``nodes``), its record counts: any client may send counts
    for names that need not exist, and no quota bounds how many.
    """
    held = sum(len(template.text) for template in pending_write.templates) + sum(map(len, pending_write.labels))
    return held if nodes else held + RECORD_BYTES + sum(map(len, ref)) + len(pending_write.source)
