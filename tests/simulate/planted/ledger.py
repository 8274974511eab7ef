"""Planted bugs of the ledger."""

import asyncio
from contextlib import ExitStack

from extauthz.core.ledger import entry as entries
from extauthz.core.ledger.accounts import Account, Accounts, Step
from extauthz.core.ledger.entry import TRANSITIONS, Event, PendingWrite, State
from extauthz.core.ledger.ledger import Ledger, Proposal
from extauthz.core.ledger.observations import Observations
from extauthz.core.ledger.ownership import Ownership
from extauthz.core.ledger.pending_writes import PendingWrites
from extauthz.core.quota import overrides
from extauthz.inputs.cluster import scaled
from extauthz.inputs.cluster.live import LiveCluster
from extauthz.inputs.settlement import reads
from tests.simulate.planted.planting import COUNTS, bug, changes, replaced


@bug("a flood ends for its sender alone", faults="flood,late,unheard", steps=12, often={"flood": 4.0})
def a_flood_is_everybodys():
    """The bound of writes under way in one tree counts those of all trees: one tenant's flood stops the others."""
    return replaced(PendingWrites, of_tree=lambda self, root: len(self))


@bug("never over", faults="late", entrances="both", first=520)
@changes(PendingWrite, "on_read")
def admitted_is_stored(original, self, started_s):
    """An admitted write is taken for stored: a read that shows nothing new ends it."""
    return self.precondition.resource_version is not None or original(self, started_s)


@bug("one write, any entrance", entrances="both")
@changes(Ledger, "propose")
def admitted_twice(original, self, ref, pending_write, expected=None, known=None):
    """What Envoy was asked about is charged once more when the webhook is asked about it."""
    proposal = original(self, ref, pending_write, expected, known)
    before = proposal.step.before
    live = proposal.entry.live_pending_writes()
    same = any(one.replicas == pending_write.replicas and not one.precondition.resource_version for one in live)
    if same and pending_write.precondition.resource_version and before.pod is not None:
        doubled = before.with_count(2 * (pending_write.replicas or 0))
        step = Step(before, doubled, proposal.step.observed_only, doubled)
        return Proposal(proposal.entry, proposal.head, step, self.usage.accounts.weigh(step))
    return proposal


@bug(
    "never over",
    faults="adopted",
    entrances="both",
    steps=60,
    words=("roll", "rs"),
    often={"adopt": 8.0, "remake": 0.0},
)
def adopted_in_silence():
    """A ReplicaSet that is given to a Deployment is charged as before, though it comes to count where that counts."""
    return replaced(Ownership, joined=lambda self, entry, pending_write: None)


@bug("never in the way of less")
@changes(Ledger, "propose")
def charged_twice_on_retry(original, self, ref, pending_write, expected=None, known=None):
    """An identical retry is charged once more."""
    proposal = original(self, ref, pending_write, expected, known)
    before = proposal.step.before
    same = any(one.replicas == pending_write.replicas for one in proposal.entry.live_pending_writes())
    if same and pending_write.replicas and proposal.step.after is before and before.pod is not None:
        doubled = before.with_count(2 * pending_write.replicas)
        step = Step(before, doubled, proposal.step.observed_only, doubled)
        return Proposal(proposal.entry, proposal.head, step, self.usage.accounts.weigh(step))
    return proposal


@bug("never over", faults="lag,late", often={"scale": 20.0})
def caught_up_at_once():
    """A watch is taken for caught up, however late what it brings."""
    both = ExitStack()
    both.enter_context(replaced(reads, SEVERAL=1))
    both.enter_context(replaced(LiveCluster, has_shown=lambda self, resource, version: True))
    return both


@bug("never over", faults="late,lag", entrances="webhook", words=("deploy", "rs"), often={"remake": 20.0})
@changes(PendingWrite, "passed_by")
def create_is_missed(original, self, before, observed):
    """An admitted create ends as soon as its object is not there: it may not be there yet."""
    return (self.is_admitted_create and observed is None) or original(self, before, observed)


@bug("never over", faults="late", words=("deploy",), often=COUNTS)
@changes(PendingWrite, "passed_by")
def ended_by_newer_target(original, self, before, observed):
    """A pending write ends because a newer, lower target was observed: the slow write lands after it."""
    lower = observed is not None and self.replicas is not None and observed.replicas < self.replicas
    if lower and before is not None and before.resource_version != observed.resource_version:
        return True
    return original(self, before, observed)


