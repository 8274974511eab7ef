"""What a write leaves of the object, and what the ledger must follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from extauthz.core.decision import unknowns
from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.effects.resolve import copied_from, copies, resolve
from extauthz.core.ledger.pending_write import PendingWrite, is_newer
from extauthz.core.model import Decision, JsonPatch, Observed, Operation, Outcome, Put, Tree, Unreadable, Verdict, Write


def resolved(asked: Evaluation) -> Decision | None:
    """Step: work out what it leaves. Refuse it if that is not known."""
    write = asked.write
    outcome = resolve(write, asked.base)
    if isinstance(outcome, Unreadable):
        found = replace(outcome, ref=write.ref)
        return unknowns.unreadable(asked.state, asked.policy, found, asked.id, asked.requester)
    asked.outcome = outcome
    asked.creates = not write.scale and write.operation in (Operation.CREATE, Operation.APPLY)
    return None


def zero(asked: Evaluation) -> Decision | None:
    """Step: a target of zero passes, whatever else is known.

    One that asks for none and does more goes on: a scale-up that was allowed before may land after it, on the grown
    template, or on a ReplicaSet that was taken from its owner.
    """
    outcome = asked.outcome
    if outcome.replicas != 0 or asked.creates or not _is_only_a_count(outcome):
        return None
    return asked.answer(Verdict.ALLOW, "zero", "a target of zero always passes", 0)


def _is_only_a_count(outcome: Outcome) -> bool:
    return not outcome.templates and outcome.labels is None and not outcome.frees and outcome.owner is None


def intended(asked: Evaluation) -> None:
    """Step: work out what it may leave, in the form that the ledger follows."""
    asked.pending_write = _pending_write(asked)
    asked.born = asked.pending_write.made if asked.observed is None else None
    asked.free = _why_free(asked)


def _why_free(asked: Evaluation) -> str:
    if asked.write.dry_run:
        return "; a question, charged nothing"
    if asked.policy.mode == "audit":
        return "; mode audit, charged as observed"
    version, observed = asked.write.precondition.resource_version, asked.observed
    if version is None or observed is None:
        return ""
    if is_harmless(observed, asked.pending_write):
        return "; can land only on what is observed"
    if is_newer(observed.resource_version, version):  # passed already (docs/design.md L3d)
        return "; can land no more: a newer version is observed"
    return ""


def _pending_write(asked: Evaluation) -> PendingWrite:
    write, observed, outcome = asked.write, asked.observed, asked.outcome
    expires_s = asked.now_s + asked.policy.window_s
    if write.scale:  # a count and nothing else
        count, keeps = outcome.replicas, outcome.keeps_count
        return PendingWrite(
            asked.id, count, (), (), False, write.precondition, expires_s, source=asked.source, keeps_count=keeps
        )
    templates = outcome.templates or copied_from(write, observed)
    touches = bool(templates) or outcome.labels is not None
    return PendingWrite(
        id=asked.id,
        replicas=outcome.replicas,
        templates=templates,
        labels=outcome.label_sets,
        creates=asked.creates,
        precondition=write.precondition,
        expires_s=expires_s,
        source=asked.source,
        owner=outcome.owner,
        frees=outcome.frees or _names_no_owner(asked),
        keeps_count=outcome.keeps_count,
        shifts=touches and _shifts(write),
        write=write if touches and is_patch(write) else None,
    )


def is_patch(write: Write) -> bool:
    """Whether the template and labels that it leaves depend on what it finds."""
    return not write.scale and not isinstance(write.change, Put)


def _shifts(write: Write) -> bool:
    """Whether it finds something else at the same path, once it has landed: it copies, or moves items of a list."""
    change = write.change
    return copies(write) or (isinstance(change, JsonPatch) and any(map(_moves_items, change.operations)))


def _moves_items(operation: Mapping[str, Tree]) -> bool:
    last = str(operation.get("path")).rpartition("/")[2]
    return operation.get("op") in ("add", "remove") and not last.strip("-0123456789")


def _names_no_owner(asked: Evaluation) -> bool:
    """A whole object without a controller, if there is one or may come to be one, or the object is created."""
    write, observed = asked.write, asked.observed
    if asked.outcome.owner is not None or not isinstance(write.change, Put):
        return False
    pending = asked.entry.live_pending_writes() if asked.entry is not None else ()
    has_owner = observed is not None and observed.owner is not None
    return write.operation is Operation.CREATE or has_owner or any(one.owner is not None for one in pending)


def left_by(outcome: Outcome) -> Observed:
    """The object that a create, or a write of a whole object, leaves."""
    template = outcome.templates[0] if outcome.templates else None
    return Observed(outcome.replicas or 0, template, outcome.labels or "", owner=outcome.owner)


def is_harmless(observed: Observed | None, pending_write: PendingWrite) -> bool:
    """The API server will take it only on exactly what is observed, and it raises neither count nor cost of that.

    Each by itself: a dearer template under fewer replicas would meet the count of another write that lands later.
    """
    version = pending_write.precondition.resource_version
    if observed is None or not version or version != observed.resource_version:
        return False
    return (
        (pending_write.replicas is None or pending_write.replicas <= observed.replicas)
        and all(template == observed.template for template in pending_write.templates)
        and all(labels == observed.labels for labels in pending_write.labels)
        and not pending_write.frees
        and pending_write.owner in (None, observed.owner)
    )
