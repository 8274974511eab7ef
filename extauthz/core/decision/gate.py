"""The gate: what is known, what was allowed, and ``decide``, which answers a write in one synchronous step.

know → weigh → judge → record: ``decided`` has the phases of a write, and ``_judges`` what is asked of it, in order. A
new check is one more of those. Nothing here waits, logs, looks at a clock, or knows of HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from extauthz.core.decision import known, policing, recording, sentences, unknowns, weighing
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.decision.known import FITS, Asked, Grounds, Question
from extauthz.core.footprint import FootprintError
from extauthz.core.ledger import record
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.ledger.pending_write import is_newer
from extauthz.core.model import (
    Decision,
    Fetch,
    NeedsFetch,
    NotACount,
    NotAWrite,
    Observed,
    Reading,
    Requester,
    Resize,
    Unreadable,
    Verdict,
    Write,
)
from extauthz.core.quota.spec import Mode


class HandoverError(ValueError):
    """A record of a handover cannot be read. Then a recovery hold begins, as after a crash."""


class Gate(ClusterState):
    """Quotas, cluster and ledger behind one ``decide``."""

    # Pending writes are handed from a clean stop to the next start (design.md L5).

    def export_pending_writes(self, now_s: float) -> list[dict[str, object]]:
        """Live pending writes as JSON-ready records. Times are seconds left: the next start has another clock."""
        return [
            {**record.dump(ref, pending_write), "left_s": pending_write.expires_s - now_s}
            for ref, pending_write in self.ledger.pending
        ]

    def import_pending_writes(self, records: Iterable[Mapping[str, object]], now_s: float) -> None:
        """Take over the pending writes of a clean stop.

        Raises:
            HandoverError: a record is not one that ``export_pending_writes`` wrote; the ledger then holds those before
                it.
        """
        for number, one in enumerate(records):
            left_s = one.get("left_s")
            try:
                if not isinstance(left_s, int | float):
                    raise record.RecordError("left_s must be a number of seconds")
                ref, pending_write = record.load(one, now_s + left_s, now_s)
                if self.ledger.pending.follows(pending_write.id):
                    raise record.RecordError(f"there is another pending write {pending_write.id}")
            except record.RecordError as error:
                raise HandoverError(f"pending write {number}: {error}") from error
            self.ledger.adopt(ref, pending_write)

    # Deciding.

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
            reading: what the request means; ``intake.read`` reads it from HTTP.
            source: who sent it, as the proxy vouches for it; empty: not known.
            requester: who sent it, for quotas that bind some; ``None``: not known.
        """
        self.looks_at(now_s)
        if isinstance(reading, Write):
            decision = decided(known.of_write(self, reading, Question(decision_id, now_s, source, charge, requester)))
        elif isinstance(reading, Resize):
            decision = self._resized(reading, Question(decision_id, now_s, source, charge, requester))
        elif isinstance(reading, NotAWrite):
            decision = Decision(decision_id, Verdict.ALLOW, reading.code, reading.why)
        elif isinstance(reading, NotACount):
            decision = unknowns.not_a_count(self, reading, decision_id, requester)
        else:
            decision = unknowns.unreadable(self, reading, decision_id, requester)
        return decision if self.policy.mode == "enforce" else audited(decision)

    def _resized(self, resize: Resize, question: Question) -> Decision:
        try:
            return decided(known.of_resize(self, resize, question))
        except FootprintError as error:
            found = Unreadable(error.code, error.detail, resize.ref)
            return unknowns.unreadable(self, found, question.id, question.requester)

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

        The refusal that it would get, with the largest count that fits (docs/modes.md). The fields ``clamped_to`` and
        ``version`` say it, unless it ``needs`` something first. A question: nothing is charged. Whoever asked changes
        the write, and what is really sent is decided upon like any other.
        """
        if not isinstance(reading, Write) or not self.ledger.coverage.tree.clamps or self.policy.mode != "enforce":
            return None
        self.looks_at(now_s)
        question = Question(decision_id, now_s, source, False, requester)
        asked = known.of_write(self, reading, question)
        observed = asked.observed
        if observed is None or asked.creates:
            return None
        refused = decided(asked)
        if refused.needs is not None:
            return refused
        if not _is_refused_for_its_count_alone(asked, refused, observed):
            return None
        count, version = refused.fits, reading.precondition.resource_version
        if count is None or count <= observed.replicas:
            return None  # nothing fits, or it would be a hidden scale-down
        if not observed.resource_version or version not in (None, observed.resource_version):
            # Bound to a version that was not seen yet it must be read first. Bound to an older one, it cannot land.
            is_behind = version is not None and is_newer(version, observed.resource_version)
            return refused._replace(needs=NeedsFetch(Fetch.WORKLOAD, reading.ref)) if is_behind else None
        bound = reading.precondition._replace(resource_version=observed.resource_version)
        granted = decided(known.of_write(self, reading._replace(replicas=count, precondition=bound), question))
        if granted.needs is not None:
            return granted
        if granted.verdict is not Verdict.ALLOW or granted.replicas != count:
            return None
        assert refused.replicas is not None
        sentence = sentences.clamped(reading.ref, refused.replicas, count, refused.shortages)
        return refused._replace(clamped_to=count, version=observed.resource_version, sentence=sentence)


def _is_refused_for_its_count_alone(asked: Asked, refused: Decision, observed: Observed) -> bool:
    """By quotas in mode Clamp and nothing else; it differs from what is observed only by the count; and nothing else is
    charged for it."""
    if refused.verdict is not Verdict.DENY or refused.reason != weighing.EXCEEDED:
        return False
    proposal = _weighed(asked)
    clamping = {node.quota.name for node in proposal.step.after.envelope_in if node.quota.mode is Mode.CLAMP}
    return (
        all(short.quota in clamping for short in refused.shortages)
        and asked.pending_write.replicas is not None
        and not asked.pending_write.changes(observed)
        and proposal.head is proposal.entry
    )


# The phases.


def decided(asked: Asked) -> Decision:
    """The answer to a write. Its place in the ledger is taken at once if it is granted."""
    if asked.write.replicas == 0 and asked.write.object is None:
        # An object that asks for none goes on: a count that was allowed before may land on its template.
        return asked.answer(Verdict.ALLOW, "zero", "a target of zero always passes", 0)
    answer = unknowns.missing(asked)
    if answer is not None:
        return answer
    if not asked.state.ledger.coverage.may_cover(asked.ref.namespace):
        return _uncovered(asked)
    answer = recording.move_waits(asked)
    if answer is not None:
        return answer
    proposal = _weighed(asked)
    found = _judged(asked, proposal)
    return found if isinstance(found, Decision) else recording.granted(asked, proposal, found)


def _weighed(asked: Asked) -> Proposal:
    return asked.state.ledger.propose(asked.ref, asked.pending_write, asked.expected, asked.entry)


def _uncovered(asked: Asked) -> Decision:
    """No quota may cover its namespace. The write is followed, because a quota may come to cover it.

    A count for an object that is not known is followed too: the object may be made before the count lands.
    """
    answer = asked.answer(Verdict.ALLOW, "no-quota", "no quota covers this namespace", asked.write.replicas)
    answer, proposal = answer._replace(uncovered=True), _weighed(asked)
    if isinstance(recording.full(asked, proposal, FITS), Decision):
        return answer
    recorded = recording.record(asked, proposal, FITS)
    return answer._replace(pends=recorded.pends, pending_write=recorded.id)


def _judged(asked: Asked, proposal: Proposal) -> Decision | Grounds:
    """The first refusal of whatever is asked of it; else the grounds of a grant."""
    grounds = _at_first(proposal)
    for judge in _judges(asked, proposal):
        found = judge(asked, proposal, grounds)
        if isinstance(found, Decision):
            return found
        grounds = found
    return grounds


Judge: TypeAlias = Callable[[Asked, Proposal, Grounds], Decision | Grounds]


def _judges(asked: Asked, proposal: Proposal) -> list[Judge]:
    """What is asked of a write, in the order in which it is told. What nearly never applies is not asked.

    A resize has no count of its own to judge, and what it adds is not unspecified.
    """
    state, step, growth = asked.state, proposal.step, proposal.growth
    has_policies = state.policies.all or state.ledger.coverage.tree.has_policies
    is_certain = state.hold_until_s is None and state.stale_why is None
    judges: list[Judge] = []
    if proposal.joins is not None:
        judges.append(unknowns.unseen_owner)  # it names an owner that the gate does not know
    if asked.adds and not (is_certain and not (step.after.unknown or growth.unpriced or growth.illegible)):
        judges.append(unknowns.uncertain)  # something that bears on what it takes is not known
    if growth.unspecified and not asked.resizes:
        judges.append(weighing.must_specify)  # more pods do not say what they need of what a quota limits
    if has_policies:
        judges.append(policing.let_grow)  # a policy does not let it grow, or not so far
    if growth.shortages:
        judges.append(weighing.exceeded)  # it grows past a quota
    if state.bounds is not None and not asked.resizes:
        judges.append(weighing.exceeded_max_scale)  # it grows past what the platform's own service allows
    judges.append(recording.full)  # too many writes are under way
    if has_policies:
        judges.append(policing.let_go)  # a policy does not let it grow yet
    return judges


_NO_GROWTH = Grounds("no-growth", "grows nothing")
_NO_QUOTA = Grounds("no-quota", "no quota covers this workload")


def _at_first(proposal: Proposal) -> Grounds:
    if proposal.growth.grows:
        return FITS
    return _NO_GROWTH if proposal.step.after.envelope_in else _NO_QUOTA


def audited(decision: Decision) -> Decision:
    """The answer in mode audit: allowed, with what it would have been."""
    if decision.verdict is Verdict.ALLOW:
        return decision
    sentence = f"allowed, as the gate only audits; else: {decision.sentence}"
    return decision._replace(verdict=Verdict.ALLOW, would=decision.verdict, sentence=sentence)
