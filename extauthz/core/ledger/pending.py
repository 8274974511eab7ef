"""The intents that live, over all workloads: by id, by source and tree, and which of them await a consistent read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from extauthz.core.ledger.entry import Entry, Position
from extauthz.core.ledger.intents import Intent
from extauthz.core.model import WorkloadRef

UNCOVERED: Final = frozenset([""])
"""Where no quota covers a workload, all such workloads share one bound."""


class Pending:
    """Live intents in the order in which they were recorded or renewed. Knows of all that go on entries through it."""

    def __init__(self) -> None:
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

    def __contains__(self, intent_id: str) -> bool:
        return intent_id in self._intents

    def __iter__(self) -> Iterator[tuple[Entry, Intent]]:
        return iter(self._intents.values())

    def get(self, intent_id: str) -> tuple[Entry, Intent] | None:
        """An intent with the workload that it is on."""
        return self._intents.get(intent_id)

    def of_source(self, source: str) -> int:
        """How many of that source live."""
        return self._of_source[source]

    def of_tree(self, root: str) -> int:
        """How many were recorded in the tree of that root quota, as it was then."""
        return self._of_tree[root]

    def bytes_held_in(self, quota: str) -> int:
        """How many bytes those hold that were recorded in one quota without quotas below it; empty: in none."""
        return self._bytes[quota]

    def add(self, entry: Entry, intent: Intent, position: Position) -> None:
        """Put ``intent`` on ``entry``, which counts in the quotas of ``position``."""
        assert intent.id not in self._intents, f"intent {intent.id} is recorded already"
        self._intents[intent.id] = (entry, intent)
        self._of_source[intent.source] += 1
        self._trees[intent.id] = position.trees
        for root in position.trees:
            self._of_tree[root] += 1
        if intent.held_bytes:
            self._leaves[intent.id] = position.leaves or UNCOVERED
            self._hold(intent, intent.held_bytes)
        if intent.answered_s is not None:
            self._answered[intent.id] = entry
        entry.add(intent)

    def remove(self, intent: Intent) -> None:
        """Take an intent that has ended off its entry."""
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

    def answered(self, entry: Entry, intent: Intent, now_s: float) -> None:
        """The API server is known to have carried it out."""
        if intent.answered_s is None:
            intent.answered_s = now_s
            self._answered[intent.id] = entry

    def renew(self, intent: Intent, expires_s: float) -> None:
        """A later request of the same effect was allowed: it may land until ``expires_s``."""
        intent.expires_s = max(intent.expires_s, expires_s)
        intent.renewed = True
        self._intents[intent.id] = self._intents.pop(intent.id)

    def expired(self, now_s: float) -> Iterator[tuple[Entry, Intent]]:
        """Those whose W has elapsed. They stand in the order in which they expire, as W is the same for all;
        one that stands behind another with more time left waits for it, which is safe."""
        for entry, intent in self._intents.values():
            if intent.expires_s > now_s:
                return
            yield entry, intent

    def due(self, now_s: float) -> list[WorkloadRef]:
        """Workloads with an intent that a consistent read would end: answered, or W has elapsed. Each once."""
        waiting = {entry.ref: None for entry, _ in self.expired(now_s)}
        waiting.update((entry.ref, None) for entry in self._answered.values())
        return list(waiting)
