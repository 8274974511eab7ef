"""The decision: one request in, one answer out, in one synchronous step over the ledger.

The chain is ordered: what cannot grow passes; what cannot be told is refused by its named reason; what grows must fit
every quota and every ancestor. Nothing here waits, logs or looks at a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from extauthz.core.decision import changes, doubts, effects, flood, handover, scales, sentences
from extauthz.core.decision.auditing import audited
from extauthz.core.decision.doubts import Doubt
from extauthz.core.decision.known import Known
from extauthz.core.decision.policy import Policy
from extauthz.core.decision.question import Question
from extauthz.core.decision.scales import Scales
from extauthz.core.effects.resolve import resolve
from extauthz.core.intake.read import read
from extauthz.core.ledger.intents import Intent
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.model import (
    Decision,
    NotAWrite,
    OnUnknown,
    Operation,
    Outcome,
    Reading,
    Request,
    Unknown,
    Unreadable,
    Verdict,
)


class _Recorded(NamedTuple):
    """What became of an allowed write in the ledger."""

    remark: str
    """Why it is not recorded; empty: it is."""
    pends: bool = False
    id: str | None = None
    """Of the intent that stands for it."""


class Gate(Known):
    """Quotas, cluster and ledger behind one ``decide``."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__()
        self.policy = policy if policy is not None else Policy()
        self.ledger.pod_costs.charge_surge = self.policy.charge_surge
        self.reader: Callable[[Request], Reading] = read
        """A gate that serves has a ``Reader``, which remembers."""
        self.scales: Scales | None = None
        """Bounds of replicas besides the quotas; ``None``: there are none."""

    def export_intents(self, now_s: float) -> list[dict[str, object]]:
        """Live intents as JSON-ready records, for the next start (DESIGN §6.5)."""
        return handover.dump(self.ledger, now_s)

    def import_intents(self, records: Iterable[Mapping[str, object]], now_s: float) -> None:
        """Take over the intents of a clean stop.

        Raises:
            HandoverError: a record is not one that ``export_intents`` wrote.
        """
        handover.load(self.ledger, records, now_s)

    # Deciding.

    def decide(self, request: Request, decision_id: str, now_s: float, *, charge: bool = True) -> Decision:
        """Answer ``request``: read it, and ``judge`` what it says."""
        return self.judge(self.reader(request), decision_id, now_s, source=request.source, charge=charge)

    def judge(
        self, reading: Reading, decision_id: str, now_s: float, *, source: str = "", charge: bool = True
    ) -> Decision:
        """Answer a request that was read. With ``charge`` false the same path is taken and nothing is recorded.

        Args:
            source: who sent it, as the proxy vouches for it; empty: not known.
        """
        decision = self._judge(reading, decision_id, now_s, source, charge)
        return decision if self.policy.mode == "enforce" else audited(decision)

    def _judge(self, reading: Reading, decision_id: str, now_s: float, source: str, charge: bool) -> Decision:
        if isinstance(reading, NotAWrite):
            return Decision(decision_id, Verdict.ALLOW, reading.code, reading.why)
        if isinstance(reading, Unreadable):
            return self._unreadable(reading, decision_id)
        ref = reading.ref
        if not ref.name:
            ref = ref._replace(name=f"#{decision_id}")
        entry = self.ledger.get(ref)
        observed = entry.observed if entry is not None else None
        return self._decide_write(Question(decision_id, reading, ref, now_s, charge, entry, observed, source))

    def _unreadable(self, reading: Unreadable, decision_id: str) -> Decision:
        ref = reading.ref
        if ref is not None and self.synced and not self.ledger.coverage.may_cover(ref.namespace):
            return Decision(decision_id, Verdict.ALLOW, "no-quota", "no quota covers this namespace", ref)
        concerned = self.ledger.coverage.candidates(ref.namespace) if ref is not None else ()
        allow = self.policy.on(Unknown.UNREADABLE, concerned) == "allow"
        why = f"cannot read it ({reading.code}): {reading.detail}"
        verdict = Verdict.ALLOW if allow else Verdict.UNAVAILABLE
        return Decision(decision_id, verdict, reading.code, sentences.unavailable(reading.ref, why), reading.ref)

    def _decide_write(self, question: Question) -> Decision:
        entry = question.entry
        outcome = resolve(question.write, question.base)
        if isinstance(outcome, Unreadable):
            return self._unreadable(replace(outcome, ref=question.write.ref), question.id)
        creates = not question.write.scale and question.write.operation in (Operation.CREATE, Operation.APPLY)
        if not creates and outcome.replicas == 0 and effects.is_only_a_count(outcome):
            return question.answer(Verdict.ALLOW, "zero", "a target of zero always passes", 0)
        if not self.synced:
            why = "does not know the quotas yet" if not self._quotas_known else "has not seen the cluster yet"
            return self._unknown(
                question, self._setting(question, Unknown.UNSYNCED), "unsynced", f"{why}; try again shortly"
            )
        is_known = creates or (entry is not None and entry.is_known)
        if not self.ledger.coverage.may_cover(question.ref.namespace):
            return self._pin(question, outcome, creates, is_known)
        if not is_known:
            return self._unknown_workload(question)
        if question.ref.namespace not in self.ledger.coverage.namespaces:
            why = f'has not seen the namespace "{question.ref.namespace}", so cannot tell which quotas cover it'
            return self._unknown(question, self._setting(question, Unknown.WORKLOAD), "unknown-namespace", why)
        return self._weigh(question, outcome, creates)

    def _pin(self, question: Question, outcome: Outcome, creates: bool, is_known: bool) -> Decision:
        """Of a namespace that no quota may cover. What may still land is followed, as one may come to cover it."""
        answer = question.answer(Verdict.ALLOW, "no-quota", "no quota covers this namespace", outcome.replicas)
        answer = answer._replace(uncovered=True)
        if not is_known:
            return answer
        intent = effects.intent_of(question, outcome, creates, self.policy.window_s)
        proposal = self.ledger.propose(question.ref, intent, effects.born(question, outcome, creates), question.entry)
        recorded = self._recorded(question, intent, proposal)
        return answer if isinstance(recorded, Decision) else answer._replace(pends=recorded.pends, intent=recorded.id)

    def _unknown_workload(self, question: Question) -> Decision:
        why = f'has not seen it in namespace "{question.ref.namespace}", so cannot tell what it costs'
        return self._unknown(question, self._setting(question, Unknown.WORKLOAD), "unknown-workload", why)

    def _setting(self, question: Question, unknown: Unknown) -> OnUnknown:
        """What is done where it is not known which of the quotas over its namespace a write concerns."""
        return self.policy.on(unknown, self.ledger.coverage.candidates(question.ref.namespace))

    def _unknown(self, question: Question, setting: OnUnknown, reason: str, why: str) -> Decision:
        verdict = Verdict.ALLOW if setting == "allow" else Verdict.UNAVAILABLE
        return question.answer(verdict, reason, sentences.unavailable(question.write.ref, why))

    def _weigh(self, question: Question, outcome: Outcome, creates: bool) -> Decision:
        born = effects.born(question, outcome, creates)
        intent = effects.intent_of(question, outcome, creates, self.policy.window_s)
        if intent.touches and not effects.is_harmless(question.observed, intent):
            found = changes.beside(question, intent, born)
            if isinstance(found, Decision):
                return found
            intent = found
        proposal = self.ledger.propose(question.ref, intent, born, question.entry)
        refusal = self._refusal(question, intent, proposal)
        if refusal is None and self.scales is not None:
            refusal = scales.refusal(self.scales, self.policy, question, intent, proposal)
        if refusal is not None:
            return refusal
        granted = self._grant(question, intent, proposal)
        return granted if self.scales is None else scales.remarked(self.scales, granted, question, intent, proposal)

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
        left_s = max(until_s - question.now_s, 0.0) if until_s is not None else None
        ignorant = proposal.after.unknown or proposal.unpriced or proposal.illegible
        if until_s is None and self._stale is None and not ignorant:
            return ()  # nearly always, and so without a generator
        return doubts.of_growth(self.policy, proposal, left_s, self._stale)

    def _grant(self, question: Question, intent: Intent, proposal: Proposal) -> Decision:
        reason, sentence = self._why_granted(question, proposal)
        recorded = self._recorded(question, intent, proposal)
        if isinstance(recorded, Decision):
            return recorded
        audit = proposal.audit
        sentence += recorded.remark
        pends = recorded.pends
        return question.answer(
            Verdict.ALLOW, reason, sentence, intent.replicas, audit=audit, intent=recorded.id, pends=pends
        )

    def _recorded(self, question: Question, intent: Intent, proposal: Proposal) -> _Recorded | Decision:
        """Record what was allowed and may still land, or refuse it where too much is under way already."""
        if question.write.dry_run:
            return _Recorded("; a question, charged nothing")
        if self.policy.mode == "audit":
            return _Recorded("; mode audit, charged as observed")
        if effects.is_harmless(question.observed, intent):
            return _Recorded("; can land only on what is observed")
        twin = flood.twin(intent, proposal)
        full = flood.refusal(self.policy, self.ledger, question, intent, proposal) if twin is None else None
        if full is not None:
            return full
        if not question.charge:
            return _Recorded("; a question, charged nothing", pends=True)
        if twin is not None:
            self.ledger.pending.renew(twin, intent.expires_s)
            return _Recorded("", pends=True, id=twin.id)
        self.ledger.record(proposal, intent)
        return _Recorded("", True, intent.id)

    def _why_granted(self, question: Question, proposal: Proposal) -> tuple[str, str]:
        if not proposal.after.envelope_in:
            return "no-quota", "no quota covers this workload"
        if not proposal.grows:
            return "no-growth", "grows nothing"
        for doubt in self._doubts(question, proposal):
            return doubt.reason, f"fits as far as can be told; the quota gate {doubt.why}"
        return "fits", "fits every quota"
