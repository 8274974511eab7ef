"""What a write may leave on the object as last observed, worked out as the API server does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from extauthz.core.budget import MERGED_BYTES, TEMPLATE_BYTES, Work, of_meaning
from extauthz.core.effects import weights
from extauthz.core.effects.applied import applied
from extauthz.core.effects.outcome import Area, outcome, touched
from extauthz.core.effects.patches import jsonpatch, merge, strategic
from extauthz.core.errors import MeaningError, ObjectError
from extauthz.core.kinds import REPLICATION_CONTROLLERS
from extauthz.core.model import (
    Apply,
    JsonPatch,
    MergePatch,
    Observed,
    Outcome,
    OwnerRef,
    Put,
    StrategicMergePatch,
    Template,
    Tree,
    Unreadable,
    Write,
)
from extauthz.core.objects.documents import document, scale_document
from extauthz.core.objects.fields import MAX_REPLICAS, converted_int32, mapping
from extauthz.core.objects.metadata import controller
from extauthz.core.objects.partial import Partial
from extauthz.core.objects.workloads import describe


def resolve(write: Write, base: Observed | None) -> Outcome | Unreadable:
    """What ``write`` may leave behind where ``base`` was. Never raises, and changes neither.

    ``base`` may be None: the object was never seen, or the write creates it. The result holds for this base only;
    where other writes are in flight, resolve against what each of them may leave. A base lags behind the cluster, so
    a ``test`` operation or a precondition that fails on it may hold there: both are taken as met.
    """
    plain = _plain_replicas(write)
    if plain is not None:
        return Outcome(plain)
    return resolve_by_document(write, base)


def resolve_by_document(write: Write, base: Observed | None) -> Outcome | Unreadable:
    """``resolve`` without its short cut."""
    try:
        return _CHANGES[type(write.change)](write, write.change, base, of_meaning(scale=write.scale))
    except MeaningError as error:
        return Unreadable(error.code, error.detail, write.ref)


def copies(write: Write) -> bool:
    """Whether a value that it leaves may be copied out of another place of what it finds."""
    change = write.change
    return not write.scale and isinstance(change, JsonPatch) and any("from" in one for one in change.operations)


def copied_from(write: Write, base: Observed | None) -> tuple[Template, ...]:
    """The template that the count may be copied out of, even where the write leaves it as it is. The count is for that
    template: on another one it may be another."""
    return (base.template,) if base is not None and base.template is not None and copies(write) else ()


def _plain_replicas(write: Write) -> int | None:
    """The count of a write that says nothing else, without building a document. Autoscalers send these."""
    value = _PLAIN[type(write.change)](write.change, write.scale)
    return value if type(value) is int and 0 <= value <= MAX_REPLICAS else None


def _plain_json_patch(change: JsonPatch, scale: bool) -> Tree:
    if len(change.operations) != 1:
        return None
    operation = change.operations[0]
    if operation.get("path") != "/spec/replicas" or operation.get("op") not in ("add", "replace"):
        return None
    return operation.get("value")


def _plain_merge(change: MergePatch | StrategicMergePatch, scale: bool) -> Tree:
    patch = change.patch
    spec = patch.get("spec") if type(patch) is dict and len(patch) == 1 else None
    return spec.get("replicas") if type(spec) is dict and len(spec) == 1 else None


def _plain_put(change: Put, scale: bool) -> Tree:
    document = change.document
    spec = document.get("spec") if scale and type(document) is dict else None
    return spec.get("replicas") if type(spec) is dict else None


_PLAIN: Final[Mapping[type, Callable[[Any, bool], Tree]]] = {
    Put: _plain_put,
    JsonPatch: _plain_json_patch,
    MergePatch: _plain_merge,
    StrategicMergePatch: _plain_merge,
    Apply: lambda change, scale: None,
}


def _put(write: Write, change: Put, base: Observed | None, work: Work) -> Outcome:
    if write.scale:
        return outcome(change.document, Area.REPLICAS, work, scale=True)
    root = mapping(change.document, "(root)")
    weights.of_metadata(root, work)
    weights.of_spec(root.get("spec"), work)
    new = describe(write.ref.resource, root)
    return Outcome(new.replicas, (new.template,), new.labels, new.owner)


def _json_patch(write: Write, change: JsonPatch, base: Observed | None, work: Work) -> Outcome:
    document, touched = jsonpatch.apply(_document(write, base, work), change.operations, work)
    result = _left_behind(write, document, touched, work)
    owners = [owner for one in change.operations if (owner := _added_owner(one))]
    return result._replace(owner=owners[-1]) if owners else result


def _added_owner(operation: Mapping[str, Tree]) -> OwnerRef | None:
    """The controller that an operation adds to the list of owners. The list is not kept, so nobody can tell what
    others make of it."""
    parent, _, last = str(operation.get("path")).partition("/metadata/ownerReferences/")
    if parent or not last or operation.get("op") in ("remove", "test"):
        return None
    if operation.get("op") != "add" or "/" in last:
        raise ObjectError("metadata.ownerReferences", "is patched in part", "patch-from-unseen-field")
    return controller([operation.get("value")])


def _merge(write: Write, change: MergePatch, base: Observed | None, work: Work) -> Outcome:
    document = merge.merge(_document(write, base, work), change.patch)
    return _left_behind(write, document, touched(change.patch), work)


def _strategic(write: Write, change: StrategicMergePatch, base: Observed | None, work: Work) -> Outcome:
    document = strategic.merge(_document(write, base, work, MERGED_BYTES), change.patch)
    return _left_behind(write, document, touched(change.patch), work, converted_int32)


def _apply(write: Write, change: Apply, base: Observed | None, work: Work) -> Outcome:
    return applied(write, mapping(change.configuration, "(root)"), base, work)


def _left_behind(
    write: Write, document: Tree, touched: Area, work: Work, convert: Callable[[Tree], Tree] = lambda value: value
) -> Outcome:
    result = outcome(document, touched, work, scale=write.scale, convert=convert)
    if result.labels == "" and write.ref[:2] == REPLICATION_CONTROLLERS:
        raise ObjectError("metadata.labels", "without any, the pods' are taken", "patch-from-unseen-field")
    return result


def _document(write: Write, base: Observed | None, work: Work, bytes_a_unit: int = TEMPLATE_BYTES) -> Partial:
    if base is not None and not write.scale:
        weights.of_observed(base.template, work, bytes_a_unit)
    return scale_document(write.ref) if write.scale else document(write.ref, base)


_CHANGES: Final[Mapping[type, Callable[[Write, Any, Observed | None, Work], Outcome]]] = {
    Put: _put,
    JsonPatch: _json_patch,
    MergePatch: _merge,
    StrategicMergePatch: _strategic,
    Apply: _apply,
}
