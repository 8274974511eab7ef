"""What policies say, at three steps: filter, limit, permit (docs/policies.md).

They are asked about what raises a workload above what is observed of it, or above what it was granted. So zero and
less always pass, and so does what a controller does within the grant of its owner. Where there are no policies,
nothing is done.

What a policy says counts for this decision alone. Where a write is decided again, as gates that share a ledger do,
policies are asked again: what they were told of other workloads may have changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from extauthz.core import texts
from extauthz.core.decision import sentences, weighing
from extauthz.core.decision.known import Grant, WriteContext
from extauthz.core.ledger.accounts import Step, rise
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.ledger.entry import PendingWrite
from extauthz.core.ledger.ledger import Proposal
from extauthz.core.model import (
    POLICY_NOT_YET,
    POLICY_REFUSED,
    POLICY_UNKNOWN,
    Amounts,
    Decision,
    Evidence,
    Growth,
    Held,
    Observed,
    PolicyAnswer,
    Template,
    Unknown,
    Verdict,
)
from extauthz.core.policies import FILTER, LIMIT, PERMIT, Enlisted, Limit, NotYet, Policies, Refused, UnknownError

_MAX_MESSAGE: Final = 512
"""Characters. A sentence has 1024."""

_MAX_AGAIN_S: Final = 24 * 3600.0


def let_grow(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision | Grant:
    """Whether all let it grow, and so far."""
    grown = growth(context, proposal)
    if grown is None:
        return grant
    found = _answered(context, proposal, grant._replace(growth=grown), FILTER)
    if isinstance(found, Decision) or grown.to <= grown.before:
        return found
    return _limited(context, proposal, found, grown)


def _limited(context: WriteContext, proposal: Proposal, grant: Grant, growth: Growth) -> Decision | Grant:
    """Whether its count may grow so far. The smallest limit holds, a quota's among them."""
    found = _answered(context, proposal, grant, LIMIT)
    if isinstance(found, Grant) or found.reason != POLICY_REFUSED:
        return found
    limits = [row.replicas for row in found.evidence.policies if row.replicas is not None and not row.audits]
    by_quota = weighing.largest(context, proposal)
    most = max(min(limits if by_quota is None else [*limits, by_quota]), growth.before)
    sentence = f"{found.sentence}; largest allowed replicas: {most}"
    return found._replace(evidence=found.evidence._replace(fits=most), sentence=sentence)


def let_go(context: WriteContext, proposal: Proposal, grant: Grant) -> Decision | Grant:
    """Whether all let it grow now. Nobody waits for them: its client asks again.

    They are not asked where the same write was granted and may still land: by another entrance, or a moment ago.
    """
    growth = grant.growth
    if growth is None or _is_under_way(context):
        return grant
    found = _answered(context, proposal, grant, PERMIT)
    if isinstance(found, Grant) or found.reason != POLICY_NOT_YET:
        return found
    waits = [row.again_s for row in found.evidence.policies if row.again_s is not None and not row.audits]
    sentence = f"{found.sentence}; ask again in {sentences.about(max(waits))}"
    return found._replace(sentence=sentence, todo=Held(growth))


def _is_under_way(context: WriteContext) -> bool:
    """Whether a pending write leaves the same count and templates, however it was written."""
    entry, observed = context.entry, context.observed
    if entry is None or not entry.pending_writes:
        return False  # usually
    count, templates = _left_by(context.pending_write, observed)
    for one in entry.live_pending_writes():
        pending_count, pending = _left_by(one, observed)
        if count == pending_count and {*templates} <= {*pending}:
            return True
    return False


def _left_by(pending_write: PendingWrite, observed: Observed | None) -> tuple[int | None, tuple[Template, ...]]:
    count, templates = pending_write.replicas, pending_write.templates
    if observed is None:
        return count, templates
    there = (observed.template,) if observed.template is not None else ()
    return observed.replicas if count is None else count, templates or there


def growth(context: WriteContext, proposal: Proposal) -> Growth | None:
    """What policies are asked; ``None``: it grows nothing, or no quota covers it."""
    step, pending_write, observed, question = proposal.step, context.pending_write, context.observed, context.question
    rises = _rises(step)
    if context.resizes:
        rises = _without_counts(rises)
    is_unknown = step.after.unknown and (step.adds_unknown or context.alters)
    there = observed.replicas if observed is not None else 0
    to = pending_write.replicas if pending_write.replicas is not None else there
    before = to if context.resizes else there
    if not step.after.envelope_in or pending_write.replicas == 0 or not (rises or is_unknown):
        return None
    return Growth(
        question.id,
        context.write.ref,
        "resize" if context.resizes else context.write.operation.value,
        before,
        to,
        rises,
        context.base or context.expected,
        pending_write.templates,
        question.requester,
        question.now_s,
        question.now_s + context.state.epoch_s,
        _kept(context),
    )


