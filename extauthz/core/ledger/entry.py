"""Workloads in the ledger: what is observed of each, its pending writes, and which objects it covers.

A *pending write* was allowed and may still land. "Not there" is not "will never be": the API server may finish a
request after its client went away. So a pending write ends only by the rows of ``TRANSITIONS``, and every pair of state
and event has a row (design.md L3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from extauthz.core.kinds import SHARE_TEMPLATES
from extauthz.core.ledger.accounts import NOWHERE, Charge
from extauthz.core.ledger.claims import Claims
from extauthz.core.model import Amounts, Kind, Labels, Observed, OwnerRef, Precondition, Template, WorkloadRef
from extauthz.core.objects.fields import selects


class State(StrEnum):
    OPEN = "open"
    """Allowed; nothing certain is known since."""
    SUCCEEDED = "succeeded"
    """The API server answered 2xx. No read after that answer has shown the effect yet."""
    EXPIRED = "expired"
    """The landing window has elapsed. It cannot land any more, but its effect may not be observed yet."""
    ENDED = "ended"


class Event(StrEnum):
    NOT_FORWARDED = "not-forwarded"
    """It never left the proxy (L3a)."""
    REFUSED = "refused"
    """Answered 4xx, but not 408, in a single attempt (L3b)."""
    ANSWERED_OK = "answered-ok"
    """Answered 2xx."""
    ANSWERED_UNCLEAR = "answered-unclear"
    """408, 5xx or a reset: it may have landed, and may still."""
    SEEN = "seen"
    """A consistent read that began after the answer is part of the observed state (L3c)."""
    PRECONDITION_PASSED = "precondition-passed"
    """The observed object has moved past the precondition, or is gone (L3d)."""
    WINDOW_ELAPSED = "window-elapsed"
    """The landing window has elapsed (L3e)."""
    READ_AFTER_WINDOW = "read-after-window"
    """A consistent read that began after the landing window is part of the observed state (L3e)."""


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.OPEN: {
        # Without a response nothing seen proves that it will not land later.
        **dict.fromkeys(Event, State.OPEN),
        Event.NOT_FORWARDED: State.ENDED,
        Event.REFUSED: State.ENDED,
        Event.ANSWERED_OK: State.SUCCEEDED,
        Event.PRECONDITION_PASSED: State.ENDED,
        Event.WINDOW_ELAPSED: State.EXPIRED,
    },
    State.SUCCEEDED: {
        **dict.fromkeys(Event, State.SUCCEEDED),
        Event.SEEN: State.ENDED,
        Event.PRECONDITION_PASSED: State.ENDED,
        Event.READ_AFTER_WINDOW: State.ENDED,
    },
    State.EXPIRED: {
        **dict.fromkeys(Event, State.EXPIRED),
        Event.NOT_FORWARDED: State.ENDED,
        Event.REFUSED: State.ENDED,
        Event.ANSWERED_OK: State.SUCCEEDED,
        Event.PRECONDITION_PASSED: State.ENDED,
        Event.READ_AFTER_WINDOW: State.ENDED,
    },
    State.ENDED: dict.fromkeys(Event, State.ENDED),
}
"""What changes nothing is not named."""


ANSWERS = frozenset({Event.NOT_FORWARDED, Event.REFUSED, Event.ANSWERED_OK})
"""An event that is certain about one request."""


@dataclass(slots=True)
class PendingWrite:
    """What one allowed request may still do. ``None`` and ``()`` mean: it leaves that as it is. Where it may
    leave one of several, all are listed."""

    id: str
    replicas: int | None
    templates: tuple[Template, ...]
    labels: tuple[Labels, ...]
    creates: bool
    """It may create the object."""
    precondition: Precondition
    expires_s: float
    """When the landing window has elapsed, on the gate's own monotonic clock."""
    state: State = State.OPEN
    source: str = ""
    """Who sent it; empty: not known."""
    answered_s: float | None = None
    """When the answer of success came, on the clock of ``expires_s``."""
    owner: OwnerRef | None = None
    """The controller that it names; ``None``: none, or as it is."""
    frees: bool = False
    """It may remove the object's controller."""
    renewed: int = 0
    """For how many later requests of the same effect it stands too. So the answer to one of them does not end it."""
    joins: tuple[Labels, ...] = ()
    """The labels of the owner whose family it may bring the object into: the object may come to count by them."""

    @property
    def counts_alone(self) -> bool:
        """It changes no template and no label, and brings the object into no family."""
        return not self.templates and not self.labels and not self.joins

    @property
    def touches(self) -> bool:
        """It writes the template, the labels or the owner, or creates the object."""
        return bool(self.templates or self.labels or self.creates or self.frees or self.owner is not None)

    @property
    def is_admitted_create(self) -> bool:
        """It brings a whole object, whose uid is known. It lands only where there is none, and is seen when it has."""
        return self.creates and self.precondition.uid is not None

    def changes(self, observed: Observed) -> bool:
        """It leaves a template, labels or an owner that differ from those ``observed``."""
        return (
            self.frees
            or self.owner not in (None, observed.owner)
            or any(template != observed.template for template in self.templates)
            or any(labels != observed.labels for labels in self.labels)
        )

    @property
    def made(self) -> Observed | None:
        """The object that it makes where there is none; ``None``: it makes none."""
        if not self.creates:
            return None
        template = self.templates[0] if self.templates else None
        return Observed(self.replicas or 0, template, self.labels[0] if self.labels else "", owner=self.owner)

    @property
    def effect(self) -> tuple[object, ...]:
        """Its effect and its precondition. Identical retries have the same."""
        what = self.replicas, self.templates, self.labels, self.owner
        return *what, self.creates, self.frees, self.precondition

    def on(self, event: Event) -> bool:
        """Take ``event``. True: the pending write has ended."""
        if self.renewed and event in ANSWERS:
            event = Event.ANSWERED_UNCLEAR  # the answer to one of several requests
        self.state = TRANSITIONS[self.state][event]
        return self.state is State.ENDED

    def on_read(self, started_s: float) -> bool:
        """Take a consistent read of its workload that began at ``started_s``. True: the pending write has ended."""
        if self.expires_s <= started_s:
            self.on(Event.WINDOW_ELAPSED)
            return self.on(Event.READ_AFTER_WINDOW)
        return self.answered_s is not None and self.answered_s < started_s and self.on(Event.SEEN)

    def passed_by(self, before: Observed | None, observed: Observed | None) -> bool:
        """Whether its precondition can no longer be met, as the step from ``before`` to ``observed`` shows. ``None``
        means gone.

        The caller may have seen more than the gate: that what was there before is gone, or is still there, proves
        nothing.
        """
        wants_version, wants_uid = self.precondition
        if self.is_admitted_create and observed is not None and observed.uid == wants_uid:
            return True
        if wants_uid and before is not None and before.uid == wants_uid:
            now = observed.uid if observed is not None else "(gone)"
            if now and now != wants_uid:
                return True
        if wants_version is None:
            return False
        if observed is not None:
            return is_newer(observed.resource_version, wants_version)
        seen = before.resource_version if before is not None else ""
        return seen == wants_version or is_newer(seen, wants_version)


