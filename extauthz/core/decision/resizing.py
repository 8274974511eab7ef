"""A pod that is resized in place: what it takes beyond what it holds is charged until the pod is seen as it is then.

The pod itself is in a group of pods, which its owner covers. So what a resize adds is an entry of its own beside it, in
the quotas in which the pod counts. It ends with the next version of the pod, which then counts as it is.

Two resizes may follow each other before the gate has seen the first. So each is charged with what it adds to the least
that the pod is known to hold: by the gate, or by the API server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from extauthz.core.decision import granting, pending_limits, policing, sentences, unknowns, weighing
from extauthz.core.decision.cluster_state import ClusterState
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.footprint import FootprintError
from extauthz.core.kinds import RESIZES
from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.pending_write import PendingWrite
from extauthz.core.model import (
    ANY_LABELS,
    Amounts,
    Decision,
    Operation,
    Precondition,
    Resize,
    Template,
    Unreadable,
    Verdict,
    Write,
)
from extauthz.core.objects.workloads import intern

Step: TypeAlias = Callable[[Evaluation], Decision | None]


def exceeded(asked: Evaluation) -> Decision | None:
    """Step: some quota has no room for what it adds."""
    short, _ = weighing.refusing(asked)
    if not short:
        return None
    sentence = sentences.exceeded(asked.write.ref, short, None, 0)
    audit = asked.proposal.growth.audit
    denied = asked.answer(Verdict.DENY, weighing.EXCEEDED, sentence, shortages=short, audit=audit)
    return denied._replace(never_fits=weighing.never_fits(asked.proposal.step.own.envelope.amounts, short))


STEPS: Final[tuple[Step, ...]] = (
    unknowns.unsynced,
    unknowns.outdated_namespace,
    granting.uncovered,
    unknowns.unseen,
    weighing.weighed,
    unknowns.uncertain,
    policing.filtered,
    exceeded,
    pending_limits.reached,
    policing.permitted,
)
"""Those of a write (``chain``) that bear on it, in their order."""


def decided(state: ClusterState, resize: Resize, asked: Callable[[Write], Evaluation], now_s: float) -> Decision:
    """The answer to a resize.

    Args:
        asked: begins the evaluation of a write.
    """
    write = Write(resize.ref, Operation.UPDATE, False, resize.dry_run, 1, precondition=Precondition(resize.version))
    evaluation = asked(write)
    seen = state.ledger.observations.pod(resize.ref)
    try:
        added = _added(state, resize, seen)
    except FootprintError as error:
        found = Unreadable(error.code, error.detail, resize.ref)
        return unknowns.unreadable(state, evaluation.policy, found, evaluation.id, evaluation.requester)
    _begin(evaluation, resize, seen, added, now_s)
    # What adds nothing passes, whatever is not known of quotas.
    steps = STEPS if added else [step for step in STEPS if step is not unknowns.uncertain]
    for step in steps:
        answer = step(evaluation)
        if answer is not None:
            return answer
    return granting.granted(evaluation)._replace(replicas=None)


def _added(state: ClusterState, resize: Resize, seen: Entry | None) -> Amounts:
    """What it takes beyond the least that the pod is known to hold."""
    costs, namespace = state.ledger.pod_costs, resize.ref.namespace
    held = [costs.per_pod(namespace, resize.before)]
    if seen is not None and seen.observed is not None and seen.observed.template is not None:
        held.append(costs.per_pod(namespace, seen.observed.template))
    wanted = costs.per_pod(namespace, resize.after)
    added = {key: amount - min(one.get(key, 0) for one in held) for key, amount in wanted.items()}
    return {key: amount for key, amount in added.items() if amount > 0}


def _begin(evaluation: Evaluation, resize: Resize, seen: Entry | None, added: Amounts, now_s: float) -> None:
    """What the steps of a write find out first."""
    template = Template(intern({"resize": dict(added)}).text)
    labels = seen.family_labels() if seen is not None else (ANY_LABELS,)
    evaluation.ref = resize.ref._replace(resource=RESIZES[1])
    evaluation.entry, evaluation.observed = evaluation.state.ledger.get(evaluation.ref), None
    evaluation.creates = seen is not None
    evaluation.pending_write = PendingWrite(
        id=evaluation.id,
        replicas=1,
        templates=(template,),
        labels=labels,
        creates=True,
        precondition=evaluation.write.precondition,
        expires_s=now_s + evaluation.policy.window_s,
        source=evaluation.source,
    )
    evaluation.born = evaluation.pending_write.made
    evaluation.free = _why_free(evaluation, added)


def _why_free(evaluation: Evaluation, added: Amounts) -> str:
    if evaluation.write.dry_run:
        return "; a question, charged nothing"
    if evaluation.policy.mode == "audit":
        return "; mode audit, charged as observed"
    return "" if added else "; it holds as much already"
