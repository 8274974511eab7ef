"""One change of a workload at a time: of its template, its labels or its owner, or its creation.

What a patch leaves depends on what it finds. Were two changes under way, what comes of them would depend on which lands
first. So the second waits until the first is settled. Counts go on beside a change: autoscalers never wait for one.
"""

from __future__ import annotations

from dataclasses import replace

from extauthz.core.decision import sentences
from extauthz.core.decision.effects import is_harmless, is_patch
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.effects.resolve import resolve
from extauthz.core.ledger.pending_write import PendingWrite
from extauthz.core.model import Decision, Observed, Operation, Outcome, Verdict


def under_way(asked: Evaluation) -> Decision | None:
    """Step: another change of the workload may still land, and the result depends on which is first."""
    pending_write = asked.pending_write
    if not pending_write.touches or asked.entry is None or is_harmless(asked.observed, pending_write):
        return None
    others = [one for one in asked.entry.live_pending_writes() if one.touches]
    if not others or not _disturb(asked, pending_write, others):
        return None
    patch, *more = others
    is_create = asked.write.operation is Operation.CREATE
    left = _left_of(patch, asked.born) if is_create and asked.born is not None and not more else None
    if left is None:
        return _refusal(asked, others)
    asked.pending_write = _with(pending_write, left)
    return None


def _disturb(asked: Evaluation, pending_write: PendingWrite, others: list[PendingWrite]) -> bool:
    """Whether the result depends on the order in which ``pending_write`` and the ``others`` land."""
    observed = asked.observed
    if observed is None or asked.write.operation is Operation.CREATE or pending_write.changes(observed):
        return True
    return is_patch(asked.write) and any(one.changes(observed) for one in others)


def _left_of(patch: PendingWrite, born: Observed) -> Outcome | None:
    """What a pending patch of a deleted object leaves on ``born``; ``None``: that is not known."""
    outcome = resolve(patch.write, born) if patch.write is not None else None
    return outcome if isinstance(outcome, Outcome) else None


def _with(pending_write: PendingWrite, left: Outcome) -> PendingWrite:
    """The patch may set its count on either template, or leave its template under any count."""
    templates = tuple(dict.fromkeys(pending_write.templates + left.templates))
    labels = tuple(dict.fromkeys(pending_write.labels + left.label_sets))
    return replace(pending_write, templates=templates, labels=labels, keeps_count=True)


def _refusal(asked: Evaluation, others: list[PendingWrite]) -> Decision:
    left_s = max(one.expires_s for one in others) - asked.now_s
    sentence = sentences.change_under_way(asked.write.ref, left_s)
    return asked.answer(Verdict.UNAVAILABLE, "change-under-way", sentence)
