"""The steps at which policies are asked: filter, limit, permit (docs/policies.md).

They are asked about what raises a workload above what is observed of it, or above what it was granted. So zero and
less always pass, and so does what a controller does within the grant of its owner. Where there are no policies,
nothing is done.

What a policy says counts for this decision alone. Where a write is decided again, as gates that share a ledger do,
policies are asked again: what they were told of other workloads may have changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from extauthz.core import texts
from extauthz.core.decision import expressions, sentences, weighing
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.kinds import RESIZES
from extauthz.core.ledger.coverage import Nodes
from extauthz.core.ledger.pending_write import PendingWrite
from extauthz.core.ledger.position import Step, rise
from extauthz.core.model import (
    POLICY_NOT_YET,
    POLICY_REFUSED,
    POLICY_UNKNOWN,
    Amounts,
    Decision,
    Growth,
    Observed,
    PolicyAnswer,
    Template,
    Unknown,
    Verdict,
)
from extauthz.core.policies import FILTER, LIMIT, PERMIT, Enlisted, Limit, NotYet, Policies, Refused, UnknownError
from extauthz.core.quota.policies import MAX_MESSAGE

_MAX_AGAIN_S: Final = 24 * 3600.0

"""Where objects of the built-in kinds have their pod template."""


class _Found(NamedTuple):
    """What a policy has against a write, and whether that refuses it."""

    row: PolicyAnswer
    refuses: bool


def filtered(asked: Evaluation) -> Decision | None:
    """Step: some policy does not let it grow at all."""
    state = asked.state
    if not (state.policies.all or state.ledger.coverage.tree.has_policies):
        return None  # usually
    asked.growth = _growth(asked)
    return _answer(asked, FILTER, POLICY_REFUSED) if asked.growth is not None else None


def limited(asked: Evaluation) -> Decision | None:
    """Step: some policy does not let its count grow so far. The smallest limit holds, a quota's among them."""
    growth = asked.growth
    if growth is None or growth.to <= growth.before:
        return None
    answer = _answer(asked, LIMIT, POLICY_REFUSED)
    if answer is None or answer.reason != POLICY_REFUSED:
        return answer
    limits = [row.replicas for row in answer.policies if row.replicas is not None and not row.audits]
    by_quota = weighing.largest(asked)
    most = max(min(limits if by_quota is None else [*limits, by_quota]), growth.before)
    return answer._replace(fits=most, sentence=f"{answer.sentence}; largest allowed replicas: {most}")


def permitted(asked: Evaluation) -> Decision | None:
    """Step: some policy does not let it grow yet. Nobody waits for it: its client asks again.

    It is not asked where the same write was granted and may still land: by another entrance, or a moment ago.
    """
    if asked.growth is None or _is_under_way(asked):
        return None
    answer = _answer(asked, PERMIT, POLICY_NOT_YET)
    if answer is None or answer.reason != POLICY_NOT_YET:
        return answer
    waits = [row.again_s for row in answer.policies if row.again_s is not None and not row.audits]
    sentence = f"{answer.sentence}; ask again in {sentences.about(max(waits))}"
    return answer._replace(sentence=sentence, held=asked.growth)


def _is_under_way(asked: Evaluation) -> bool:
    """Whether a pending write leaves the same count and templates, however it was written."""
    entry, observed = asked.entry, asked.observed
    if entry is None or not entry.pending_writes:
        return False  # usually
    count, templates = _left_by(asked.pending_write, observed)
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


def _growth(asked: Evaluation) -> Growth | None:
    """What policies are asked; ``None``: it grows nothing, or no quota covers it."""
    step = asked.proposal.step
    pending_write, observed = asked.pending_write, asked.observed
    rises, is_resize = _rises(step), asked.ref.resource == RESIZES[1]
    if is_resize:
        rises = _without_counts(rises)
    is_unknown = step.after.unknown and (step.multiplies_unknown or asked.alters)
    there = observed.replicas if observed is not None else 0
    to = pending_write.replicas if pending_write.replicas is not None else there
    before = to if is_resize else there
    # The family of a head may hold more than it asks for. Then a higher count costs no more.
    is_higher = to > before and asked.proposal.head is asked.proposal.entry
    if not step.after.envelope_in or pending_write.replicas == 0 or not (rises or is_unknown or is_higher):
        return None
    return Growth(
        asked.id,
        asked.write.ref,
        "resize" if is_resize else asked.write.operation.value,
        before,
        to,
        rises,
        asked.base or asked.born,
        pending_write.templates,
        asked.requester,
        asked.now_s,
        asked.now_s + asked.state.epoch_s,
        _kept(asked),
    )


def _kept(asked: Evaluation) -> Mapping[str, str] | None:
    """What policies keep of its pod template, as it is observed. Of a pod, and of a template that a write brings,
    nothing is."""
    observed, brought = asked.observed, asked.pending_write.templates
    if observed is None or (brought and brought != (observed.template,)):
        return None
    return observed.kept


