"""A workload in the ledger: what is observed of it, the intents on it, and who is covered by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from extauthz.core.ledger.charge import Charge
from extauthz.core.ledger.claims import Claims
from extauthz.core.ledger.intents import Intent
from extauthz.core.ledger.scope import Nodes
from extauthz.core.model import Amounts, Labels, Observed, WorkloadRef
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
        """Its position, kept while an intent lives on it: autoscalers ask again before their last write is settled."""

    @property
    def idle(self) -> bool:
        """Nothing is known of it and nothing pends: it can be forgotten."""
        return self.observed is None and not self.intents

    @property
    def root(self) -> Entry:
        """What it is charged through: the head of its head, and so on; itself where it has none."""
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
        """It was seen, or a create of it was allowed."""
        return self.observed is not None or any(intent.creates for intent in self.live_intents())

    @property
    def shown(self) -> Observed | None:
        """The best that is known of the object: a refused create may mean that another one came first."""
        return self.observed or self.born

    def live_intents(self) -> tuple[Intent, ...]:
        return tuple(self.intents.values()) if self.intents else ()

    def with_intents(self, intents: Iterable[Intent]) -> Entry:
        """A copy that has just these, in its place in a copy of its owners. Whatever else there is, both share."""
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
        """The labels that it has and those that an intent may give it."""
        if self.shown is not None:
            yield self.shown.labels
        for intent in self.live_intents():
            yield from intent.labels

    def may_leave(self) -> bool:
        """Whether some intent may take it from ``head``, whose controller then puts another in its place."""
        return any(self._leaves(intent) for intent in self.live_intents())

    def _leaves(self, intent: Intent) -> bool:
        owner = self.head.observed if self.head is not None else None
        assert owner is not None, "only a live owner covers"
        if intent.owner is not None and intent.owner.uid != owner.uid:
            return True
        made_of_nobody = intent.creates and intent.owner is None and self.observed is None
        return intent.frees or made_of_nobody or not all(selects(owner.selector, one) for one in intent.labels)


class Position(NamedTuple):
    """What an entry and its children amount to, and in which quotas."""

    used: Charge
    used_in: Nodes
    envelope: Charge
    envelope_in: Nodes
    unknown: bool
    """Some template's cost cannot be told."""
    pod: Amounts | None = None
    """What each replica costs, where nothing but the count of the head may change."""

    @property
    def settled(self) -> Position:
        """Where it is without what pends. Only where ``pod`` is known."""
        assert self.pod is not None, "other writes than of the count are under way"
        if self.envelope is self.used:
            return self
        return Position(self.used, self.used_in, self.used, self.used_in, self.unknown, self.pod)

    @property
    def trees(self) -> frozenset[str]:
        """Names of the root quotas in whose trees it counts, or may come to."""
        return frozenset([node.root for node in self.envelope_in])

    @property
    def leaves(self) -> frozenset[str]:
        """Names of the quotas in which it counts, or may come to, without their ancestors."""
        parents = {node.parent for node in self.envelope_in}
        return frozenset(node.quota.name for node in self.envelope_in if node not in parents)

    def with_count(self, replicas: int) -> Position:
        """Where it would be with one more write of the head's count alone. Only where ``pod`` is known."""
        assert self.pod is not None, "other writes are under way"
        used, used_in, (top, before, per_object), envelope_in, unknown, pod = self
        higher = {
            key: amount
            for key, each in self.pod.items()
            if (amount := replicas * each + per_object.get(key, 0)) > before.get(key, 0)
        }
        if not higher and replicas <= top:
            return self
        charge = Charge(max(top, replicas), {**before, **higher}, per_object)
        return Position(used, used_in, charge, envelope_in, unknown, pod)


class Step(NamedTuple):
    """What one more write does to what a workload is charged through."""

    before: Position
    after: Position
    base: Position
    """As ``before``, without what pends on the workload itself."""
    own: Position
    """As ``base``, with this write alone."""

    @property
    def multiplies_unknown(self) -> bool:
        """It makes more of pods whose cost cannot be told, or is the first to make some."""
        before, after, base, own = (at.envelope.replicas for at in self)
        return not self.before.unknown or after > before or own > base
