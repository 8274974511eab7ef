"""One change of a workload at a time: its template, its labels, its owner, and its being made.

What a patch leaves depends on what it finds. Were two changes under way, what comes of them would depend on which lands
first. So the second waits until the first is settled. Counts go on beside a change: autoscalers never wait for one.
"""

from __future__ import annotations

from dataclasses import replace

from extauthz.core.decision import sentences
from extauthz.core.decision.question import Question
from extauthz.core.effects.resolve import resolve
from extauthz.core.ledger.intents import Intent
from extauthz.core.model import Decision, JsonPatch, Observed, Operation, Outcome, Put, Verdict, Write


def is_patch(write: Write) -> bool:
    """Whether what it leaves of the template and the labels depends on what it finds."""
    return not write.scale and not isinstance(write.change, Put)


def copies(write: Write) -> bool:
    """Whether the count that it leaves may be copied out of the template."""
    change = write.change
    return is_patch(write) and isinstance(change, JsonPatch) and any("from" in one for one in change.operations)


def beside(question: Question, intent: Intent, born: Observed | None) -> Intent | Decision:
    """``intent`` as it may land beside what is under way on its workload, or a refusal.

    Args:
        born: the object that a create makes where there is none.
    """
    others = [one for one in question.entry.live_intents() if one.touches] if question.entry is not None else []
    if not others or not intent.touches or not _disturb(question, intent, others):
        return intent
    is_create = question.write.operation is Operation.CREATE
    left = _left_of(others[0], born) if is_create and born is not None and len(others) == 1 else None
    return _refusal(question, others) if left is None else _with(intent, left)


def _disturb(question: Question, intent: Intent, others: list[Intent]) -> bool:
    """Whether what is left depends on the order in which ``intent`` and the ``others`` land."""
    observed = question.observed
    if observed is None or question.write.operation is Operation.CREATE or intent.changes(observed):
        return True
    return is_patch(question.write) and any(one.changes(observed) for one in others)


def _left_of(patch: Intent, born: Observed) -> Outcome | None:
    """What an open patch of an object that is gone leaves on ``born``; ``None``: that cannot be told."""
    outcome = resolve(patch.write, born) if patch.write is not None else None
    return outcome if isinstance(outcome, Outcome) else None


def _with(intent: Intent, left: Outcome) -> Intent:
    """The patch may set its count on either template, or leave its template under any count."""
    templates = tuple(dict.fromkeys(intent.templates + left.templates))
    labels = tuple(dict.fromkeys(intent.labels + left.label_sets))
    frees = intent.frees or left.frees
    return replace(intent, templates=templates, labels=labels, frees=frees, keeps_count=True)


def _refusal(question: Question, others: list[Intent]) -> Decision:
    left_s = max(one.expires_s for one in others) - question.now_s
    sentence = sentences.change_under_way(question.write.ref, left_s)
    return question.answer(Verdict.UNAVAILABLE, "change-under-way", sentence)
