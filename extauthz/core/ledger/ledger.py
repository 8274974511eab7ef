"""The ledger: envelopes of all workloads against the accounts of all quotas (docs/internals/ledger.md).

Pure and synchronous: nothing can happen between the check and the record of a grant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from extauthz.core.kinds import PODS, RESIZES, SHARE_TEMPLATES
from extauthz.core.ledger.accounts import NOWHERE, Position, Step, StepGrowth, rise
from extauthz.core.ledger.coverage import Coverage, Nodes
from extauthz.core.ledger.entry import Entry, PendingWrite, State, Workloads
from extauthz.core.ledger.line import Lines
from extauthz.core.ledger.observations import Observations
from extauthz.core.ledger.ownership import Ownership
from extauthz.core.ledger.pending_writes import PendingWrites
from extauthz.core.ledger.pod_costs import NamespaceCosts, PodCosts
from extauthz.core.ledger.usage import Usage
from extauthz.core.model import ANY_LABELS, Labels, Observed, Precondition, WorkloadRef


class Joining(NamedTuple):
    """What a write does to an owner whose family it may bring a workload into.

    The workload then counts by the owner's labels too, by itself. And each pod of the owner may come to run its
    template, as that of one more revision.
    """

    owner: Entry
    labels: tuple[Labels, ...]
    template: PendingWrite
    """What is followed on the owner as long as the write is followed."""
    step: Step | None
    """``None``: the owner multiplies no template."""


class Proposal(NamedTuple):
    """What a write would do to the envelope. Nothing is recorded."""

    entry: Entry
    """The workload itself; not in the ledger yet where the write creates it."""
    head: Entry
    """The entry that it is charged through."""
    step: Step
    growth: StepGrowth
    joins: Joining | None = None
    """What it does to the owner whose family it may bring the workload into."""


class Ledger:
    """Workloads, the writes that pend on them, and what every quota has used and reserved: its parts, and proposals."""

    def __init__(self) -> None:
        self.coverage = Coverage()
        """Which quotas cover a workload."""
        self.pod_costs = PodCosts()
        """What a pod costs."""
        self.workloads = Workloads()
        """All known workloads."""
        self.ownership = Ownership(self.workloads)
        """Which workload is charged through which."""
        self.usage = Usage(self.workloads, self.coverage, self.pod_costs)
        """What every quota has used and reserved."""
        self.turns = Lines(self.workloads, self.usage)
        """Who waits for room, where quotas have turns."""
        self.pending = PendingWrites(self.workloads, self.ownership, self.usage)
        """Allowed writes that may still land."""
        self.observations = Observations(self.workloads, self.ownership, self.usage, self.pending)
        """Takes what sources report of objects."""

    def get(self, ref: WorkloadRef) -> Entry | None:
        """What is known of a workload."""
        return self.workloads.get(ref)

    def load(self) -> None:
        """Count nothing until ``loaded``: each object of a family would count all of it anew."""
        self.usage.load()

    def loaded(self) -> None:
        """Count all that has come. Does nothing unless ``load`` was called."""
        if self.usage.is_loading:
            self.ownership.find_all_adoptable()
            self.usage.loaded()

    def __len__(self) -> int:
        return len(self.workloads)

    @property
    def pending_writes(self) -> int:
        """How many writes are pending."""
        return len(self.pending)

    def drift(self) -> Mapping[tuple[str, str], int]:
        """Usage counted from scratch: (quota, key) to the difference from what is kept. Empty if all is right."""
        return self.usage.drift()

    # Deciding: synchronous, and nothing is recorded unless told.

    def propose(
        self,
        ref: WorkloadRef,
        pending_write: PendingWrite,
        expected: Observed | None = None,
        known: Entry | None = None,
    ) -> Proposal:
        """Work out ``pending_write`` on ``ref`` against all quotas, without recording it.

        ``expected`` is the object that a create would make, ``known`` the entry if it is at hand. All is worked out
        beside the state, on copies of entries: a question changes nothing, whatever goes wrong.
        """
        known = known if known is not None else self.workloads.get(ref)
        entry = known if known is not None else self._to_be_made(ref, expected)
        head = entry if entry.head is None else entry.root
        joins = self._joining(entry, pending_write) if pending_write.owner or pending_write.labels else None
        if joins is not None:
            pending_write = replace(pending_write, joins=joins.labels)
        step = self._step(entry, self.usage.position(head), pending_write)
        of_owner = (joins.step,) if joins is not None and joins.step is not None else ()
        return Proposal(entry, head, step, self.usage.accounts.weigh(step, *of_owner), joins)

    def _joining(self, entry: Entry, pending_write: PendingWrite) -> Joining | None:
        found = self.ownership.joined(entry, pending_write)
        if found is None:
            return None
        owner, is_known = found
        labels = owner.all_family_labels() if is_known else (ANY_LABELS,)
        multiplies = owner.ref[:2] in SHARE_TEMPLATES
        shown = [entry.shown.template] if entry.shown is not None and entry.shown.template is not None else []
        pending = [template for one in entry.live_pending_writes() for template in one.templates]
        template = PendingWrite(
            id=f"{pending_write.id} of {entry.ref.name}",
            replicas=None,
            templates=tuple(dict.fromkeys((*shown, *pending, *pending_write.templates))) if multiplies else (),
            labels=(),
            creates=False,
            precondition=Precondition(),
            expires_s=pending_write.expires_s,
            state=State.SUCCEEDED,  # no request of its own, so never the same as one
        )
        step = self._step(owner, self.usage.position(owner.root), template) if multiplies else None
        return Joining(owner, labels, template, step)

    def followers(self, entry: Entry) -> Iterator[tuple[Entry, PendingWrite]]:
        """Writes under way that would move with ``entry``: of what may enter its family, and resizes of its pods."""
        yield from self.pending.entering(entry)
        for ref in self.workloads.of_unit(RESIZES, entry.ref.namespace):
            pod, resizes = self.observations.pod(ref._replace(resource=PODS[1])), self.workloads.get(ref)
            if pod is not None and resizes is not None and pod.root.ref == entry.root.ref:
                yield from ((resizes, one) for one in resizes.live_pending_writes())

    def _step(self, entry: Entry, before: Position, pending_write: PendingWrite) -> Step:
        if before.pod is not None and pending_write.counts_alone and entry.head is None:
            # Nearly always: one pod, and counts alone. Then no order of landing has to be looked at.
            count = pending_write.replicas or 0
            after = before.with_count(count)
            base = before.settled
            return Step(before, after, base, after if base is before else base.with_count(count))
        pending = entry.live_pending_writes()
        after = self._with(entry, (*pending, pending_write))
        # With other writes under way, it is also looked at without them: what they were granted is no licence for this
        # one where a quota is over (design.md rule 10). What its family was granted is none either, nor what pods hold
        # that are there beyond what is asked for. So these are left out then, but it adds no less than beside them.
        base, own = self._alone(entry, pending, pending_write) if pending else (before, after)
        asks = entry.ref[:2] not in (PODS, RESIZES)
        if (entry.head or entry.children or entry.pods) and (asks or entry.root.pends(but=entry)):
            more = rise(base.envelope, own.envelope)
            base, own = self._alone(entry.asking() if asks else entry.settled(), pending, pending_write)
            own = own._replace(envelope=own.envelope.at_least(base.envelope, more))
        return Step(before, after, base, own, after.unknown and self._is_dearer(entry, pending_write))

    def _is_dearer(self, entry: Entry, pending_write: PendingWrite) -> bool:
        """Whether more is known of what a pod costs by a template that it brings."""
        costs = NamespaceCosts(entry.ref.namespace, self.pod_costs)
        there = entry.observed.template if entry.observed is not None else None
        return costs.is_dearer(pending_write.templates, there)

    def _alone(self, entry: Entry, pending: Sequence[PendingWrite], write: PendingWrite) -> tuple[Position, Position]:
        """``Step.observed_only`` and ``Step.this_write_only``.

        A count lands on nothing: where no object is observed, a create comes first. An object that is made gives those
        that pend their object back.
        """
        objects = [one for one in pending if one.templates and one.replicas is not None]
        costs = NamespaceCosts(entry.ref.namespace, self.pod_costs)
        if objects and entry.children:
            # A ReplicaSet may be seen before the write of its Deployment that has made it. Its template at the count
            # from before that write is more than anybody has granted, so it is no licence.
            made = [costs.highest(one.templates) for one in objects]
            entry = entry.without_children(
                lambda child: child.observed is not None and costs.one(child.observed.template) in made
            )
        first = tuple(one for one in pending if write.creates or (one.creates and entry.observed is None))
        base, own = self._with(entry, ()), self._with(entry, (*first, write))
        if objects and write.replicas is not None:
            # The write may land after one of these. Its count then multiplies what that has left.
            each = costs.highest([template for one in (*objects, write) for template in one.templates])
            landed = base.envelope.with_count(min(one.replicas or 0 for one in objects), each)
            after = own.envelope.with_count(write.replicas, each)
            own = own._replace(envelope=after) if rise(landed, after) else own
        return base, own

    def _with(self, entry: Entry, pending_writes: tuple[PendingWrite, ...]) -> Position:
        copy = entry.with_pending_writes(pending_writes)
        self.ownership.find_claims(copy)
        return self.usage.add_up(copy.root)

    def _to_be_made(self, ref: WorkloadRef, expected: Observed | None) -> Entry:
        entry = Entry(ref)
        entry.expected = expected
        entry.head = self.ownership.head_of(entry)
        return entry

    def largest_replicas(
        self, ref: WorkloadRef, pending_write: PendingWrite, proposal: Proposal, free: Nodes = ()
    ) -> int | None:
        """The highest count that would have fitted, whatever ``free`` quotas say; ``None``: not even zero would."""
        names, most = {node.quota.name for node in free}, pending_write.replicas or 0
        guess = self._guess(proposal, most)
        tries = [guess + 1, guess]  # nearly always that is it: each replica costs the same
        fits, too_many = -1, most
        while too_many - fits > 1:
            middle = tries.pop() if tries else (fits + too_many) // 2
            if fits < middle < too_many:
                tried = self.propose(ref, replace(pending_write, replicas=middle), proposal.entry.expected)
                is_short = any(row.quota not in names for row in tried.growth.shortages)
                fits, too_many = (fits, middle) if is_short else (middle, too_many)
        return fits if fits >= 0 else None

    @staticmethod
    def _guess(proposal: Proposal, replicas: int) -> int:
        """Which count there would be room for, if each replica above those that are charged cost the same."""
        charged = proposal.step.before.envelope.replicas
        more = replicas - charged
        rooms = [
            (row.hard - row.used - row.reserved) * more // max(row.requested, 1) for row in proposal.growth.shortages
        ]
        return charged + min(rooms, default=0)

    def surge(self, proposal: Proposal, pending_write: PendingWrite) -> int:
        """Pods of a rollout that the count of ``pending_write`` is charged with."""
        count = pending_write.replicas or 0
        shown = proposal.entry.shown
        templates = pending_write.templates or ((shown.template,) if shown is not None else ())
        return self.pod_costs.with_surge(proposal.entry.ref, count, templates) - count

    def record(self, proposal: Proposal, pending_write: PendingWrite) -> None:
        """Record an allowed ``pending_write`` as it was proposed. Nothing may have changed in between.

        If anything fails until it is booked, it is taken back, and its trees are counted anew. What fails afterwards,
        for what follows the workload, leaves it booked.
        """
        entry, head = proposal.entry, proposal.head
        before, after, *_ = proposal.step
        labels = (*pending_write.labels, *(proposal.joins.labels if proposal.joins is not None else ()))
        moves = any(entry.observed is None or one != entry.observed.labels for one in labels)
        followers = [*self.followers(entry)] if moves else []
        try:
            if entry.observed is None and not entry.pending_writes:
                self.workloads.keep(entry)
                entry.head = None  # so far its owner does not know of it
                self.ownership.regroup(entry)
            if proposal.joins is not None:
                pending_write.joins = proposal.joins.labels
            self.pending.add(entry, pending_write, after)
            self.usage.book(head, before, after)
            if proposal.joins is not None:
                self.pending.add_to_owner(proposal.joins.owner, pending_write, proposal.joins.template)
        except Exception:
            self.pending.take_back(entry, pending_write)
            self.ownership.forget_gone(entry)
            self.usage.mend(before, after)
            raise
        for follower, one in followers:
            # Where a quota covers the namespace, such a write waits for these. Where none does, one may come: they may
            # then count by these labels too.
            joins = tuple(dict.fromkeys((*one.joins, *labels)))
            self.usage.change(follower.root, partial(setattr, one, "joins", joins))

    def adopt(self, ref: WorkloadRef, pending_write: PendingWrite) -> None:
        """Record a pending write that another gate, or an earlier life of this one, has granted."""
        entry = self.workloads.get(ref)
        if entry is not None and entry.shown is None and pending_write.made is not None:
            self._attribute(entry, pending_write.made)
        self.record(self.propose(ref, pending_write, pending_write.made), pending_write)

    def _attribute(self, entry: Entry, expected: Observed) -> None:
        """Charge what pends on an object that was never seen through its owner, now that a write says who that is."""
        self.usage.shift(entry.ref, self.usage.position(entry), NOWHERE)
        entry.expected = expected
        owner = self.ownership.head_of(entry)
        of_root = self.usage.position(owner.root) if owner is not None else NOWHERE
        self.ownership.regroup(entry)
        self.usage.book(entry.root, of_root, self.usage.add_up(entry.root))
