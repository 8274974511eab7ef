"""The ledger: envelopes of all workloads against the accounts of all quotas (docs/ledger.md).

Pure and synchronous: nothing can happen between the check and the record of a grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from extauthz.core.ledger.entry import Entry, Position, Step
from extauthz.core.ledger.intents import Event, Intent
from extauthz.core.ledger.observing import Observing
from extauthz.core.ledger.position import pods_of
from extauthz.core.ledger.prices import with_surge
from extauthz.core.ledger.scope import Nodes
from extauthz.core.model import Observed, Shortage, WorkloadRef


class Proposal(NamedTuple):
    """What a write would do to the envelope. Nothing is recorded yet."""

    entry: Entry
    """The workload itself; not in the ledger yet where the write creates it."""
    head: Entry
    """What it is charged through."""
    before: Position
    after: Position
    base: Position
    own: Position
    """These four as in ``Step``."""
    shortages: tuple[Shortage, ...]
    """What does not fit, in quotas that enforce."""
    audit: tuple[Shortage, ...]
    """What does not fit, in quotas that only audit."""
    grows: Nodes
    """Quotas that enforce and of which the write raises some key: above what is observed, or above the envelope."""
    unpriced: tuple[str, ...]
    """Quotas whose usage cannot be told, for want of some workload's footprint."""
    illegible: tuple[str, ...]
    """Quotas whose limits cannot be told; each grows by whatever it covers."""


class Ledger(Observing):
    """Workloads, their intents, and what every quota has used and reserved."""

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

    def intent(self, intent_id: str) -> tuple[WorkloadRef, Intent] | None:
        """A live intent with its workload."""
        found = self._pending.get(intent_id)
        return (found[0].ref, found[1]) if found is not None else None

    def leaf_quotas_of(self, intent_id: str) -> frozenset[str]:
        """Names of the quotas in which the workload of a live intent may come to count, without their ancestors."""
        found = self._pending.get(intent_id)
        return self._position(found[0].root).leaves if found is not None else frozenset()

    def intents_of(self, source: str) -> int:
        """How many intents of one source are live."""
        return self._pending.of_source(source)

    def intents_in(self, root: str) -> int:
        """How many intents are live that were recorded in the tree of a root quota."""
        return self._pending.of_tree(root)

    @property
    def bytes_held(self) -> int:
        """What all live intents hold."""
        return self._pending.bytes_held

    def bytes_held_in(self, quota: str) -> int:
        """What the live intents hold that were recorded in one quota without quotas below it; empty: in none."""
        return self._pending.bytes_held_in(quota)

    # Deciding: synchronous, and nothing is recorded unless told.

    def propose(
        self, ref: WorkloadRef, intent: Intent, born: Observed | None = None, known: Entry | None = None
    ) -> Proposal:
        """Weigh ``intent`` on ``ref`` against all quotas, without recording it.

        ``born`` is the object that a create would make, ``known`` what ``get`` has just given. All is worked out beside
        the state, on copies of entries: a question changes nothing, whatever goes wrong.
        """
        known = known if known is not None else self._entries.get(ref)
        entry = known if known is not None else self._newborn(ref, born)
        head = entry.root
        step = self._step(entry, self._position(head), intent)
        before, after, base, own = step
        return Proposal(entry, head, before, after, base, own, *self._accounts.weigh(step))

    def _step(self, entry: Entry, before: Position, intent: Intent) -> Step:
        if before.pod is not None and intent.counts_alone and entry.head is None:
            count = intent.replicas or 0
            after = before.with_count(count)
            if after is not before and not entry.children:  # what rises above the one rises above the other
                return Step(before, after, before, after)
            base = before.settled
            return Step(before, after, base, after if base is before else base.with_count(count))
        pending = entry.live_intents()
        after = self._with(entry, (*pending, intent))
        if not pending:
            return Step(before, after, before, after)
        return Step(before, after, self._with(entry, ()), self._with(entry, (intent,)))

    def _with(self, entry: Entry, intents: tuple[Intent, ...]) -> Position:
        return self._add_up(entry.with_intents(intents).root)

    def largest_replicas(self, ref: WorkloadRef, intent: Intent, proposal: Proposal) -> int | None:
        """The highest count that would have fitted in place of the proposed one; ``None`` where none can be named."""
        if proposal.head is not proposal.entry or proposal.head.children or not self._is_linear(proposal):
            return self._largest_in_family(ref, intent, proposal)
        alone = pods_of(proposal.head.with_intents(()), intent, self.scope)
        per_pod = pods_of(proposal.head, intent, self.scope)
        return self._accounts.largest_replicas(Step(*proposal[2:6]), per_pod, alone)

    def _is_linear(self, proposal: Proposal) -> bool:
        """Each replica costs the same."""
        return not proposal.head.claims and not self.scope.charge_surge

    def surge(self, proposal: Proposal, intent: Intent) -> int:
        """Pods of a rollout that the count of ``intent``, or else the observed one, is charged with."""
        ref, observed = proposal.entry.ref, proposal.entry.observed
        count = intent.replicas if intent.replicas is not None else observed.replicas if observed is not None else 0
        return with_surge(ref, observed, count, self.scope) - count

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
        if not entry.intents:  # with one it is held already
            self._entries.hold(entry)
        if proposal.head is not entry:
            self._entries.hold(proposal.head)
        if entry.observed is None and not entry.intents:
            entry.head = None  # so far its owner does not know of it
            self._families.regroup(entry, self._entries)
        self._pending.add(entry, intent, proposal.after)
        self._shift(proposal.head.ref, proposal.before, proposal.after)
        proposal.head.standing = proposal.after if proposal.head.intents else None

    def renew(self, intent: Intent, expires_s: float) -> None:
        """Let a live ``intent`` stand for one more request of the same effect."""
        self._pending.renew(intent, expires_s)

    def adopt(self, ref: WorkloadRef, intent: Intent) -> None:
        """Record an intent that another gate, or an earlier life of this one, has granted."""
        self.record(self.propose(ref, intent), intent)

    def forget(self, intent_id: str) -> None:
        """Drop an intent that was never granted, or that another gate has ended. Unknown ids do nothing."""
        found = self._pending.get(intent_id)
        if found is not None:
            self._end(found[0], [found[1]])

    def _newborn(self, ref: WorkloadRef, born: Observed | None) -> Entry:
        entry = Entry(ref)
        entry.born = born
        entry.head = self._families.head_of(entry, self._entries)
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
        if event is not Event.ANSWERED_OK or intent.renewed:
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

        Returns how many intents on it ended by that (docs/design.md L3). Says nothing of intents on its ReplicaSets.
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
