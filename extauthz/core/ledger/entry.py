"""A workload in the ledger: what is observed of it, its intents, and which objects it covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extauthz.core.ledger.claims import Claims
from extauthz.core.ledger.intents import Intent
from extauthz.core.ledger.position import Position
from extauthz.core.model import Labels, Observed, WorkloadRef
from extauthz.core.objects.metadata import selects


class Entry:
    """One workload. A ReplicaSet that its live Deployment covers has ``head`` set and is charged through it."""

    __slots__ = ("born", "children", "claims", "head", "intents", "observed", "pods", "ref", "standing")

    def __init__(self, ref: WorkloadRef) -> None:
        self.ref = ref
        self.observed: Observed | None = None
        self.born: Observed | None = None
        """The object as an allowed create would make it, or as it was before it went: what writes under way would find
        where it is made, or made anew. Attributes it to its owner until it is observed."""
        self.intents: dict[str, Intent] | None = None
        self.children: dict[WorkloadRef, Entry] | None = None
        """Workloads and revisions that it covers."""
        self.pods: dict[WorkloadRef, Entry] | None = None
        """Groups of pods that it covers."""
        self.claims: Claims | None = None
        """Volume claims that are named after it."""
        self.head: Entry | None = None
        self.standing: Position | None = None
        """Its position, kept while it has an intent: autoscalers ask again before their last write is settled."""

    @property
    def idle(self) -> bool:
        """Nothing is known of it, and it has no intent: it can be forgotten."""
        return self.observed is None and not self.intents

    @property
    def root(self) -> Entry:
        """The entry that it is charged through: its head, or the head of that, and so on; itself without a head."""
        entry = self
        while entry.head is not None:
            entry = entry.head
        return entry

    @property
    def is_plain(self) -> bool:
        """Nobody refers to it: no intent, no member of a family, no owner whose family it may come to join."""
        return not (self.intents or self.children or self.pods or self.claims or self.head)

    @property
    def is_known(self) -> bool:
        """It was observed, or a create of it was allowed."""
        return self.observed is not None or any(intent.creates for intent in self.live_intents())

    @property
    def shown(self) -> Observed | None:
        """The best that is known of the object: a refused create may mean that another one came first."""
        return self.observed or self.born

    def live_intents(self) -> tuple[Intent, ...]:
        return tuple(self.intents.values()) if self.intents else ()

    def with_intents(self, intents: Iterable[Intent]) -> Entry:
        """A copy with these intents, in its place in a copy of its owners. Everything else is shared."""
        copy = below = self._copy()
        copy.intents = {intent.id: intent for intent in intents} or None
        while below.head is not None:
            above = below.head = below.head._copy()
            above.children = {**(above.children or {}), below.ref: below}
            below = above
        return copy

    def _copy(self) -> Entry:
        copy = Entry(self.ref)
        for slot in ("born", "children", "claims", "head", "intents", "observed", "pods"):
            setattr(copy, slot, getattr(self, slot))
        return copy

    def add(self, intent: Intent) -> None:
        if self.intents is None:
            self.intents = {}
        self.intents[intent.id] = intent

    def remove(self, intent: Intent) -> None:
        assert self.intents is not None, "an entry with a live intent has a table of them"
        del self.intents[intent.id]
        self.intents = self.intents or None

    def top_replicas(self) -> int:
        """The highest replica count over observed state and live intents (docs/glossary.md)."""
        top = self.observed.replicas if self.observed is not None else 0
        if self.intents:
            for intent in self.intents.values():
                if intent.replicas is not None and intent.replicas > top:
                    top = intent.replicas
        return top

    def all_labels(self) -> Iterator[Labels]:
        """The labels that it has, and those that an intent may give it."""
        if self.shown is not None:
            yield self.shown.labels
        for intent in self.live_intents():
            yield from intent.labels

    def may_leave(self) -> bool:
        """Whether an intent may remove it from ``head``, whose controller then creates another one."""
        return any(self._leaves(intent) for intent in self.live_intents())

    def _leaves(self, intent: Intent) -> bool:
        owner = self.head.observed if self.head is not None else None
        assert owner is not None, "only a live owner covers"
        if intent.owner is not None and intent.owner.uid != owner.uid:
            return True
        made_of_nobody = intent.creates and intent.owner is None and self.observed is None
        return intent.frees or made_of_nobody or not all(selects(owner.selector, one) for one in intent.labels)
