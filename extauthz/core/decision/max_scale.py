"""The bound of a platform's own service: how many replicas a workload may have, in addition to quotas."""

from __future__ import annotations

from extauthz.core.decision import sentences
from extauthz.core.decision.bounds import Bound, Freshness
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.model import Decision, Fetch, NeedsFetch, Verdict

UNASKED = "max-scale-unasked"
"""Reason of an answer that is no decision yet: the service must be asked, and then the write is decided again."""
UNKNOWN = "max-scale-unknown"
KEPT = "max-scale-stale"
EXCEEDED = "exceeded-max-scale"


def exceeded(asked: Evaluation) -> Decision | None:
    """Step: it exceeds what the service allows, or that is not known."""
    pending_write = asked.pending_write
    if asked.bounds is None or pending_write.replicas is None:
        return None
    if pending_write.replicas <= asked.proposal.step.before.envelope.replicas:
        return None  # its count is not above all that the workload may have already
    bound = asked.bounds.known(asked.write.ref, asked.now_s)
    if bound.freshness is Freshness.UNASKED:
        return _unknown(asked, UNASKED)._replace(needs=NeedsFetch(Fetch.MAX_SCALE, asked.write.ref))
    if bound.freshness is Freshness.UNKNOWN and asked.policy.on_max_scale_unknown == "deny":
        return _unknown(asked, UNKNOWN)
    if bound.most is not None and pending_write.replicas > bound.most:
        return _denied(asked, pending_write.replicas, bound, bound.most)
    asked.max_scale = bound.most
    if bound.freshness is Freshness.KEPT:
        asked.reason = KEPT
        asked.remark = f"; within what the platform's service said {bound.age_s:.0f} s ago, and no later"
    elif bound.freshness is Freshness.UNKNOWN:
        asked.reason = UNKNOWN
        asked.remark = "; the platform's service was not heard, and that lets it pass"
    return None


def _unknown(asked: Evaluation, reason: str) -> Decision:
    why = "could not learn from the platform's service how many replicas it may have; try again shortly"
    return asked.unavailable(reason, why)


def _denied(asked: Evaluation, replicas: int, bound: Bound, most: int) -> Decision:
    before = asked.observed.replicas if asked.observed is not None else 0
    fits = max(most, before)
    old = f" (as of {bound.age_s:.0f} s ago)" if bound.freshness is Freshness.KEPT else ""
    sentence = sentences.exceeded_scale(asked.write.ref, replicas, before, most, fits, old)
    denied = asked.answer(Verdict.DENY, EXCEEDED, sentence, replicas, fits=fits)
    return denied._replace(max_scale=most, audit=asked.proposal.growth.audit, never_fits=True)