def is_newer(version: str, than: str) -> bool:
    """Whether resourceVersion ``version`` is later than ``than``; False where the two cannot be compared.

    resourceVersions of one resource are ordered decimal integers of any length, without zeros before them: the longer
    one is later (KEP-5504, comparable resource version).
    """
    is_later = (len(version), version) > (len(than), than)
    return is_later and _VERSION(version) is not None and _VERSION(than) is not None


_VERSION: Final = re.compile("0|[1-9][0-9]*").fullmatch


LeftTemplates: TypeAlias = tuple[Template, ...]
"""Templates that were left, and may still run."""


def is_named(ref: WorkloadRef, observed: Observed, owner: OwnerRef) -> bool:
    """Whether a reference to an owner means this very object, or a pod of its own that StatefulSets have made.

    Anybody can write either. What is above the owner's amount counts by itself (``envelope._excess``).
    """
    return owner.uid == observed.uid or (owner[:2] == _POD and owner.name.rpartition("-")[0] == ref.name)


_POD: Final = ("", "Pod")


class Part(NamedTuple):
    """What a member of a family comes to by itself."""

    of: tuple[object, ...]
    """All that this was worked out from."""
    charge: Charge
    excess: Amounts
    """What its pods hold beyond the count that it asks for."""
    unknown: bool


NOT_KEPT: Final = (-1, NOWHERE)


