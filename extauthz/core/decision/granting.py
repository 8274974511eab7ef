"""To grant a write: say why, and record what may still land."""

from __future__ import annotations

from typing import NamedTuple

from extauthz.core.decision import pending_limits
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.model import Decision, Verdict


class _Recorded(NamedTuple):
    """What became of an allowed write in the ledger."""

    remark: str
    """Why it is not recorded; empty: it is."""
    pends: bool = False
    id: str | None = None
    """Of the intent that stands for it."""


def uncovered(asked: Evaluation) -> Decision | None:
    """Step: no quota may cover its namespace. What may still land is followed, as one may come to cover it."""
    if asked.state.ledger.coverage.may_cover(asked.ref.namespace):
        return None
    answer = asked.answer(Verdict.ALLOW, "no-quota", "no quota covers this namespace", asked.outcome.replicas)
    answer = answer._replace(uncovered=True)
    if not asked.is_known:
        return answer
    asked.propose()
    if pending_limits.reached(asked) is not None:
        return answer
    recorded = _recorded(asked)
    return answer._replace(pends=recorded.pends, intent=recorded.id)


def granted(asked: Evaluation) -> Decision:
    """Step: nothing is against it."""
    proposal = asked.proposal
    remark, pends, intent_id = _recorded(asked)
    return asked.answer(
        Verdict.ALLOW,
        asked.reason,
        asked.why + remark + asked.remark,
        asked.intent.replicas,
        audit=proposal.audit,
        intent=intent_id,
        max_scale=asked.max_scale,
        pends=pends,
        grows=bool(proposal.grows),
    )


def _recorded(asked: Evaluation) -> _Recorded:
    """Record what was allowed and may still land."""
    if asked.free:
        return _Recorded(asked.free)
    if not asked.charge:
        return _Recorded("; a question, charged nothing", pends=True)
    if asked.twin is not None:
        asked.state.ledger.pending.renew(asked.twin, asked.intent.expires_s)
        return _Recorded("", pends=True, id=asked.twin.id)
    asked.state.ledger.record(asked.proposal, asked.intent)
    return _Recorded("", True, asked.intent.id)
