"""Grants a write: gives the reason, and records what may still land."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from extauthz.core.decision import pending_limits, sentences
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.model import Decision, Shortage, Unspecified, Verdict

WOULD_REFUSE = "would-refuse"
"""Allowed, and quotas in mode Audit would have refused it."""


class _Recorded(NamedTuple):
    """How the ledger follows an allowed write."""

    remark: str
    """Why it is not recorded; empty: it is."""
    pends: bool = False
    id: str | None = None
    """Id of the pending write that stands for it."""


def uncovered(asked: Evaluation) -> Decision | None:
    """Step: no quota may cover its namespace. The write is followed, because a quota may come to cover it.

    A count for an object that is not known is followed too: the object may be made before the count lands.
    """
    if asked.state.ledger.coverage.may_cover(asked.ref.namespace):
        return None
    answer = asked.answer(Verdict.ALLOW, "no-quota", "no quota covers this namespace", asked.write.replicas)
    answer = answer._replace(uncovered=True)
    asked.propose()
    if pending_limits.reached(asked) is not None:
        return answer
    recorded = _recorded(asked)
    return answer._replace(pends=recorded.pends, pending_write=recorded.id)


def granted(asked: Evaluation) -> Decision:
    """Nothing speaks against it."""
    proposal = asked.proposal
    remark, pends, pending_id = _recorded(asked)
    reason, why = _audited(asked) or (asked.reason, asked.why)
    answer = asked.answer(
        Verdict.ALLOW,
        reason,
        why + remark + asked.remark,
        asked.pending_write.replicas,
        audit=proposal.growth.audit,
        pending_write=pending_id,
        max_scale=asked.max_scale,
        pends=pends,
        grows=bool(proposal.growth.grows) or asked.alters,
    )
    if asked.unspecified or asked.policies:
        return answer._replace(unspecified=asked.unspecified, policies=asked.policies)
    return answer


def _audited(asked: Evaluation) -> tuple[str, str] | None:
    """Reason and sentence of a write that quotas in mode Audit would have refused; ``None``: none would."""
    ref, short = asked.write.ref, asked.proposal.growth.audit
    rows = [row for row in asked.unspecified if row.audits]
    would = [sentences.exceeded(ref, short, None, 0)] if short else []
    would += [sentences.must_specify(ref, rows)] if rows else []
    if not would:
        return None
    return WOULD_REFUSE, f"allowed, as {_names([*short, *rows])} only audits; else: {'; '.join(would)}"


def _names(rows: Sequence[Shortage | Unspecified]) -> str:
    return ", ".join(dict.fromkeys(f"workspace quota {row.quota}" for row in rows))


def _recorded(asked: Evaluation) -> _Recorded:
    """Record what was allowed and may still land."""
    if asked.free:
        return _Recorded(asked.free)
    if not asked.charge:
        return _Recorded("; a question, charged nothing", pends=True)
    if asked.twin is not None:
        asked.state.ledger.pending.renew(asked.twin, asked.pending_write.expires_s)
        return _Recorded("", pends=True, id=asked.twin.id)
    asked.state.ledger.record(asked.proposal, asked.pending_write)
    if asked.growth is not None:
        asked.state.policies.reserve(asked.growth)
    return _Recorded("", True, asked.pending_write.id)
