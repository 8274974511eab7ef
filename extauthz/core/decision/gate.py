"""The decision: one request in, one answer out, in one synchronous step over the ledger.

The chain is ordered: what cannot grow passes; what cannot be told is refused by its named reason; what grows must fit
every quota and every ancestor. Nothing here waits, logs or looks at a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from extauthz.core.decision import doubts, flood, handover, scales, sentences
from extauthz.core.decision.auditing import audited
from extauthz.core.decision.doubts import Doubt
from extauthz.core.decision.known import Known
from extauthz.core.decision.landings import Landings, follow, is_patch
from extauthz.core.decision.policy import Policy
from extauthz.core.decision.question import Question
from extauthz.core.decision.scales import Scales
from extauthz.core.intake.read import read
from extauthz.core.ledger.intents import Event, Intent
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.model import (
    Decision,
    NotAWrite,
    Observed,
    OnUnknown,
    Operation,
    Outcome,
    Reading,
    Request,
    Unknown,
    Unreadable,
    Verdict,
    WorkloadRef,
)

T = TypeVar("T")


class Gate(Known):
    """Quotas, cluster and ledger behind one ``decide``."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__()
        self.policy = policy if policy is not None else Policy()
        self.ledger.scope.charge_surge = self.policy.charge_surge
        self.reader: Callable[[Request], Reading] = read
        """A gate that serves has a ``Reader``, which remembers."""
        self.scales: Scales | None = None
        """Bounds of replicas besides the quotas; ``None``: there are none."""

    # What became of what was allowed.

    def consistent_read(self, started_s: float) -> int:
        """The state now loaded is taken to be no older than ``started_s``: whatever had reached its W by then ends.

        For sources that cannot be asked for one workload. Returns how many intents ended (§6.3e).
        """
        return self.ledger.consistent_read(started_s)

    def settle(self, intent_id: str, event: Event, now_s: float) -> WorkloadRef | None:
        """Tell what became of an allowed request. Returns the workload that needs a consistent read from now on."""
        return self.ledger.settle(intent_id, event, now_s)

    def due(self, now_s: float) -> Iterable[WorkloadRef]:
        """Workloads that need a consistent read: a write of theirs was answered, or its W has elapsed. Each once.

        A name that begins with ``#`` is no object's: it stands for a create that left the name to the API server. To
        read it is to list, and to observe, all of that kind in its namespace.
        """
        return self.ledger.due(now_s)

    def read(self, ref: WorkloadRef, started_s: float) -> int:
        """What a consistent read of ``ref`` that began at ``started_s`` brought has been observed (§6.3c, §6.3e).

        Returns how many intents on it ended by that.
        """
        return self.ledger.read(ref, started_s)

    def export_intents(self, now_s: float) -> list[dict[str, object]]:
        """Live intents as JSON-ready records, for the next start (DESIGN §6.5)."""
        return handover.dump(self.ledger, now_s)

    def import_intents(self, records: Iterable[Mapping[str, object]], now_s: float) -> None:
        """Take over the intents of a clean stop.

        Long patches of templates or labels are not handed over themselves, and what they would make of a later one is
        not known: nothing grows until the last of them can no longer land.

        Raises:
            HandoverError: a record is not one that ``export_intents`` wrote.
        """
        patches_until_s = handover.load(self.ledger, records, now_s)
        if patches_until_s > now_s:
            self.hold(patches_until_s)

    # Deciding.

    def decide(self, request: Request, decision_id: str, now_s: float, *, charge: bool = True) -> Decision:
        """Answer ``request``. With ``charge`` false the same path is taken and nothing is recorded (rule 4)."""
        decision = self._decide(request, decision_id, now_s, charge)
        return decision if self.policy.mode == "enforce" else audited(decision)

    def _decide(self, request: Request, decision_id: str, now_s: float, charge: bool) -> Decision:
        reading = self.reader(request)
        if isinstance(reading, NotAWrite):
            return Decision(decision_id, Verdict.ALLOW, reading.code, reading.why)
        if isinstance(reading, Unreadable):
            return self._unreadable(reading, decision_id)
        ref = reading.ref
        if not ref.name:
            ref = ref._replace(name=f"#{decision_id}")
        entry = self.ledger.get(ref)
        observed = entry.observed if entry is not None else None
        question = Question(decision_id, reading, ref, now_s, charge, entry, observed, request.source)
        return self._decide_write(question)

    def _unreadable(self, reading: Unreadable, decision_id: str) -> Decision:
        ref = reading.ref
        if ref is not None and self.synced and not self.ledger.scope.may_cover(ref.namespace):
            return Decision(decision_id, Verdict.ALLOW, "no-quota", "no quota covers this namespace", ref)
        concerned = self.ledger.scope.candidates(ref.namespace) if ref is not None else ()
        allow = self.policy.on(Unknown.UNREADABLE, concerned) == "allow"
        why = f"cannot read it ({reading.code}): {reading.detail}"
        verdict = Verdict.ALLOW if allow else Verdict.UNAVAILABLE
        return Decision(decision_id, verdict, reading.code, sentences.unavailable(reading.ref, why), reading.ref)

    def _decide_write(self, question: Question) -> Decision:
        entry = question.entry
        landings = follow(question.write, entry)
        if isinstance(landings, Unreadable):
            return self._unreadable(replace(landings, ref=question.write.ref), question.id)
        outcomes = landings.own
        creates = not question.write.scale and question.write.operation in (Operation.CREATE, Operation.APPLY)
        if not creates and outcomes[0].replicas == 0 and _only_zero(outcomes):
            return question.answer(Verdict.ALLOW, "zero", "a target of zero always passes", 0)
        if not self.synced:
            why = "does not know the quotas yet" if not self._quotas_known else "has not seen the cluster yet"
            return self._unknown(
                question, self._setting(question, Unknown.UNSYNCED), "unsynced", f"{why}; try again shortly"
            )
        if not self.ledger.scope.may_cover(question.ref.namespace):
            return question.answer(Verdict.ALLOW, "no-quota", "no quota covers this namespace", outcomes[0].replicas)
        if not creates and (entry is None or not entry.is_known):
            return self._unknown_workload(question)
        if question.ref.namespace not in self.ledger.scope.namespaces:
            why = f'has not seen the namespace "{question.ref.namespace}", so cannot tell which quotas cover it'
            return self._unknown(question, self._setting(question, Unknown.WORKLOAD), "unknown-namespace", why)
        return self._weigh(question, landings, creates)

    def _unknown_workload(self, question: Question) -> Decision:
        why = f'has not seen it in namespace "{question.ref.namespace}", so cannot tell what it costs'
        return self._unknown(question, self._setting(question, Unknown.WORKLOAD), "unknown-workload", why)

    def _setting(self, question: Question, unknown: Unknown) -> OnUnknown:
        """What is done where it is not known which of the quotas over its namespace a write concerns."""
        return self.policy.on(unknown, self.ledger.scope.candidates(question.ref.namespace))

    def _unknown(self, question: Question, setting: OnUnknown, reason: str, why: str) -> Decision:
        verdict = Verdict.ALLOW if setting == "allow" else Verdict.UNAVAILABLE
        return question.answer(verdict, reason, sentences.unavailable(question.write.ref, why))

    def _weigh(self, question: Question, landings: Landings, creates: bool) -> Decision:
        intent = self._intent(question, landings, creates)
        born = _born(landings.own[0]) if creates and question.observed is None else None
        proposal = self.ledger.propose(question.ref, intent, born, question.entry)
        refusal = self._refusal(question, intent, proposal)
        if refusal is None and self.scales is not None:
            refusal = scales.refusal(self.scales, self.policy, question, intent, proposal)
        if refusal is not None:
            return refusal
        granted = self._grant(question, intent, proposal)
        return granted if self.scales is None else scales.remarked(self.scales, granted, question, intent, proposal)

    def _intent(self, question: Question, landings: Landings, creates: bool) -> Intent:
        """The most that the write may leave, over all the states that it may find, and what may come after it."""
        outcome = landings.own[0]
        replicas, templates, labels = outcome.replicas, outcome.templates, outcome.label_sets
        keeps_count = outcome.keeps_count
        if len(landings.own) > 1 or landings.late:
            everything = [*landings.own, *landings.late]
            counts = [one.replicas for one in landings.own if one.replicas is not None]
            replicas = max(counts) if counts else None
            templates = _distinct([one.templates for one in everything])
            labels = _distinct([one.label_sets for one in everything])
            keeps_count = keeps_count or any(late.replicas is not None for late in landings.late)
        patches = bool(templates or labels) and is_patch(question.write)
        return Intent(
            id=question.id,
            replicas=replicas,
            templates=templates,
            labels=labels,
            creates=creates,
            precondition=question.write.precondition,
            expires_s=question.now_s + self.policy.window_s,
            source=question.source,
            owner=outcome.owner,
            frees=outcome.frees or (question.write.operation is Operation.CREATE and outcome.owner is None),
            keeps_count=keeps_count,
            is_patch=patches,
            patch=question.write if patches else None,
        )

    def _refusal(self, question: Question, intent: Intent, proposal: Proposal) -> Decision | None:
        if not proposal.grows:
            return None
        for doubt in self._doubts(question, proposal):
            if doubt.setting == "deny":
                return self._unknown(question, doubt.setting, doubt.reason, doubt.why)
        if proposal.shortages:
            fits = self.ledger.largest_replicas(question.ref, intent, proposal)
            surge = self.ledger.surge(proposal, intent)
            sentence = sentences.exceeded(question.write.ref, proposal.shortages, fits, surge)
            short, audit = proposal.shortages, proposal.audit
            return question.answer(Verdict.DENY, "exceeded-quota", sentence, intent.replicas, short, audit, fits)
        return None

    def _doubts(self, question: Question, proposal: Proposal) -> Iterable[Doubt]:
        """What the gate does not know about growth."""
        until_s = self._hold_until_s
        ignorant = proposal.after.unknown or proposal.unpriced or proposal.illegible
        if until_s is None and self._stale is None and not ignorant:
            return ()  # nearly always, and so without a generator
        left_s = until_s - question.now_s if until_s is not None and question.now_s < until_s else None
        return doubts.of_growth(self.policy, proposal, left_s, self._stale)

    def _grant(self, question: Question, intent: Intent, proposal: Proposal) -> Decision:
        reason, sentence = self._why_granted(question, proposal)
        recorded = None
        if question.write.dry_run or not question.charge:
            sentence += "; a question, charged nothing"
        elif self.policy.mode == "audit":
            sentence += "; mode audit, charged as observed"
        elif _is_harmless(question.observed, intent):
            sentence += "; can land only on what is observed"
        else:
            full = flood.refusal(self.policy, self.ledger, question, proposal)
            if full is not None:
                return full
            self.ledger.record(proposal, intent)
            recorded = intent.id
        audit = proposal.audit
        return question.answer(Verdict.ALLOW, reason, sentence, intent.replicas, audit=audit, intent=recorded)

    def _why_granted(self, question: Question, proposal: Proposal) -> tuple[str, str]:
        if not proposal.after.envelope_in:
            return "no-quota", "no quota covers this workload"
        if not proposal.grows:
            return "no-growth", "grows nothing"
        for doubt in self._doubts(question, proposal):
            return doubt.reason, f"fits as far as can be told; the quota gate {doubt.why}"
        return "fits", "fits every quota"


def _distinct(groups: list[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(one for group in groups for one in group))


def _only_zero(outcomes: list[Outcome]) -> bool:
    """All that the write does is to ask for no replicas.

    A write that asks for none and grows the template besides is weighed: a scale-up that was allowed before may land
    after it, on the grown template.
    """
    return all(o.replicas == 0 and not o.templates and o.labels is None for o in outcomes)


def _born(outcome: Outcome) -> Observed:
    template = outcome.templates[0] if outcome.templates else None
    return Observed(outcome.replicas or 0, template, outcome.labels or "", owner=outcome.owner)


def _is_harmless(observed: Observed | None, intent: Intent) -> bool:
    """The API server will take it only on exactly what is observed, and it raises neither count nor cost of that.

    Each by itself: a dearer template under fewer replicas would meet the count of another write that lands later.
    """
    version = intent.precondition.resource_version
    if observed is None or not version or version != observed.resource_version:
        return False
    return (
        (intent.replicas is None or intent.replicas <= observed.replicas)
        and all(template == observed.template for template in intent.templates)
        and all(labels == observed.labels for labels in intent.labels)
        and not intent.frees
        and intent.owner in (None, observed.owner)
    )
