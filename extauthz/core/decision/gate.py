"""The gate: what is known, what was allowed, and ``decide``, which answers a write in one synchronous step.

know → weigh → judge → record: ``decided`` has the phases of a write, and ``_judges`` what is asked of it, in order. A
new check is one more of those. Nothing here waits, logs, looks at a clock, or knows of HTTP.

How many writes may be pending at once is bounded: of one workload, one client, one tree of quotas, and in all. Each
takes room and memory until it has landed or no longer can. So a flood must be stopped, and only for its sender: the
bounds for one client and for one tree are far below the bound for all. Of identical retries ``MAX_IDENTICAL`` are kept.
After that the newest one stands for those that follow.

A workload is not brought under other quotas while something is charged where it counts now, and follows it. That is a
resize of one of its pods, or a workload that is about to join its family. Both last seconds. Autoscalers move nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from extauthz.core.decision import known, policing, sentences, turns, weighing
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.decision.known import FITS, Asking, Grant, WriteContext
from extauthz.core.errors import ObjectError
from extauthz.core.ledger.coverage import leaves
from extauthz.core.ledger.entry import PendingWrite, State, is_newer
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.ledger.pending_writes import UNCOVERED, held_by
from extauthz.core.model import (
    COMMIT,
    NO_PRECONDITION,
    NOT_ITS_TURN,
    WOULD_REFUSE,
    Commit,
    Decision,
    Evidence,
    Fetch,
    Lower,
    NeedsFetch,
    NotACount,
    NotAWrite,
    Observed,
    Reading,
    Requester,
    Resize,
    Shortage,
    Unreadable,
    Unspecified,
    Verdict,
    Write,
)
from extauthz.core.quota.spec import Mode

MOVE_WAITS: Final = "move-waits"

MAX_IDENTICAL = 16
"""An HPA asks every 15 s: nine times in a landing window. The answer to each write ends it."""

MAX_BYTES_IN_QUOTA = 32 * 1024 * 1024
"""What the changes of one tenant may hold while they are under way. A Deployment as ``kubectl apply`` sends it holds
some 30 KiB; the costliest body that is read at all, less than 32 MiB."""

MAX_BYTES_UNCOVERED = 128 * 1024
"""The same of all workloads without a quota: a quarter of what a ledger object takes. The room is of those that have
one. Where no quota may cover a namespace, half of it: what is beyond that passes, and is not followed."""

MAX_BYTES = 8 * MAX_BYTES_IN_QUOTA
"""The same for all, so that no tenant by itself can use it up."""


class Gate(ClusterState):
    """Quotas, cluster and ledger behind one ``decide``."""

    def decide(
        self,
        reading: Reading,
        decision_id: str,
        now_s: float,
        *,
        source: str = "",
        charge: bool = True,
        requester: Requester | None = None,
    ) -> Decision:
        """Answer a request. With ``charge`` false, the same path is taken and nothing is recorded.

        Args:
            reading: what the request means; ``intake.counts`` reads it from HTTP.
            source: who sent it, as the proxy vouches for it; empty: not known.
            requester: who sent it, for quotas that bind some; ``None``: not known.
        """
        self._looks_at(now_s)
        if isinstance(reading, Write):
            decision = decided(known.of_write(self, reading, Asking(decision_id, now_s, source, charge, requester)))
        elif isinstance(reading, Resize):
            decision = self._resized(reading, Asking(decision_id, now_s, source, charge, requester))
        elif isinstance(reading, NotAWrite):
            decision = Decision(decision_id, Verdict.ALLOW, reading.code, reading.why)
        elif isinstance(reading, NotACount):
            decision = known.not_a_count(self, reading, decision_id, requester)
        else:
            decision = known.unreadable(self, reading, decision_id, requester)
        if self.policy.mode == "audit":
            return audited(decision)
        return self._as_quotas_audit(decision) if self.ledger.coverage.tree.has_audits else decision

    def _as_quotas_audit(self, decision: Decision) -> Decision:
        """Where only quotas in mode Audit may cover it, it is allowed whatever is not known, and other gates are told
        afterwards: nothing waits for a ledger."""
        if not self._only_audits(decision):
            return decision
        if decision.verdict is not Verdict.ALLOW:
            return audited(decision, "quotas there only audit")
        is_new = decision.todo is COMMIT
        return decision._replace(evidence=decision.evidence._replace(afterwards=True)) if is_new else decision

    def _only_audits(self, decision: Decision) -> bool:
        """Whether every quota that may cover its namespace only audits. Where that is not known: every quota."""
        coverage = self.ledger.coverage
        concerned = coverage.candidates(decision.ref.namespace) if decision.ref is not None else ()
        return all(node.audits for node in concerned) if concerned else coverage.tree.audits

    def answered(self, decision: Decision, now_s: float) -> None:
        """Note that a decision was given as the answer to a write: its workload may stand in line from now on, or no
        more (``spec.sharing.turns``)."""
        turns.answered(self.ledger.turns, decision, now_s)

    def _looks_at(self, now_s: float) -> None:
        """The time is ``now_s``: the last report about the sources may be too old."""
        if self._lasts is not None:
            self.turn(now_s)
        if now_s > self.checked_until_s:
            self.stale("was suspended, and has not looked at its sources since", until_s=now_s)

    def _resized(self, resize: Resize, question: Asking) -> Decision:
        try:
            return decided(known.of_resize(self, resize, question))
        except ObjectError as error:
            found = Unreadable(error.code, error.detail, resize.ref)
            return known.unreadable(self, found, question.id, question.requester)

    def asked(self, reading: Reading, decision_id: str, now_s: float) -> Decision:
        """What a write would get in the end: where quotas of mode Clamp have no room for it, the largest count that
        fits is granted in its place. Nothing is charged."""
        found = self.decide(reading, decision_id, now_s, charge=False)
        lowered = self.clamp(reading, decision_id, now_s)
        if lowered is None or not isinstance(lowered.todo, Lower):
            return found
        return lowered._replace(verdict=Verdict.ALLOW, reason=CLAMPED, todo=None)

    def clamp(
        self,
        reading: Reading,
        decision_id: str,
        now_s: float,
        *,
        source: str = "",
        requester: Requester | None = None,
    ) -> Decision | None:
        """What to ask for in place of a write that quotas of mode Clamp have no room for; ``None``: leave it as it is.

        The refusal that it would get, and to ``Lower`` it to the largest count that fits (docs/modes.md), unless it
        needs something first. A question: nothing is charged. Whoever asked changes the write, and what is really sent
        is decided upon like any other.
        """
        if not isinstance(reading, Write) or not self.ledger.coverage.tree.clamps or self.policy.mode != "enforce":
            return None
        self._looks_at(now_s)
        question = Asking(decision_id, now_s, source, False, requester)
        context = known.of_write(self, reading, question)
        observed = context.observed
        if observed is None or context.creates:
            return None
        refused = decided(context)
        if isinstance(refused.todo, NeedsFetch):
            return refused
        if not _is_refused_for_its_count_alone(context, refused, observed):
            return None
        version = reading.precondition.resource_version
        if not observed.resource_version or version not in (None, observed.resource_version):
            # Bound to a version that was not seen yet it must be read first. Bound to an older one, it cannot land.
            is_behind = version is not None and is_newer(version, observed.resource_version)
            return refused._replace(todo=NeedsFetch(Fetch.WORKLOAD, reading.ref)) if is_behind else None
        bound = reading.precondition._replace(resource_version=observed.resource_version)
        return self._lowered(reading._replace(precondition=bound), question, refused, observed)

    def _lowered(self, write: Write, question: Asking, refused: Decision, observed: Observed) -> Decision | None:
        """With a count that quotas have room for."""
        asked_for, count = refused.replicas, refused.evidence.fits
        if asked_for is None or count is None or not observed.replicas < count < asked_for:
            return None  # nothing fits, or it would be a hidden scale-down
        granted = decided(known.of_write(self, write._replace(replicas=count), question))
        if granted.verdict is not Verdict.ALLOW or granted.replicas != count:
            return None  # something else speaks against it
        sentence = sentences.clamped(write.ref, asked_for, count, refused.evidence)
        return refused._replace(todo=Lower(count, observed.resource_version), sentence=sentence)


CLAMPED = "clamped"
"""Granted, with a lower count."""


def _rank(context: WriteContext, proposal: Proposal) -> int:
    return context.state.policies.rank(policing.growth(context, proposal))


_FOR_ITS_COUNT = (weighing.EXCEEDED, NOT_ITS_TURN)


def _is_refused_for_its_count_alone(context: WriteContext, refused: Decision, observed: Observed) -> bool:
    """By quotas in mode Clamp and nothing else, for want of room, or because others come first; it differs from what is
    observed only by the count; and nothing else is charged for it."""
    if refused.verdict is not Verdict.DENY or refused.reason not in _FOR_ITS_COUNT:
        return False
    proposal = _weighed(context)
    clamping = {node.quota.name for node in proposal.step.after.envelope_in if node.quota.mode is Mode.CLAMP}
    refusing = {short.quota for short in refused.evidence.shortages}
    return (
        refusing <= clamping
        and all(node.quota.mode is Mode.CLAMP for node in turns.holding(context, proposal, _rank(context, proposal)))
        and context.pending_write.replicas is not None
        and not context.pending_write.changes(observed)
        and proposal.head is proposal.entry
    )


# The phases.


def decided(context: WriteContext) -> Decision:
    """The answer to a write. Its place in the ledger is taken at once if it is granted."""
    if context.write.replicas == 0 and context.write.object is None:
        # An object that asks for none goes on: a count that was allowed before may land on its template.
        return context.answer(Verdict.ALLOW, "zero", "a target of zero always passes", 0)
    answer = known.missing(context)
    if answer is not None:
        return answer
    if not context.state.ledger.coverage.namespaces[context.ref.namespace].covered:
        return _uncovered(context)
    answer = move_waits(context)
    if answer is not None:
        return answer
    proposal = _weighed(context)
    found = _judged(context, proposal)
    return found if isinstance(found, Decision) else granted(context, proposal, found)


def _weighed(context: WriteContext) -> Proposal:
    return context.state.ledger.propose(context.ref, context.pending_write, context.expected, context.entry)


def _uncovered(context: WriteContext) -> Decision:
    """No quota may cover its namespace. The write is followed, because a quota may come to cover it.

    A count for an object that is not known is followed too: the object may be made before the count lands.
    """
    why, evidence = "no quota covers this namespace", Evidence(afterwards=True)
    answer, proposal = (
        context.answer(Verdict.ALLOW, "no-quota", why, context.write.replicas, evidence),
        _weighed(context),
    )
    if _bound_met(context, proposal) is not None:
        return answer
    recorded = record(context, proposal, FITS)
    return answer._replace(todo=recorded.todo, pending_write=recorded.id)


def _judged(context: WriteContext, proposal: Proposal) -> Decision | Grant:
    """The first refusal of whatever is asked of it; else the grant."""
    grant = _at_first(proposal)
    for judge in _judges(context, proposal):
        found = judge(context, proposal, grant)
        if isinstance(found, Decision):
            return found
        grant = found
    return grant


Judge: TypeAlias = Callable[[WriteContext, Proposal, Grant], Decision | Grant]


def _judges(context: WriteContext, proposal: Proposal) -> list[Judge]:
    """What is asked of a write, in the order in which it is told. What nearly never applies is not asked.

    A resize has no count of its own to judge, and what it adds is not unspecified.
    """
    state, step, growth = context.state, proposal.step, proposal.growth
    is_certain = state.hold_until_s is None and state.stale_why is None and not state.ledger.usage.is_counting
    if state.clock_why is not None:
        is_certain = is_certain and not any(node.timed for node in growth.grows)
    judges: list[Judge] = []
    if proposal.joins is not None:
        judges.append(known.unseen_owner)  # it names an owner that the gate does not know
    if context.adds and not (is_certain and not (step.after.unknown or growth.is_uncertain)):
        judges.append(known.uncertain)  # something that bears on what it takes is not known
    if growth.unspecified and not context.resizes:
        judges.append(weighing.must_specify)  # more pods do not say what they need of what a quota limits
    if state.policies.all:
        judges.append(policing.let_grow)  # a policy does not let it grow, or not so far
    if growth.shortages:
        judges.append(weighing.exceeded)  # it grows past a quota
    if state.ledger.coverage.tree.has_turns and growth.grows:
        judges.append(turns.kept)  # what is left is kept for somebody who comes before it
    judges.append(full)  # too many writes are under way
    if state.policies.all:
        judges.append(policing.let_go)  # a policy does not let it grow yet
    return judges


_NO_GROWTH = Grant("no-growth", "grows nothing")
_NO_QUOTA = Grant("no-quota", "no quota covers this workload")


def _at_first(proposal: Proposal) -> Grant:
    if proposal.growth.grows:
        return FITS
    return _NO_GROWTH if proposal.step.after.envelope_in else _NO_QUOTA


def audited(decision: Decision, who: str = "the gate only audits") -> Decision:
    """The answer in mode audit: allowed, with what it would have been."""
    if decision.verdict is Verdict.ALLOW:
        return decision
    sentence = f"allowed, as {who}; Enforce would say: {decision.sentence}"
    return decision._replace(verdict=Verdict.ALLOW, would=decision.verdict, sentence=sentence)


# The last phase: what a grant says, and what it leaves.


class Recorded(NamedTuple):
    """How the ledger follows an allowed write."""

    remark: str
    """Why it is not recorded; empty: it is."""
    todo: Commit | None = None
    id: str | None = None
    """Id of the pending write that stands for it."""


def granted(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision:
    """Nothing speaks against it."""
    reason, why = _would_refuse(context, proposal, grant) or (grant.reason, grant.why)
    recorded = record(context, proposal, grant)
    evidence = Evidence(
        audit=proposal.growth.audit,
        unspecified=grant.unspecified,
        policies=grant.policies,
        grows=bool(proposal.growth.grows) or context.may_raise,
    )
    replicas = context.pending_write.replicas if context.has_count else None
    sentence = why + recorded.remark + grant.remark
    return context.answer(Verdict.ALLOW, reason, sentence, replicas, evidence, recorded.todo, recorded.id)


def record(context: WriteContext, proposal: Proposal, grant: Grant) -> Recorded:
    """Record what was allowed and may still land."""
    if context.free:
        return Recorded(context.free)
    if not context.question.charge:
        return Recorded("; a question, charged nothing", COMMIT)
    pending_write, ledger = context.pending_write, context.state.ledger
    twin = _twin(pending_write, proposal)
    if twin is not None:
        ledger.pending.renew(twin, pending_write.expires_s)
        return Recorded("", COMMIT, twin.id)
    if context.lowers and _bound_met(context, proposal) is not None:
        return Recorded("", COMMIT, _pinned(context, proposal))
    ledger.record(proposal, pending_write)
    if grant.growth is not None:
        context.state.policies.reserve(grant.growth)
    return Recorded("", COMMIT, pending_write.id)


def _pinned(context: WriteContext, proposal: Proposal) -> str:
    """Follow a count that takes no room, where no more writes are followed. Returns the id of what stands for it.

    That is one count for the workload, as high as what is observed, and bound to no version. So it stands for every
    lower one, and there are no more of them than there are workloads.
    """
    assert context.observed is not None, "it is lower than that"
    ledger = context.state.ledger
    pin = replace(context.pending_write, replicas=context.observed.replicas, precondition=NO_PRECONDITION)
    for one in (proposal.entry.pending_writes or {}).values():
        if one.effect == pin.effect:
            ledger.pending.renew(one, pin.expires_s)
            return one.id
    ledger.record(ledger.propose(context.ref, pin, context.expected, context.entry), pin)
    return pin.id


def _would_refuse(context: WriteContext, proposal: Proposal, grant: Grant) -> tuple[str, str] | None:
    """Reason and sentence of a write that quotas in mode Audit would have refused; ``None``: none would."""
    short = proposal.growth.audit
    if not (short or grant.unspecified):
        return None
    ref, rows = context.write.ref, [row for row in grant.unspecified if row.audits]
    would = [sentences.exceeded(ref, short, None, 0)] if short else []
    would += [sentences.must_specify(ref, rows)] if rows else []
    return WOULD_REFUSE, f"allowed, as {_names([*short, *rows])} only audits; Enforce would say: {'; '.join(would)}"


def _names(rows: Sequence[Shortage | Unspecified]) -> str:
    return ", ".join(dict.fromkeys(f"workspace quota {row.quota}" for row in rows))


# Bounds of what pends.


def full(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision | Grant:
    """The refusal of one more write where that would be too many. Less is never refused."""
    found = _bound_met(context, proposal)
    if found is None or context.lowers:
        return grant
    reason, whose = found
    latest = sentences.about(context.state.policy.window_s)
    why = f"already follows {whose} that may still land; try again in {latest} at the latest"
    return context.unavailable(reason, why)


def _twin(pending_write: PendingWrite, proposal: Proposal) -> PendingWrite | None:
    """The open write that stands for ``pending_write`` too, once enough writes of the same effect are under way."""
    live = proposal.entry.pending_writes
    if live is None or len(live) < MAX_IDENTICAL or pending_write.precondition != NO_PRECONDITION:
        return None
    alike = [
        one
        for one in live.values()
        if one.state is State.OPEN and one.replicas == pending_write.replicas and one.effect == pending_write.effect
    ]
    return max(reversed(alike), key=lambda one: one.expires_s) if len(alike) >= MAX_IDENTICAL else None


def _bound_met(context: WriteContext, proposal: Proposal) -> tuple[str, str] | None:
    """The code of the bound that is met, and whose writes they are; ``None``: none is met, or nothing is recorded, or a
    pending write stands for it too.

    Nobody has more pending writes than there are in all.
    """
    if context.free or _twin(context.pending_write, proposal) is not None:
        return None
    policy, ledger, pending_write = context.state.policy, context.state.ledger, context.pending_write
    live = proposal.entry.pending_writes or {}
    is_one_too_many = _is_one_too_many(pending_write, live, policy.max_intents_per_workload)
    source, in_all = context.question.source, len(ledger.pending)
    if source and in_all >= policy.max_intents_per_source <= ledger.pending.of_source(source):
        return "too-many-intents-of-source", f"{policy.max_intents_per_source} writes of {source}"
    if is_one_too_many:
        return "too-many-intents", f"{policy.max_intents_per_workload} different writes to it"
    if in_all >= policy.max_intents:
        return "too-many-intents", f"{in_all} writes"
    if in_all >= policy.max_intents_per_tree:
        for root in proposal.step.after.trees:
            if ledger.pending.of_tree(root) >= policy.max_intents_per_tree:
                return "too-many-intents-in-tree", f"{policy.max_intents_per_tree} writes under workspace quota {root}"
    more = held_by(context.ref, pending_write, proposal.step.after.envelope_in)
    return _memory_met(context, proposal, more) if more else None


def _memory_met(context: WriteContext, proposal: Proposal, more: int) -> tuple[str, str] | None:
    """The same of what writes hold. A count that a quota covers is never refused for it."""
    ledger = context.state.ledger
    has_quota = ledger.coverage.namespaces[context.ref.namespace].covered
    most = {"": MAX_BYTES_UNCOVERED if has_quota else MAX_BYTES_UNCOVERED // 2}
    for quota in leaves(proposal.step.after.envelope_in) or UNCOVERED:
        held = ledger.pending.bytes_held_in(quota)
        if held + more > most.get(quota, MAX_BYTES_IN_QUOTA):
            whose = f"under workspace quota {quota}" if quota else "that no workspace quota covers"
            return "too-many-bytes-in-quota", f"{held // 1024} KiB of changes {whose}"
    if ledger.pending.bytes_held + more > MAX_BYTES:
        return "too-many-bytes", f"{ledger.pending.bytes_held // 1024} KiB of changes"
    return None


def _is_one_too_many(pending_write: PendingWrite, live: Mapping[str, PendingWrite], most: int) -> bool:
    """Whether there are ``most`` different effects already. A retry adds none."""
    if len(live) < most:
        return False
    different = {one.effect for one in live.values()}
    return pending_write.effect not in different and len(different) >= most


# Moves.


def move_waits(context: WriteContext) -> Decision | None:
    """The refusal of a write that may move the workload while what follows it may still land."""
    pending_write, observed = context.pending_write, context.observed
    if context.entry is None or observed is None or not pending_write.labels:
        return None  # nearly always: a count moves nothing
    if not replace(pending_write, templates=()).changes(observed):
        return None
    followers = [one for _, one in context.state.ledger.followers(context.entry)]
    if not followers:
        return None
    left = sentences.about(max(one.expires_s for one in followers) - context.question.now_s)
    why = "cannot move it to other quotas while changes of its pods or members may still land; try again in"
    return context.unavailable(MOVE_WAITS, f"{why} {left} at the latest")
