"""The ledger: envelopes of all workloads against the accounts of all quotas (DESIGN §6, single gate).

Pure and synchronous: nothing can happen between the check and the record of a grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cachetools import FIFOCache

from extauthz.core.ledger.books import NOWHERE, Books
from extauthz.core.ledger.entry import Entry, Position, pods_of
from extauthz.core.ledger.families import Families
from extauthz.core.ledger.intents import Event, Intent, is_newer
from extauthz.core.ledger.pending import Pending
from extauthz.core.ledger.scope import Scope
from extauthz.core.ledger.store import Kind
from extauthz.core.model import Observed, Shortage, WorkloadRef

_REMEMBERED = 16_384
"""Deletions that are remembered, so that a state from before one, told afterwards, brings nothing back. A watch lags
behind a read by seconds."""


class Proposal(NamedTuple):
    """What a write would do to the envelope. Nothing is recorded yet."""

    entry: Entry
    """The workload itself; not in the ledger yet where the write creates it."""
    head: Entry
    """What it is charged through."""
    before: Position
    after: Position
    shortages: tuple[Shortage, ...]
    """What does not fit, in quotas that enforce."""
    audit: tuple[Shortage, ...]
    """What does not fit, in quotas that only audit."""
    grows: bool
    """Some quota key rises above the present envelope."""
    unpriced: tuple[str, ...]
    """Quotas whose usage cannot be told, for want of some workload's footprint."""


