"""What a platform's own service says a workload may have at most: its answers, how old they are, and what they decide.

A bound of replicas, besides the quotas. Time comes in; whoever asks the service puts its answers here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cachetools import LRUCache

from extauthz.core.decision import sentences
from extauthz.core.decision.policy import Policy
from extauthz.core.decision.question import Question
from extauthz.core.ledger.intents import Intent
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.model import Decision, Verdict, WorkloadRef

UNASKED = "max-scale-unasked"
"""Reason of a decision that is none yet: the service has to be asked first, and then it is decided again."""
UNKNOWN = "max-scale-unknown"
KEPT = "max-scale-stale"
EXCEEDED = "exceeded-max-scale"

MAX_ANSWERS = 65_536
"""Workloads whose answers are kept, the last ones asked about; a few hundred bytes each."""

ASK_AGAIN_S = 1.0
"""After a failure, for one workload. An autoscaler asks every few seconds."""


class Freshness(StrEnum):
    """Of what is known of one workload. See docs/http-source.md for what each means to growth."""

    FRESH = "fresh"
    KEPT = "kept"
    """Too old, but the service cannot be asked, and it is not that old."""
    UNKNOWN = "unknown"
    """It was asked just now, to no avail."""
    UNASKED = "unasked"
    """It has to be asked."""


@dataclass(slots=True)
class _Answer:
    most: int | None = None
    answered_s: float | None = None
    failed_s: float | None = None


class Known(NamedTuple):
    """What is known of one workload."""

    freshness: Freshness
    most: int | None = None
    """``None``: no bound. Only where it is fresh or kept."""
    age_s: float = 0.0


class Scales:
    """Answers by workload.

    Args:
        ttl_s: how long an answer is good by itself.
        keep_s: how long, from its time, it is used while there is no other.
    """

    def __init__(self, ttl_s: float, keep_s: float, most: int = MAX_ANSWERS) -> None:
        self._ttl_s = ttl_s
        self._keep_s = max(keep_s, ttl_s)
        self._answers: LRUCache[WorkloadRef, _Answer] = LRUCache(most)

    def __len__(self) -> int:
        return len(self._answers)

    def answered(self, ref: WorkloadRef, most: int | None, now_s: float) -> None:
        """The service has said it; ``None``: no bound. ``now_s``: when it was asked."""
        self._answers[ref] = _Answer(most, now_s)

    def failed(self, ref: WorkloadRef, now_s: float) -> None:
        """The service has given no good answer."""
        answer = self._answers.setdefault(ref, _Answer())
        answer.failed_s = now_s

    def known(self, ref: WorkloadRef, now_s: float) -> Known:
        """What is known of a workload."""
        answer = self._answers.get(ref)
        if answer is None:
            return Known(Freshness.UNASKED)
        age_s = now_s - answer.answered_s if answer.answered_s is not None else None
        if age_s is not None and age_s < self._ttl_s:
            return Known(Freshness.FRESH, answer.most, age_s)
        if answer.failed_s is None or now_s - answer.failed_s >= ASK_AGAIN_S:
            return Known(Freshness.UNASKED)
        if age_s is not None and age_s < self._keep_s:
            return Known(Freshness.KEPT, answer.most, age_s)
        return Known(Freshness.UNKNOWN)


def refusal(scales: Scales, policy: Policy, question: Question, intent: Intent, proposal: Proposal) -> Decision | None:
    """Whether the service, or not knowing what it says, forbids a growth that the quotas have room for."""
    if not _grows(intent, proposal):
        return None
    ref = question.write.ref
    known = scales.known(ref, question.now_s)
    if known.freshness is Freshness.UNASKED or known.freshness is Freshness.UNKNOWN:
        if known.freshness is Freshness.UNKNOWN and policy.on_max_scale_unknown == "allow":
            return None
        reason = UNASKED if known.freshness is Freshness.UNASKED else UNKNOWN
        why = "could not learn from the platform's service how many replicas it may have; try again shortly"
        return question.answer(Verdict.UNAVAILABLE, reason, sentences.unavailable(ref, why))
    assert intent.replicas is not None, "it grows by its count"
    if known.most is None or intent.replicas <= known.most:
        return None
    before = question.observed.replicas if question.observed is not None else 0
    fits = max(known.most, before)
    old = f" (as of {known.age_s:.0f} s ago)" if known.freshness is Freshness.KEPT else ""
    sentence = sentences.exceeded_scale(ref, intent.replicas, before, known.most, fits, old)
    denied = question.answer(Verdict.DENY, EXCEEDED, sentence, intent.replicas, fits=fits)
    return denied._replace(max_scale=known.most, audit=proposal.audit)


def remarked(scales: Scales, granted: Decision, question: Question, intent: Intent, proposal: Proposal) -> Decision:
    """A grant, with what was not known for certain about its bound."""
    if granted.verdict is not Verdict.ALLOW or not _grows(intent, proposal):
        return granted
    known = scales.known(question.write.ref, question.now_s)
    if known.freshness is Freshness.FRESH:
        return granted._replace(max_scale=known.most)
    if known.freshness is Freshness.KEPT:
        remark = f"within what the platform's service said {known.age_s:.0f} s ago, and no later"
        return granted._replace(reason=KEPT, sentence=f"{granted.sentence}; {remark}", max_scale=known.most)
    remark = "the platform's service was not heard, and that lets it pass"
    return granted._replace(reason=UNKNOWN, sentence=f"{granted.sentence}; {remark}")


def _grows(intent: Intent, proposal: Proposal) -> bool:
    """Its count is above all that the workload may have already."""
    return intent.replicas is not None and intent.replicas > proposal.before.envelope.replicas