class Entry:
    """One workload. A ReplicaSet that its live Deployment covers has ``head`` set and is charged through it."""

    __slots__ = (
        "adoptable",
        "children",
        "claims",
        "expected",
        "found",
        "head",
        "kept_position",
        "left",
        "observed",
        "outside",
        "part",
        "pending_writes",
        "pods",
        "ref",
    )

    def __init__(self, ref: WorkloadRef) -> None:
        self.ref = ref
        self.observed: Observed | None = None
        self.expected: Observed | None = None
        """The object as an allowed create would make it, or as it was before it went: what writes under way would find
        where it is made, or made anew. Attributes it to its owner until it is observed."""
        self.left: LeftTemplates = ()
        """Templates that it had before this one, and that may still run."""
        self.adoptable: tuple[Template, ...] = ()
        """Those of orphaned ReplicaSets that it may adopt."""
        self.pending_writes: dict[str, PendingWrite] | None = None
        self.children: dict[WorkloadRef, Entry] | None = None
        """Workloads and revisions that it covers, and pods that may come."""
        self.pods: dict[WorkloadRef, Entry] | None = None
        """Groups of pods that it covers."""
        self.outside = 0
        """Pods of a StatefulSet with ordinals outside of its range: it makes others beside them."""
        self.claims: Claims | None = None
        """Volume claims that are named after it."""
        self.found: Claims | None = None
        """Of a copy: claims that a StatefulSet finds where it is made. They count by themselves until it is seen."""
        self.part: Part | None = None
        """Kept by ``envelope``."""
        self.head: Entry | None = None
        self.kept_position = NOT_KEPT
        """Its position, and of which epoch of ``Usage`` that is. It is kept while it has a pending write: autoscalers
        ask again before their last write is settled."""

    @property
    def idle(self) -> bool:
        """Nothing is known of it, and it has no pending write: it can be forgotten."""
        return self.observed is None and not self.pending_writes

    @property
    def root(self) -> Entry:
        """The entry that it is charged through: its head, or the head of that, and so on; itself without a head."""
        entry = self
        while entry.head is not None:
            entry = entry.head
        return entry

    @property
    def is_known(self) -> bool:
        """It was observed, or a create of it was allowed."""
        return self.observed is not None or any(pending_write.creates for pending_write in self.live_pending_writes())

    @property
    def shown(self) -> Observed | None:
        """The best that is known of the object: a refused create may mean that another one came first."""
        return self.observed or self.expected

    def live_pending_writes(self) -> tuple[PendingWrite, ...]:
        return tuple(self.pending_writes.values()) if self.pending_writes else ()

    def with_pending_writes(self, pending_writes: Iterable[PendingWrite]) -> Entry:
        """A copy with these pending writes, in its place in a copy of its owners. Everything else is shared."""
        copy = below = self._copy()
        copy.pending_writes = {pending_write.id: pending_write for pending_write in pending_writes} or None
        while below.head is not None:
            above = below.head = below.head._copy()
            above.children = {**(above.children or {}), below.ref: below}
            below = above
        return copy

    def pends(self, *, but: Entry) -> bool:
        """Whether it or what it covers has pending writes, one left out."""
        if self.pending_writes and self is not but:
            return True
        return any(child.pends(but=but) for child in (self.children or {}).values())

    def settled(self) -> Entry:
        """A copy without pending writes, in its place in a copy of its whole family, which has none either."""
        return self._in_family(None)

    def asking(self) -> Entry:
        """The same, of which only what is asked for is left: no pods, no ReplicaSets, and nothing that it covers
        itself."""
        return self._in_family(self)

    def _in_family(self, asking: Entry | None) -> Entry:
        copies: dict[WorkloadRef, Entry] = {}
        self.root._settle(None, copies, asking)
        for one in reversed([*self.lineage()]):
            if one.ref not in copies:  # its owner asks for its pods, or does not know of it so far
                one._settle(copies[one.head.ref] if one.head is not None else None, copies, asking)
        return copies[self.ref]

    def _settle(self, head: Entry | None, copies: dict[WorkloadRef, Entry], asking: Entry | None) -> None:
        copy = copies[self.ref] = self._copy()
        copy.pending_writes, copy.head, children = None, head, self.children
        if asking is not None:
            copy.pods, copy.outside = None, 0
            children = None if self is asking or self.ref[:2] in SHARE_TEMPLATES else children
        for child in children.values() if children else ():
            child._settle(copy, copies, asking)
        copy.children = {ref: copies[ref] for ref in children} if children else None

    def without_children(self, go: Callable[[Entry], bool]) -> Entry:
        """A copy without children that ``go``."""
        copy = self._copy()
        copy.children = {ref: child for ref, child in (self.children or {}).items() if not go(child)} or None
        return copy

    def with_claims(self, keep: Callable[[Labels], bool]) -> Entry:
        """A copy with those of its claims whose labels ``keep`` is true of. It finds the others."""
        assert self.claims is not None, "it finds some"
        copy = self._copy()
        copy.claims, copy.found = self.claims.those(keep), self.claims.those(lambda labels: not keep(labels))
        return copy

    def _copy(self) -> Entry:
        copy = Entry(self.ref)
        for slot in self.__slots__:
            setattr(copy, slot, getattr(self, slot))
        copy.kept_position = NOT_KEPT
        return copy

    def add(self, pending_write: PendingWrite) -> None:
        if self.pending_writes is None:
            self.pending_writes = {}
        self.pending_writes[pending_write.id] = pending_write

    def remove(self, pending_write: PendingWrite) -> None:
        assert self.pending_writes is not None, "an entry with a live pending write has a table of them"
        del self.pending_writes[pending_write.id]
        self.pending_writes = self.pending_writes or None

    def top_replicas(self) -> int:
        """The highest replica count over observed state and live pending writes (docs/glossary.md)."""
        top = self.observed.replicas if self.observed is not None else 0
        if self.pending_writes:
            for pending_write in self.pending_writes.values():
                if pending_write.replicas is not None and pending_write.replicas > top:
                    top = pending_write.replicas
        return top

    def top_count(self) -> int:
        """The highest count that the observed template may meet."""
        top = self.observed.replicas if self.observed is not None else 0
        return max([top, *(one.replicas or 0 for one in self.live_pending_writes() if not one.templates)])

    def stored_before(self, version: str) -> Iterator[PendingWrite]:
        """Objects that pend, and may have been stored before ``version`` of it was."""
        for one in self.live_pending_writes():
            if one.templates and is_newer(version, one.precondition.resource_version or ""):
                yield one

    def all_labels(self) -> Iterator[Labels]:
        """The labels that it has, and those by which it may count where a pending write has landed."""
        if self.shown is not None:
            yield self.shown.labels
        for pending_write in self.live_pending_writes():
            yield from pending_write.labels
            yield from pending_write.joins

    def family_labels(self) -> tuple[Labels, ...]:
        """Those by which it may count with what it is charged through, or with an owner that may leave that. Each
        once."""
        counting = [one for one in self.lineage() if one.head is None or one.may_leave()]
        return tuple(dict.fromkeys(labels for one in counting for labels in one.all_labels()))

    def all_family_labels(self) -> tuple[Labels, ...]:
        """The same, and those of all in between: nobody asks before an owner is deleted."""
        return tuple(dict.fromkeys(labels for one in self.lineage() for labels in one.all_labels()))

    def lineage(self) -> Iterator[Entry]:
        """Itself, its head, the head of that, and so on."""
        one: Entry | None = self
        while one is not None:
            yield one
            one = one.head

    def may_leave(self) -> bool:
        """Whether a pending write may remove it from ``head``, whose controller then creates another one."""
        return any(self.leaves(pending_write) for pending_write in self.live_pending_writes())

    def leaves(self, pending_write: PendingWrite) -> bool:
        """Whether it may remove this from ``head``."""
        owner = self.head.observed if self.head is not None else None
        assert self.head is not None, "it has one"
        assert owner is not None, "only a live owner covers"
        if pending_write.owner is not None and not is_named(self.head.ref, owner, pending_write.owner):
            return True
        made_of_nobody = pending_write.creates and pending_write.owner is None and self.observed is None
        return (
            pending_write.frees
            or made_of_nobody
            or not all(selects(owner.selector, one) for one in pending_write.labels)
        )


