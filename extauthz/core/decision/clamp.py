"""Mode Clamp: the largest count that fits, to be asked for in place of one that does not (docs/modes.md).

A question and its answer: nothing is charged. Whoever asked changes the write, and what is really sent is decided upon
like any other. Both the refusal and the grant that are foretold here come from the steps of a decision themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from extauthz.core.decision import sentences, weighing
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.ledger.pending_write import is_newer
from extauthz.core.model import Decision, Fetch, NeedsFetch, Observed, Operation, Verdict, Write
from extauthz.core.quota.spec import Mode

Evaluate: TypeAlias = Callable[[Write], Evaluation]
"""An evaluation of a write in the state at hand."""


def proposed(asked: Evaluation, decide: Callable[[Evaluation], Decision], again: Evaluate) -> Decision | None:
    """The refusal that the write would get, with the count to ask for in its place; ``None``: there is no such count.

    Where it ``needs`` something, it is no answer yet.

    Args:
        decide: the steps of a decision.
        again: an evaluation of another write in the same state.
    """
    observed = asked.observed
    if observed is None or asked.write.operation is Operation.CREATE:
        return None
    refused = decide(asked)
    if refused.needs is not None:
        return refused
    if not _only_clamping_quotas_refuse(asked, refused) or not _only_its_count_grows(asked, observed):
        return None
    count = refused.fits
    if count is None or count <= observed.replicas:
        return None  # nothing fits, or it would be a hidden scale-down
    if not _is_exact(asked.write, observed):
        return _behind(asked, refused, observed)
    bound = asked.write.precondition._replace(resource_version=observed.resource_version)
    granted = decide(again(asked.write._replace(replicas=count, precondition=bound)))
    if granted.needs is not None:
        return granted
    if granted.verdict is not Verdict.ALLOW or granted.replicas != count:
        return None
    return _answer(refused, observed, count)


def _only_clamping_quotas_refuse(asked: Evaluation, refused: Decision) -> bool:
    if refused.verdict is not Verdict.DENY or refused.reason != weighing.EXCEEDED:
        return False
    clamping = {node.quota.name for node in asked.proposal.step.after.envelope_in if node.quota.mode is Mode.CLAMP}
    return all(short.quota in clamping for short in refused.shortages)


def _only_its_count_grows(asked: Evaluation, observed: Observed) -> bool:
    """It has one result, which differs from what is observed only by the count; and nothing else is charged for it."""
    pending_write = asked.pending_write
    return (
        pending_write.replicas is not None
        and not pending_write.changes(observed)
        and asked.proposal.head is asked.proposal.entry
    )


def _is_exact(write: Write, observed: Observed) -> bool:
    """It is bound to the very version that is observed, or can be bound to it."""
    return bool(observed.resource_version) and write.precondition.resource_version in (None, observed.resource_version)


def _behind(asked: Evaluation, refused: Decision, observed: Observed) -> Decision | None:
    """Bound to a version that was not seen yet: it must be read first. Bound to an older one, it cannot land."""
    version = asked.write.precondition.resource_version
    if version is None or not is_newer(version, observed.resource_version):
        return None
    return refused._replace(needs=NeedsFetch(Fetch.WORKLOAD, asked.write.ref))


def _answer(refused: Decision, observed: Observed, count: int) -> Decision:
    assert refused.ref is not None
    assert refused.replicas is not None
    sentence = sentences.clamped(refused.ref, refused.replicas, count, refused.shortages)
    return refused._replace(clamped_to=count, version=observed.resource_version, sentence=sentence)
