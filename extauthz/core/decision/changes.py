"""One change of a workload at a time: of its template, its labels or its owner, or its creation.

What a patch leaves depends on what it finds. Were two changes under way, what comes of them would depend on which lands
first. So the second waits until the first is settled. Counts go on beside a change: autoscalers never wait for one.

A whole object goes on too, where the order does not matter: it is the same write, which came by another way or once
more; or the API server stores it on a version on which the other can land no more. And an object that is made where
there is none meets no other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from extauthz.core.decision import sentences
from extauthz.core.decision.effects import is_harmless, is_patch, left_by
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.effects.resolve import copied_from, resolve
from extauthz.core.kinds import PODS, RESIZES
from extauthz.core.ledger.entry import Entry
from extauthz.core.ledger.pending_write import PendingWrite, is_newer
from extauthz.core.model import ANY_LABELS, Apply, Decision, Observed, Operation, Outcome, Template, Verdict, Write
from extauthz.core.objects.alike import alike, all_among

MOST_PATCHES: Final = 4
"""So many patches under way are worked out on the object that a write brings. Of more there may be none that is the
same, and each takes time."""


def under_way(asked: Evaluation) -> Decision | None:
    """Step: another change of the workload may still land, and the result depends on which is first."""
    pending_write = asked.pending_write
    if not pending_write.touches or asked.entry is None or is_harmless(asked.observed, pending_write):
        return None
    followers = _followers_of(asked.entry, asked) if _moves(pending_write, asked.observed) else []
    if followers:
        return _refusal(asked, followers)
    others = [one for one in asked.entry.live_pending_writes() if one.touches]
    if not is_patch(asked.write):
        others = _in_the_way(asked, pending_write, others)
    if not others or not _disturb(asked, pending_write, others):
        return None
    patch, *more = others
    is_create = asked.write.operation is Operation.CREATE
    left = _left_of(patch, asked.born) if is_create and asked.born is not None and not more else None
    if left is None:
        return _refusal(asked, others)
    asked.pending_write = _with(pending_write, left)
    return None


def _moves(pending_write: PendingWrite, observed: Observed | None) -> bool:
    """Whether it may bring what is there under other quotas."""
    return observed is not None and replace(pending_write, templates=()).changes(observed)


def _followers_of(entry: Entry, asked: Evaluation) -> list[PendingWrite]:
    """Writes that are charged where ``entry`` counts now: what may enter its family, and resizes of its pods."""
    ledger = asked.state.ledger
    found = [one for one in entry.live_pending_writes() if not ledger.pending.follows(one.id)]
    for ref in ledger.workloads.of_unit(RESIZES, entry.ref.namespace):
        pod, resizes = ledger.observations.pod(ref._replace(resource=PODS[1])), ledger.get(ref)
        if pod is not None and resizes is not None and pod.root.ref == entry.root.ref:
            found += resizes.live_pending_writes()
    return found


def _disturb(asked: Evaluation, pending_write: PendingWrite, others: list[PendingWrite]) -> bool:
    """Whether the result depends on the order in which ``pending_write`` and the ``others`` land."""
    observed = asked.observed
    if observed is None or asked.write.operation is Operation.CREATE or pending_write.changes(observed):
        return True
    return is_patch(asked.write) and any(one.changes(observed) for one in others)


def _in_the_way(asked: Evaluation, whole: PendingWrite, others: list[PendingWrite]) -> list[PendingWrite]:
    """Those for which it matters whether they land before or after a whole object."""
    others = [one for one in others if not one.is_admitted_create and not _is_passed(one, whole)]
    if sum(one.write is not None for one in others) > MOST_PATCHES:
        return others
    left = left_by(asked.outcome)
    return [one for one in others if not _adds_nothing(one, whole, left)]


def _is_passed(one: PendingWrite, whole: PendingWrite) -> bool:
    """Once the object has landed, on its version, ``one`` can land no more: it wants that version or an earlier one."""
    wants, found = one.precondition.resource_version, whole.precondition.resource_version
    return wants is not None and found is not None and (wants == found or is_newer(found, wants))


def _adds_nothing(one: PendingWrite, whole: PendingWrite, left: Observed) -> bool:
    """Whether the object has what ``one`` leaves, and whatever ``one`` may leave there is charged already.

    Of a patch that another gate has decided only the result is known. It is the same write if it has left the same, and
    leaves the same each time.
    """
    if one.write is None:
        has_all = _are_of((whole,), one.templates) and {*one.labels} <= {*whole.labels}
        return has_all and not one.shifts and one.owner in (None, whole.owner)
    outcome = resolve(one.write, left)
    if not isinstance(outcome, Outcome):
        return False
    outcome = outcome._replace(templates=outcome.templates or copied_from(one.write, left))
    return _is_there(one.write, outcome, left) and _is_charged(outcome, whole, one)


def _is_there(write: Write, outcome: Outcome, left: Observed) -> bool:
    """What may come of a patch is also the object that it finds.

    An apply may also leave a template as it is, where only the most is told that may come of it.
    """
    template = left.template
    may_stay = not outcome.templates or isinstance(write.change, Apply)
    return (
        (may_stay or any(template and alike(one, template) for one in outcome.templates))
        and (not outcome.label_sets or left.labels in outcome.label_sets)
        and outcome.owner in (None, left.owner)
    )


def _is_charged(outcome: Outcome, whole: PendingWrite, one: PendingWrite) -> bool:
    """Each count with its template, and the labels, are of the two writes by themselves."""
    of_count = tuple(held for held in (whole, one) if held.keeps_count or outcome.replicas in (None, held.replicas))
    return (
        bool(of_count)
        and _are_of(of_count, outcome.templates)
        and (ANY_LABELS in one.labels or {*outcome.label_sets} <= {*whole.labels, *one.labels})
    )


def _are_of(writes: tuple[PendingWrite, ...], templates: tuple[Template, ...]) -> bool:
    return all_among(templates, [template for held in writes for template in held.templates])


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