@bug("never over", faults="late,unheard", words=("deploy",))
@changes(PendingWrite, "on_read")
def ended_by_one_read(original, self, started_s):
    """A pending write ends by any consistent read of its workload, without an answer and before W has passed."""
    if not original(self, started_s):
        self.on(Event.ANSWERED_OK)
        self.on(Event.SEEN)
    return self.state is State.ENDED


@bug(
    "never over",
    faults="lag,late",
    steps=150,
    words=("rs", "deploy"),
    often={"hold-watch": 4.0, **COUNTS},
    pace=(0.5,),
    first=125,
)
def expired_unseen():
    """A pending write ends when W has passed, without a read: the watch that would show what it did is stalled."""

    def tick(self, now_s):
        for _, one in list(self._expired(now_s)):
            self.forget(one.id)
        return 0

    def due(self, now_s):
        return [entry.ref for entry in self._answered.values()]

    return replaced(PendingWrites, tick=tick, due=due)


@bug(
    "never over",
    faults="remade",
    entrances="both",
    steps=60,
    words=("sts",),
    often={"remake-claimed": 6.0, "rollout": 0.0, "patch": 0.0},
)
def found_claims_are_free():
    """A StatefulSet that is made again under other quotas finds its claims there, which nobody has charged to these."""
    return replaced(Ownership, find_claims=lambda self, entry: None)


@bug("never over", faults="cut,late,unheard", words=("deploy",))
@changes(Accounts, "weigh")
def grows_back(original, self, *steps):
    """While a quota is over its limit, a workload grows back within what an old grant allows (rule 10)."""
    return original(self, *(one._replace(observed_only=one.before, this_write_only=one.after) for one in steps))


@bug("what is named fits", faults="guarantees")
@changes(Ledger, "largest_replicas")
def one_more_is_said_to_fit(original, self, *args):
    """The largest count that is named is one too high."""
    found = original(self, *args)
    return found + 1 if found is not None else None


@bug("never over", faults="guarantees")
@changes(Account, "idle_after")
def kept_of_children_alone(original, self, node, key, growth, kept):
    """What is kept for a quota's children is not kept of those above it: guarantees hold at one level only."""
    return original(self, node, key, growth, 0)


@bug(
    "never over",
    faults="guarantees,applied,refused-later",
    entrances="webhook",
    steps=60,
    words=("deploy",),
    often={"apply": 12.0, "guarantee": 4.0},
)
def what_may_move_uses_guarantees():
    """What a write may take elsewhere uses up guarantees where it is and where it goes: less is kept than is needed."""
    return replaced(Account, count_unsure=lambda self, node, at, times: None)


@bug("never over", faults="late", entrances="both")
@changes(Ledger, "propose")
def known_by_its_count(original, self, ref, pending_write, expected=None, known=None):
    """The webhook knows a write that Envoy was asked about by its count alone: another template is not charged."""
    entry = known if known is not None else self.workloads.get(ref)
    others = entry.live_pending_writes() if entry is not None else ()
    if pending_write.precondition.resource_version and any(pending_write.replicas == one.replicas for one in others):
        pending_write.templates = pending_write.labels = ()
    return original(self, ref, pending_write, expected, known)


@bug("never over", ledger="kubernetes", faults="overrides", first=70)
def no_margin():
    """An override begins and ends when the gate's own clock says so, though clocks are seconds apart."""
    return replaced(overrides, about=lambda given, at_s: [at_s])


@bug("nothing leaks", faults="lag", words=("deploy",))
def old_states_are_believed():
    """A watch that lags behind a consistent read takes back what that has shown."""
    return replaced(Observations, is_late=lambda self, ref, version: False)


@bug("never over", words=("tin", "deploy"))
@changes(scaled, "read")
def one_tin_is_as_good_as_ten(original, kind, template, root):
    """A custom resource counts as one pod, whatever its scale says."""
    ref, observed = original(kind, template, root)
    observed.replicas = min(observed.replicas, 1)
    return ref, observed


@bug(
    "never over",
    faults="lag",
    steps=80,
    words=("deploy",),
    often={"hold-watch": 4.0, **COUNTS},
    pace=(0.05,),
    first=80,
)
@changes(PendingWrites, "read")
def read_settles_by_its_end(original, self, ref, started_s):
    """A consistent read settles what was answered before its end, though it shows only what had landed at its start."""
    return original(self, ref, asyncio.get_running_loop().time())


@bug("never over", faults="late")
def unclear_is_refused():
    """A time-out of Envoy is taken for a refusal of the API server."""
    rows = {state: dict(row) for state, row in TRANSITIONS.items()}
    rows[State.OPEN][Event.ANSWERED_UNCLEAR] = State.ENDED
    return replaced(entries, TRANSITIONS=rows)