class Workloads:
    """All entries: kinds, then namespaces, to names."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, dict[str, dict[str, Entry]]] = {}

    def get(self, ref: WorkloadRef) -> Entry | None:
        """What is known of a workload."""
        group, resource, namespace, name = ref
        spaces = self._kinds.get((group, resource))
        names = spaces.get(namespace) if spaces is not None else None
        return names.get(name) if names is not None else None

    def __len__(self) -> int:
        return sum(len(names) for spaces in self._kinds.values() for names in spaces.values())

    def __iter__(self) -> Iterator[Entry]:
        for spaces in self._kinds.values():
            for names in spaces.values():
                yield from names.values()

    def in_namespace(self, namespace: str) -> Iterator[Entry]:
        """All entries of one namespace."""
        for spaces in self._kinds.values():
            yield from spaces.get(namespace, {}).values()

    def observed(self, kind: Kind) -> Iterator[WorkloadRef]:
        """Every observed workload of a kind. They may change meanwhile: each is as of its turn."""
        for namespace in list(self._kinds.get(kind, {})):
            for ref in self.of_unit(kind, namespace):
                entry = self.get(ref)
                if entry is not None and entry.observed is not None:
                    yield ref

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
        return [entry.ref for entry in self._kinds.get(kind, {}).get(namespace, {}).values()]

    def keep(self, entry: Entry) -> None:
        """Keep an entry, which may be there already."""
        ref = entry.ref
        self._kinds.setdefault(ref[:2], {}).setdefault(ref.namespace, {})[ref.name] = entry

    def drop(self, entry: Entry) -> None:
        """Forget an entry, which may be gone already."""
        ref = entry.ref
        spaces = self._kinds.get(ref[:2], {})
        names = spaces.get(ref.namespace, {})
        if names.get(ref.name) is not entry:
            return
        del names[ref.name]
        if not names:
            del spaces[ref.namespace]
        if not spaces:
            del self._kinds[ref[:2]]
