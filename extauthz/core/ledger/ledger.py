"""The ledger: envelopes of all workloads against the accounts of all quotas (DESIGN §6, single gate).

Pure and synchronous: nothing can happen between the check and the record of a grant. Every change moves an entry from
one ``Position`` to the next and the accounts by the difference, so that usage kept incrementally equals usage
recomputed from scratch (``drift`` tells).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from extauthz.core.ledger.accounts import Accounts, UsageRow
from extauthz.core.ledger.charge import NOTHING
from extauthz.core.ledger.entry import Entry, Position, pods_of, position
from extauthz.core.ledger.families import Families
from extauthz.core.ledger.intents import Event, Intent
from extauthz.core.ledger.scope import Scope
from extauthz.core.ledger.store import Store
from extauthz.core.model import Observed, Shortage, WorkloadRef
from extauthz.core.quota.tree import QuotaTree

NOWHERE = Position(NOTHING, (), NOTHING, (), False)


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


class Ledger:
    """Workloads, their intents, and what every quota has used and reserved."""

    def __init__(self, scope: Scope | None = None) -> None:
        self.scope = scope if scope is not None else Scope()
        self._entries = Store()
        self._pending: dict[str, Entry] = {}
        self._accounts = Accounts(self.scope.tree)
        self._families = Families()

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
        for intent_id, entry in self._pending.items():
            yield entry.ref, _intents(entry)[intent_id]

    def usage(self) -> Iterator[UsageRow]:
        """Used, reserved and hard of every quota and key, nano-units."""
        return self._accounts.rows()

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
        _add(entry, intent)
        after = self._add_up(entry.head or entry)
        _remove(entry, intent.id)
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
        assert intent.id not in self._pending, f"intent {intent.id} is recorded already"
        entry = proposal.entry
        for one in (entry, proposal.head):
            self._entries.hold(one)
        if entry.observed is None:
            self._families.regroup(entry, self._entries)
        _add(entry, intent)
        self._book(proposal.head, proposal.before, proposal.after)
        self._pending[intent.id] = entry

    def _newborn(self, ref: WorkloadRef, born: Observed | None) -> Entry:
        entry = Entry(ref)
        entry.born = born
        self._families.regroup(entry, self._entries)
        return entry

    # Settling: an intent ends by these and by nothing else.

    def settle(self, intent_id: str, event: Event, *, version: str = "") -> bool:
        """Tell what became of the request behind an intent. True if the intent has ended; unknown ids do nothing."""
        entry = self._pending.get(intent_id)
        if entry is None:
            return False
        intent = _intents(entry)[intent_id]
        if event is Event.ANSWERED_OK:
            intent.answered_version = version
        if not intent.on(event):
            return False
        self._end(entry, [intent])
        return True

    def tick(self, now_s: float) -> int:
        """Let time pass: intents whose W has elapsed await a consistent read. Returns how many do so now."""
        waiting = 0
        for _, intent in self._expired(now_s):
            intent.on(Event.WINDOW_ELAPSED)
            waiting += 1
        return waiting

    def _expired(self, now_s: float) -> Iterator[tuple[Entry, Intent]]:
        """Intents whose W has elapsed. They were recorded in the order in which they expire, as W is the same for all;
        one that stands behind another with more time left waits for it, which is safe."""
        for intent_id, entry in self._pending.items():
            intent = _intents(entry)[intent_id]
            if intent.expires_s > now_s:
                return
            yield entry, intent

    def consistent_read(self, started_s: float) -> int:
        """The observed state now holds a consistent read that began at ``started_s``. Returns how many ended."""
        ended: dict[Entry, list[Intent]] = {}
        for entry, intent in self._expired(started_s):
            intent.on(Event.WINDOW_ELAPSED)
            has_ended = intent.on(Event.READ_AFTER_WINDOW)
            assert has_ended, "a read that began after W ends whatever still lives"
            ended.setdefault(entry, []).append(intent)
        for entry, intents in ended.items():
            self._end(entry, intents)
        return sum(map(len, ended.values()))

    def _end(self, entry: Entry, intents: Iterable[Intent]) -> None:
        def remove() -> None:
            for intent in intents:
                _remove(entry, intent.id)
                del self._pending[intent.id]

        head = entry.head or entry
        self._change(head, remove)
        for one in (entry, head):
            self._release(one)

    # Observing.

    def observe(
        self, ref: WorkloadRef, observed: Observed | None, *, reached: Callable[[str], bool] | None = None
    ) -> None:
        """Take the newest state of a workload (``None``: it is gone).

        ``reached`` tells whether the source has come as far as a resourceVersion, which settles answered intents; a
        source that cannot tell (a file) leaves it out.
        """
        entry = self._entries.get(ref)
        if entry is None:
            if observed is None:
                return
            entry = Entry(ref)
        before = entry.observed
        self._move(entry, observed)
        self._settle_observed(entry, before, reached)
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

    def _settle_observed(self, entry: Entry, before: Observed | None, reached: Callable[[str], bool] | None) -> None:
        ended = []
        for intent in entry.live_intents():
            if intent.passed_by(before, entry.observed):
                event = Event.PRECONDITION_PASSED
            elif reached is not None and intent.answered_version and reached(intent.answered_version):
                event = Event.SEEN
            else:
                continue
            intent.on(event)
            ended.append(intent)
        if ended:
            self._end(entry, ended)

    def replace(self, workloads: Iterable[tuple[WorkloadRef, Observed]]) -> None:
        """Take a whole new picture; what is not in it is gone. Intents stay (§6.4)."""
        gone = {entry.ref for entry in self._entries if entry.observed is not None}
        for ref, observed in workloads:
            gone.discard(ref)
            entry = self._entries.get(ref)
            if entry is None or entry.observed != observed:
                self.observe(ref, observed)
        for ref in gone:
            self.observe(ref, None)

    # Quotas and namespaces.

    def set_tree(self, tree: QuotaTree) -> None:
        """Put another quota tree in force. Use and reservations are counted anew; intents stay."""
        self.scope.set_tree(tree)
        self._count_anew()

    def set_namespaces(self, update: Callable[[Scope], None]) -> None:
        """Change what is known of namespaces by ``update`` and count anew."""
        update(self.scope)
        self._count_anew()

    def _count_anew(self) -> None:
        for entry in self._pending.values():
            (entry.head or entry).standing = None
        self._accounts = self._recount()

    def _recount(self) -> Accounts:
        accounts = Accounts(self.scope.tree)
        for entry in self._entries:
            if entry.head is None:
                accounts.move(NOWHERE, self._add_up(entry))
        return accounts

    def drift(self) -> Mapping[tuple[str, str], int]:
        """Recount from scratch: (quota, key) to how far the incremental count is off. Empty when all is well."""
        fresh = {(row.quota, row.resource): row.used + row.reserved for row in self._recount().rows()}
        kept = {(row.quota, row.resource): row.used + row.reserved for row in self.usage()}
        return {key: kept.get(key, 0) - amount for key, amount in fresh.items() if kept.get(key, 0) != amount}

    # Inner workings.

    def _position(self, head: Entry) -> Position:
        return head.standing if head.standing is not None else self._add_up(head)

    def _add_up(self, head: Entry) -> Position:
        if head.idle and not head.children:
            return NOWHERE
        return position(head, self.scope)

    def _change(self, head: Entry, mutate: Callable[[], None]) -> None:
        before = self._position(head)
        mutate()
        self._book(head, before, self._add_up(head))

    def _book(self, head: Entry, before: Position, after: Position) -> None:
        self._accounts.move(before, after)
        head.standing = after if head.intents else None

    def _release(self, entry: Entry) -> None:
        if entry.idle:
            self._families.leave(entry)
        self._entries.release(entry)


def _add(entry: Entry, intent: Intent) -> None:
    if entry.intents is None:
        entry.intents = {}
    entry.intents[intent.id] = intent


def _remove(entry: Entry, intent_id: str) -> None:
    del _intents(entry)[intent_id]
    if not entry.intents:
        entry.intents = None


def _intents(entry: Entry) -> dict[str, Intent]:
    assert entry.intents is not None, "an entry with a live intent has a table of them"
    return entry.intents