def _rises(step: Step) -> Amounts:
    """What it raises above what was granted, or else above what is observed. A grant from before is no licence."""
    before, after, base, own = step
    return rise(before.envelope, after.envelope) or rise(base.envelope, own.envelope)


def _without_counts(rises: Amounts) -> Amounts:
    """What a pod is resized by is no object."""
    return {key: more for key, more in rises.items() if not key.startswith("count/")}


def _answer(asked: Evaluation, step: str, reason: str) -> Decision | None:
    """The refusal of those that have something against it at a step. What refuses nothing is kept for the answer."""
    growth = asked.growth
    assert growth is not None
    found = _asked(asked, growth, step)
    if not found:
        return None  # usually
    asked.policies += tuple(one.row for one in found)
    refusing = [one.row for one in found if one.refuses]
    if not refusing:
        return None
    known = [row for row in refusing if row.result == "refused"]
    if known:
        verdict, sentence = Verdict.DENY, sentences.by_policies(growth.ref, known)
    else:
        verdict, reason = Verdict.UNAVAILABLE, POLICY_UNKNOWN
        sentence = sentences.policies_unknown(growth.ref, refusing)
    answer = asked.answer(verdict, reason, sentence, asked.pending_write.replicas, audit=asked.proposal.growth.audit)
    return answer._replace(policies=asked.policies, unspecified=asked.unspecified)


def _asked(asked: Evaluation, growth: Growth, step: str) -> list[_Found]:
    """What plug-ins say, and then the expressions of quotas."""
    found: list[_Found] = []
    nodes, policies = asked.proposal.step.after.envelope_in, asked.state.policies
    for one in policies.at(step):
        row = _of_plug_in(policies, one, step, growth)
        if row is not None:
            found.append(_weighed(asked, row, nodes))
    for node in nodes if step != PERMIT else ():
        if node.rules is not None:
            found += [
                _weighed(asked, row, (node,)) for row in expressions.answers(asked, growth, node, node.rules, step)
            ]
    return found


def _weighed(asked: Evaluation, row: PolicyAnswer, nodes: Nodes) -> _Found:
    """Whether what a policy says counts: some quota that it concerns binds who asks; or what is set for unknowns."""
    binds = not row.audits and any(node.binds(asked.requester) for node in nodes)
    if not binds:
        return _Found(row._replace(audits=True), False)
    if row.result == "refused":
        return _Found(row, True)
    return _Found(row, asked.policy.on(Unknown.POLICY, nodes, asked.requester) == "deny")


def _of_plug_in(policies: Policies, one: Enlisted, step: str, growth: Growth) -> PolicyAnswer | None:
    try:
        said = policies.ask(one, step, growth)
        return _JUDGES[step](one, said, growth) if said is not None else None
    except UnknownError as error:
        return _unknown(one, step, str(error))
    except Exception as error:  # noqa: BLE001 (code of others)
        return _unknown(one, step, f"it failed: {type(error).__name__}: {error}")


def _refused(one: Enlisted, said: object, growth: Growth) -> PolicyAnswer:
    if not isinstance(said, Refused):
        return _unknown(one, FILTER, f"it gave {type(said).__name__}, and not Refused")
    return PolicyAnswer(one.name, "", FILTER, "refused", _cut(said.message), one.audits)


def _limit(one: Enlisted, said: object, growth: Growth) -> PolicyAnswer | None:
    if not isinstance(said, Limit) or type(said.replicas) is not int:
        return _unknown(one, LIMIT, f"it gave {type(said).__name__}, and not Limit with whole replicas")
    if said.replicas >= growth.to:
        return None
    return PolicyAnswer(one.name, "", LIMIT, "refused", _cut(said.message), one.audits, said.replicas)


def _not_yet(one: Enlisted, said: object, growth: Growth) -> PolicyAnswer:
    if not isinstance(said, NotYet) or not math.isfinite(said.again_s):
        return _unknown(one, PERMIT, f"it gave {type(said).__name__}, and not NotYet with a time")
    again_s = min(max(float(said.again_s), 0.0), _MAX_AGAIN_S)
    return PolicyAnswer(one.name, "", PERMIT, "refused", _cut(said.message), one.audits, again_s=again_s)


_JUDGES: Final[Mapping[str, Callable[[Enlisted, object, Growth], PolicyAnswer | None]]] = {
    FILTER: _refused,
    LIMIT: _limit,
    PERMIT: _not_yet,
}


def _unknown(one: Enlisted, step: str, why: str) -> PolicyAnswer:
    return PolicyAnswer(one.name, "", step, "unknown", texts.cut(why, MAX_MESSAGE), one.audits)


def _cut(message: object) -> str:
    return texts.cut(str(message), MAX_MESSAGE)
