"""Pending writes: all live intents of all workloads, from their record to their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from extauthz.core.ledger.coverage import Nodes, leaves
from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.intents import Event, Intent
from extauthz.core.ledger.ownership import Ownership
from extauthz.core.ledger.position import Position
from extauthz.core.ledger.store import Store
from extauthz.core.ledger.usage import Usage
from extauthz.core.model import WorkloadRef

UNCOVERED: Final = frozenset([""])
"""Where no quota covers a workload, all such workloads share one bound."""


class PendingWrites:
    """Live intents in the order in which they were recorded or renewed. Every intent of an entry goes through this."""

    def __init__(self, workloads: Store, ownership: Ownership, usage: Usage) -> None:
        self._workloads = workloads
        self._ownership = ownership
        self._usage = usage
        self._intents: dict[str, tuple[Entry, Intent]] = {}
        self._answered: dict[str, Entry] = {}
        self._of_source: Counter[str] = Counter()
        self._trees: dict[str, frozenset[str]] = {}
        self._of_tree: Counter[str] = Counter()
        self._leaves: dict[str, frozenset[str]] = {}
        """Of those that hold bytes worth a bound; ``{""}`` where no quota covers the workload."""
        self._bytes: Counter[str] = Counter()
        self.bytes_held = 0
        """By all of them."""

    def __len__(self) -> int:
        return len(self._intents)

    def follows(self, intent_id: str) -> bool:
        """Whether an intent of that id is live."""
        return intent_id in self._intents

    def __iter__(self) -> Iterator[tuple[WorkloadRef, Intent]]:
        """Every live intent with its workload."""
        for entry, intent in self._intents.values():
            yield entry.ref, intent

    def get(self, intent_id: str) -> tuple[WorkloadRef, Intent] | None:
        """A live intent with its workload."""
        found = self._intents.get(intent_id)
        return (found[0].ref, found[1]) if found is not None else None

    def of_source(self, source: str) -> int:
        """How many live intents that source has."""
        return self._of_source[source]

    def of_tree(self, root: str) -> int:
        """How many live intents were recorded in the tree of that root quota."""
        return self._of_tree[root]

    def nodes(self, intent_id: str) -> Nodes:
        """The quotas in which the workload of a live intent may come to count; none if it is not live."""
        found = self._intents.get(intent_id)
        return self._usage.position(found[0].root).envelope_in if found is not None else ()

    def leaf_quotas(self, intent_id: str) -> frozenset[str]:
        """Their names, without their ancestors."""
        return leaves(self.nodes(intent_id))

    def bytes_held_in(self, quota: str) -> int:
        """What those hold that were recorded in one quota without quotas below it; empty: in none."""
        return self._bytes[quota]

    # How they come.

    def add(self, entry: Entry, intent: Intent, position: Position) -> None:
        """Put ``intent`` on ``entry``, which counts in the quotas of ``position``."""
        assert intent.id not in self._intents, f"intent {intent.id} is recorded already"
        self._intents[intent.id] = (entry, intent)
        self._of_source[intent.source] += 1
        self._trees[intent.id] = position.trees
        for root in position.trees:
            self._of_tree[root] += 1
        if intent.held_bytes:
            self._leaves[intent.id] = leaves(position.envelope_in) or UNCOVERED
            self._hold(intent, intent.held_bytes)
        if intent.answered_s is not None:
            self._answered[intent.id] = entry
        entry.add(intent)

    def renew(self, intent: Intent, expires_s: float) -> None:
        """Let a live ``intent`` also stand for one more request of the same effect, which may land until
        ``expires_s``."""
        intent.expires_s = max(intent.expires_s, expires_s)
        intent.renewed = True
        self._intents[intent.id] = self._intents.pop(intent.id)

    # How they end: by these and by nothing else.

    def settle(self, intent_id: str, event: Event, now_s: float) -> WorkloadRef | None:
        """Take what became of the request of an intent. Unknown ids do nothing.

        Returns:
            The workload whose consistent read, begun after ``now_s``, would end the intent; else ``None``.
        """
        found = self._intents.get(intent_id)
        if found is None:
            return None
        entry, intent = found
        if intent.on(event):
            self.end(entry, [intent])
            return None
        if event is not Event.ANSWERED_OK or intent.renewed:
            return None
        if intent.answered_s is None:
            intent.answered_s = now_s
            self._answered[intent.id] = entry
        return entry.ref

    def tick(self, now_s: float) -> int:
        """Let time pass: intents whose landing window has elapsed wait for a consistent read. Returns how many do so
        now."""
        waiting = 0
        for _, intent in self._expired(now_s):
            intent.on(Event.WINDOW_ELAPSED)
            waiting += 1
        return waiting

    def due(self, now_s: float) -> list[WorkloadRef]:
        """Workloads with an intent that waits for a consistent read: it was answered, or its landing window has
        elapsed. Each once.

        A name that begins with ``#`` is no object's: it stands for a create that left the name to the API server. To
        read it is to list, and to observe, all of that kind in its namespace.
        """
        waiting = {entry.ref: None for entry, _ in self._expired(now_s)}
        waiting.update((entry.ref, None) for entry in self._answered.values())
        return list(waiting)

    def read(self, ref: WorkloadRef, started_s: float) -> int:
        """A consistent read of ``ref`` that began at ``started_s`` has been observed.

        Returns how many intents on it ended by that (L3c, L3e). Says nothing of intents on its ReplicaSets.
        """
        entry = self._workloads.get(ref)
        return self._end_by_read(entry, entry.live_intents(), started_s) if entry is not None else 0

    def consistent_read(self, started_s: float) -> int:
        """The whole state is taken to be as of ``started_s`` or newer: whose landing window had elapsed by then ends.

        Returns how many ended by it (L3e). Intents that were only answered stay: this is for sources that nobody can
        ask for the state after an answer.
        """
        expired: dict[int, tuple[Entry, list[Intent]]] = {}
        for entry, intent in self._expired(started_s):
            expired.setdefault(id(entry), (entry, []))[1].append(intent)
        return sum(self._end_by_read(entry, intents, started_s) for entry, intents in expired.values())

    def forget(self, intent_id: str) -> None:
        """Drop an intent that was never granted, or that another gate has ended. Unknown ids do nothing."""
        found = self._intents.get(intent_id)
        if found is not None:
            self.end(found[0], [found[1]])

    def end(self, entry: Entry, intents: Iterable[Intent]) -> None:
        """Remove ended intents from their entry, and free their room."""

        def remove() -> None:
            for intent in intents:
                self._remove(intent)

        head = entry.root
        self._usage.change(head, remove)
        for one in (entry, head):
            self._ownership.release(one)

    def _end_by_read(self, entry: Entry, intents: Iterable[Intent], started_s: float) -> int:
        ended = [intent for intent in intents if intent.on_read(started_s)]
        if ended:
            self.end(entry, ended)
        return len(ended)

    def _expired(self, now_s: float) -> Iterator[tuple[Entry, Intent]]:
        """Intents whose landing window has elapsed. They are in the order of their expiry, because the window is the
        same for all. One that is behind another with more time left waits for it, which is safe."""
        for entry, intent in self._intents.values():
            if intent.expires_s > now_s:
                return
            yield entry, intent

    def _remove(self, intent: Intent) -> None:
        entry, _ = self._intents.pop(intent.id)
        self._answered.pop(intent.id, None)
        self._of_source[intent.source] -= 1
        if not self._of_source[intent.source]:
            del self._of_source[intent.source]
        for root in self._trees.pop(intent.id):
            self._of_tree[root] -= 1
            if not self._of_tree[root]:
                del self._of_tree[root]
        if intent.id in self._leaves:
            self._hold(intent, -intent.held_bytes)
            del self._leaves[intent.id]
        entry.remove(intent)

    def _hold(self, intent: Intent, more: int) -> None:
        self.bytes_held += more
        for quota in self._leaves[intent.id]:
            self._bytes[quota] += more
            if not self._bytes[quota]:
                del self._bytes[quota]
