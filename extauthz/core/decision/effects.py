"""What a write leaves of the object, and what the ledger must follow."""

from __future__ import annotations

from extauthz.core.decision.evaluation import Evaluation
from extauthz.core.ledger.pending_write import PendingWrite, is_newer
from extauthz.core.model import Decision, Observed, Operation, Verdict


def zero(asked: Evaluation) -> Decision | None:
    """Step: a target of zero passes, whatever else is known.

    An object that asks for none goes on: a count that was allowed before may land on its template.
    """
    if asked.write.replicas != 0 or asked.write.object is not None:
        return None
    return asked.answer(Verdict.ALLOW, "zero", "a target of zero always passes", 0)


def intended(asked: Evaluation) -> None:
    """Step: work out what it may leave, in the form that the ledger follows."""
    asked.pending_write = _pending_write(asked)
    asked.born = asked.write.object if asked.creates and asked.observed is None else None
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
    write, made = asked.write, asked.write.object
    expires_s = asked.now_s + asked.policy.window_s
    if made is None:  # a count and nothing else
        return PendingWrite(asked.id, write.replicas, (), (), False, write.precondition, expires_s, source=asked.source)
    return PendingWrite(
        id=asked.id,
        replicas=write.replicas,
        templates=(made.template,) if made.template is not None else (),  # its pods say what it costs
        labels=(made.labels,),
        creates=asked.creates,
        precondition=write.precondition,
        expires_s=expires_s,
        source=asked.source,
        owner=made.owner,
        frees=_names_no_owner(asked, made),
    )


def _names_no_owner(asked: Evaluation, made: Observed) -> bool:
    """A whole object without a controller, if there is one or may come to be one, or the object is created."""
    if made.owner is not None:
        return False
    pending = asked.entry.live_pending_writes() if asked.entry is not None else ()
    has_owner = asked.observed is not None and asked.observed.owner is not None
    return asked.write.operation is Operation.CREATE or has_owner or any(one.owner is not None for one in pending)


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