class Ledger(Books):
    """Workloads, their intents, and what every quota has used and reserved."""

    def __init__(self, scope: Scope | None = None) -> None:
        super().__init__(scope)
        self._pending = Pending()
        self._families = Families()
        self._gone: FIFOCache[WorkloadRef, str] = FIFOCache(_REMEMBERED)
        """As of which resourceVersion workloads were gone, of the last that were."""

    # What is known.

    def get(self, ref: WorkloadRef) -> Entry | None:
        return self._entries.get(ref)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def intents(self) -> int:
        """How many intents are live."""
        return len(self._pending)

    def follows(self, intent_id: str) -> bool:
        """Whether an intent of that id is live."""
        return intent_id in self._pending

    def live_intents(self) -> Iterator[tuple[WorkloadRef, Intent]]:
        """Every live intent with its workload."""
        for entry, intent in self._pending:
            yield entry.ref, intent

    def intents_of(self, source: str) -> int:
        """How many intents of one source are live."""
        return self._pending.of_source(source)

    # Deciding: synchronous, and nothing is recorded unless told.

    def propose(self, ref: WorkloadRef, intent: Intent, born: Observed | None = None) -> Proposal:
        """Weigh ``intent`` on ``ref`` against all quotas, without recording it.

        ``born`` is the object that a create would make. An entry is weighed with the intent on it and put back as it
        was, so that a question costs nothing.
        """
        known = self._entries.get(ref)
        entry = known if known is not None else self._newborn(ref, born)
        head = entry.head or entry
        before = self._position(head)
        after = self._position_with(intent, entry, before)
        if known is None:
            self._families.leave(entry)
        return Proposal(entry, head, before, after, *self._accounts.weigh(before, after))

    def _position_with(self, intent: Intent, entry: Entry, before: Position) -> Position:
        if before.pod is not None and intent.counts_alone and entry.head is None:
            return before.with_count(intent.replicas or 0)
        entry.add(intent)
        after = self._add_up(entry.head or entry)
        entry.remove(intent)
        return after

    def largest_replicas(self, ref: WorkloadRef, intent: Intent, proposal: Proposal) -> int | None:
        """The highest count that would have fitted in place of the proposed one; ``None`` where none can be named."""
        if proposal.head is not proposal.entry or proposal.head.children:
            return self._largest_in_family(ref, intent, proposal)
        per_pod = pods_of(proposal.head, intent, self.scope)
        return self._accounts.largest_replicas(proposal.before, proposal.after, per_pod)

    def _largest_in_family(self, ref: WorkloadRef, intent: Intent, proposal: Proposal) -> int | None:
        """By halves: how much of a count its family covers depends on the others in it."""
        if intent.replicas is None:
            return None
        fits, too_many = -1, intent.replicas
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            tried = self.propose(ref, replace(intent, replicas=middle), proposal.entry.born)
            fits, too_many = (fits, middle) if tried.shortages else (middle, too_many)
        return fits if fits >= 0 else None

    def record(self, proposal: Proposal, intent: Intent) -> None:
        """Record an allowed ``intent`` as it was proposed; nothing may have changed in between."""
        entry = proposal.entry
        for one in (entry, proposal.head):
            self._entries.hold(one)
        if entry.observed is None:
            self._families.regroup(entry, self._entries)
        self._pending.add(entry, intent)
        self._book(proposal.head, proposal.before, proposal.after)

    def _newborn(self, ref: WorkloadRef, born: Observed | None) -> Entry:
        entry = Entry(ref)
        entry.born = born
        self._families.regroup(entry, self._entries)
        return entry

    # Settling: an intent ends by these and by nothing else.

    def settle(self, intent_id: str, event: Event, now_s: float) -> WorkloadRef | None:
        """Tell what became of the request behind an intent; unknown ids do nothing.

        Returns:
            The workload whose consistent read, begun after ``now_s``, would end the intent; else ``None``.
        """
        found = self._pending.get(intent_id)
        if found is None:
            return None
        entry, intent = found
        if intent.on(event):
            self._end(entry, [intent])
            return None
        if event is not Event.ANSWERED_OK:
            return None
        self._pending.answered(entry, intent, now_s)
        return entry.ref

    def tick(self, now_s: float) -> int:
        """Let time pass: intents whose W has elapsed await a consistent read. Returns how many do so now."""
        waiting = 0
        for _, intent in self._pending.expired(now_s):
            intent.on(Event.WINDOW_ELAPSED)
            waiting += 1
        return waiting

    def due(self, now_s: float) -> list[WorkloadRef]:
        """Workloads with an intent that awaits a consistent read: it was answered, or W has elapsed. Each once."""
        return self._pending.due(now_s)

    def read(self, ref: WorkloadRef, started_s: float) -> int:
        """What a consistent read of ``ref`` that began at ``started_s`` brought has been observed.

        Returns how many intents on it ended by that (§6.3c, §6.3e). Says nothing of intents on its ReplicaSets.
        """
        entry = self._entries.get(ref)
        return self._end_by_read(entry, entry.live_intents(), started_s) if entry is not None else 0

    def consistent_read(self, started_s: float) -> int:
        """The whole observed state is taken to be no older than ``started_s``, by which W of some intents had elapsed.

        Returns how many ended by it. Intents that were only answered stay: this is for sources that nobody can ask for
        the state after an answer.
        """
        expired: dict[int, tuple[Entry, list[Intent]]] = {}
        for entry, intent in self._pending.expired(started_s):
            expired.setdefault(id(entry), (entry, []))[1].append(intent)
        return sum(self._end_by_read(entry, intents, started_s) for entry, intents in expired.values())

    def _end_by_read(self, entry: Entry, intents: Iterable[Intent], started_s: float) -> int:
        ended = [intent for intent in intents if intent.on_read(started_s)]
        if ended:
            self._end(entry, ended)
        return len(ended)

    def _end(self, entry: Entry, intents: Iterable[Intent]) -> None:
        def remove() -> None:
            for intent in intents:
                self._pending.remove(intent)

        head = entry.head or entry
        self._change(head, remove)
        for one in (entry, head):
            self._release(one)

    # Observing.

    def observe(self, ref: WorkloadRef, observed: Observed | None, version: str = "") -> None:
        """Take the newest state of a workload; ``None``: it is gone, as of resourceVersion ``version``.

        What is older than what is known already came late, on a watch that a consistent read overtook: it is ignored.
        What states no version, or one that cannot be compared, is taken as it comes.
        """
        entry = self._entries.get(ref)
        held = entry.observed if entry is not None else None
        known = held.resource_version if held is not None else self._gone.get(ref, "")
        if is_newer(known, observed.resource_version if observed is not None else version):
            return
        if observed is None and version:
            self._gone[ref] = version
        self._take(ref, observed)

    def observe_all(self, kind: Kind, workloads: Iterable[tuple[WorkloadRef, Observed]], version: str) -> None:
        """Take a list of all workloads of a kind, made at resourceVersion ``version``. What is not in it is gone."""
        absent = set(self._entries.observed(kind))
        for ref, observed in workloads:
            absent.discard(ref)
            self.observe(ref, observed)
        for ref in absent:
            self.observe(ref, None, version)

    def replace(self, workloads: Iterable[tuple[WorkloadRef, Observed]]) -> None:
        """Take a whole new picture, whatever its versions; what is not in it is gone. Intents stay (§6.4)."""
        absent = {ref for kind in self._entries.kinds() for ref in self._entries.observed(kind)}
        for ref, observed in workloads:
            absent.discard(ref)
            self._take(ref, observed)
        for ref in absent:
            self._take(ref, None)

    def _take(self, ref: WorkloadRef, observed: Observed | None) -> None:
        entry = self._entries.get(ref) or Entry(ref)
        before = entry.observed
        if before == observed:
            return
        self._move(entry, observed)
        self._settle_observed(entry, before)
        self._release(entry)

    def _move(self, entry: Entry, observed: Observed | None) -> None:
        touched = self._families.touched(entry, observed, self._entries)
        for one in touched:
            self._entries.hold(one)
        before = [self._position(one) for one in touched if one.head is None]
        entry.observed = observed
        entry.born = entry.born if observed is None else None
        self._families.regroup(entry, self._entries)
        for old in before:
            self._accounts.move(old, NOWHERE)
        for one in touched:
            if one.head is None:
                self._book(one, NOWHERE, self._add_up(one))
        for one in touched[1:]:
            self._release(one)

    def _settle_observed(self, entry: Entry, before: Observed | None) -> None:
        passed = [intent for intent in entry.live_intents() if intent.passed_by(before, entry.observed)]
        for intent in passed:
            intent.on(Event.PRECONDITION_PASSED)
        if passed:
            self._end(entry, passed)

    def _release(self, entry: Entry) -> None:
        if entry.idle:
            self._families.leave(entry)
        self._entries.release(entry)