def _kept(context: WriteContext) -> Mapping[str, str] | None:
    """What policies keep of its pod template, as it is observed. Of a pod, and of a template that a write brings,
    nothing is."""
    observed, brought = context.observed, context.pending_write.templates
    if observed is None or (brought and brought != (observed.template,)):
        return None
    return observed.kept


def _rises(step: Step) -> Amounts:
    """What it raises above what was granted, or else above what is observed. A grant from before is no licence."""
    risen = rise(step.before.envelope, step.after.envelope)
    return risen or rise(step.observed_only.envelope, step.this_write_only.envelope)


def _without_counts(rises: Amounts) -> Amounts:
    """What a pod is resized by is no object."""
    return {key: more for key, more in rises.items() if not key.startswith("count/")}


def _answered(context: WriteContext, proposal: Proposal, grant: Grant, step: str) -> Decision | Grant:
    """The refusal by those that have something against it at a step, or what they say that refuses nothing."""
    policies, growth, nodes = context.state.policies, grant.growth, proposal.step.after.envelope_in
    assert growth is not None
    rows = [row for one in policies.at(step) if (row := _said(policies, one, step, growth)) is not None]
    if not rows:
        return grant  # usually
    who = context.question.requester
    if not any(node.binds(who) for node in nodes):
        rows = [row._replace(audits=True) for row in rows]
    grant = grant._replace(policies=(*grant.policies, *rows))
    refusing = [row for row in rows if not row.audits and _refuses(context, row, nodes)]
    if not refusing:
        return grant
    if known := [row for row in refusing if row.result == "refused"]:
        verdict, reason = Verdict.DENY, POLICY_NOT_YET if step == PERMIT else POLICY_REFUSED
        sentence = sentences.by_policies(growth.ref, known)
    else:
        verdict, reason = Verdict.UNAVAILABLE, POLICY_UNKNOWN
        sentence = sentences.policies_unknown(growth.ref, refusing)
    evidence = Evidence(audit=proposal.growth.audit, unspecified=grant.unspecified, policies=grant.policies)
    return context.answer(verdict, reason, sentence, context.pending_write.replicas, evidence)


def _refuses(context: WriteContext, row: PolicyAnswer, nodes: Nodes) -> bool:
    """Whether what a policy says refuses the write: of an unknown, quotas and settings say it."""
    return (
        row.result == "refused" or context.state.policy.on(Unknown.POLICY, nodes, context.question.requester) == "deny"
    )


def _said(policies: Policies, one: Enlisted, step: str, growth: Growth) -> PolicyAnswer | None:
    """What one policy has against it; ``None``: nothing."""
    try:
        said = policies.ask(one, step, growth)
        return _judged(one, step, said, growth) if said is not None else None
    except UnknownError as error:
        return _unknown(one, step, str(error))
    except Exception as error:  # noqa: BLE001 (code of others)
        return _unknown(one, step, f"it failed: {type(error).__name__}: {error}")


def _judged(one: Enlisted, step: str, said: object, growth: Growth) -> PolicyAnswer | None:
    match said:
        case Refused(message) if step == FILTER:
            return _refused(one, step, message)
        case Limit(replicas, message) if step == LIMIT and type(replicas) is int:
            return _refused(one, step, message)._replace(replicas=replicas) if replicas < growth.to else None
        case NotYet(message, again_s) if step == PERMIT and math.isfinite(again_s):
            again_s = min(max(float(again_s), 0.0), _MAX_AGAIN_S)
            return _refused(one, step, message)._replace(again_s=again_s)
    return _unknown(one, step, f"it gave {type(said).__name__}, and not {_WANTED[step]}")


_WANTED: Final = {FILTER: "Refused", LIMIT: "Limit with whole replicas", PERMIT: "NotYet with a time"}


def _refused(one: Enlisted, step: str, message: object) -> PolicyAnswer:
    return PolicyAnswer(one.name, step, "refused", texts.cut(str(message), _MAX_MESSAGE), one.audits)


def _unknown(one: Enlisted, step: str, why: str) -> PolicyAnswer:
    return PolicyAnswer(one.name, step, "unknown", texts.cut(why, _MAX_MESSAGE), one.audits)
