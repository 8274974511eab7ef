"""What a write that was resolved comes to for the ledger."""

from __future__ import annotations

from extauthz.core.decision import changes
from extauthz.core.decision.question import Question
from extauthz.core.ledger.intents import Intent
from extauthz.core.model import Observed, Operation, Outcome, Put


def intent_of(question: Question, outcome: Outcome, creates: bool, window_s: float) -> Intent:
    """What the write may leave."""
    write, observed, templates = question.write, question.observed, outcome.templates
    if (
        not templates
        and not write.scale
        and observed is not None
        and observed.template is not None
        and changes.copies(write)
    ):
        templates = (observed.template,)
    touches = bool(templates) or outcome.labels is not None
    return Intent(
        id=question.id,
        replicas=outcome.replicas,
        templates=templates,
        labels=outcome.label_sets,
        creates=creates,
        precondition=write.precondition,
        expires_s=question.now_s + window_s,
        source=question.source,
        owner=outcome.owner,
        frees=outcome.frees or _names_no_owner(question, outcome),
        keeps_count=outcome.keeps_count,
        write=write if touches and changes.is_patch(write) else None,
    )


def is_only_a_count(outcome: Outcome) -> bool:
    """All that the write does is to set the count.

    One that asks for none and does more is weighed: a scale-up that was allowed before may land after it, on the grown
    template, or on a ReplicaSet that was taken from its owner.
    """
    return not outcome.templates and outcome.labels is None and not outcome.frees and outcome.owner is None


def _names_no_owner(question: Question, outcome: Outcome) -> bool:
    """A whole object without a controller, where there is one or the object is made."""
    write = question.write
    if write.scale or outcome.owner is not None or not isinstance(write.change, Put):
        return False
    return write.operation is Operation.CREATE or (
        question.observed is not None and question.observed.owner is not None
    )


def born(question: Question, outcome: Outcome, creates: bool) -> Observed | None:
    """The object that a create makes where there is none."""
    if not creates or question.observed is not None:
        return None
    template = outcome.templates[0] if outcome.templates else None
    return Observed(outcome.replicas or 0, template, outcome.labels or "", owner=outcome.owner)


def is_harmless(observed: Observed | None, intent: Intent) -> bool:
    """The API server will take it only on exactly what is observed, and it raises neither count nor cost of that.

    Each by itself: a dearer template under fewer replicas would meet the count of another write that lands later.
    """
    version = intent.precondition.resource_version
    if observed is None or not version or version != observed.resource_version:
        return False
    return (
        (intent.replicas is None or intent.replicas <= observed.replicas)
        and all(template == observed.template for template in intent.templates)
        and all(labels == observed.labels for labels in intent.labels)
        and not intent.frees
        and intent.owner in (None, observed.owner)
    )
