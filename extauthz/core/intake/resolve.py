"""What a write may leave behind, worked out on the object as it was last observed, the way the API server does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from extauthz.core.model import (
    Change,
    JsonPatch,
    MergePatch,
    Observed,
    Outcome,
    Put,
    StrategicMergePatch,
    Tree,
    Unreadable,
    Write,
)

from .effects import Area, outcome
from .faults import MeaningError
from .fields import MAX_REPLICAS
from .objects import describe


def resolve(write: Write, base: Observed | None) -> Outcome | Unreadable:
    """What ``write`` may leave behind where ``base`` was. Never raises, and changes neither.

    ``base`` may be None: the object was never seen, or the write creates it. The result holds for this base only; where
    other writes are in flight, resolve against what each of them may leave. A base lags behind the cluster, so a ``test``
    operation or a precondition that fails on it may hold there: both are taken as met.
    """
    plain = _plain_replicas(write)
    if plain is not None:
        return Outcome(plain)
    try:
        return _CHANGES[type(write.change)](write, base)
    except MeaningError as error:
        return Unreadable(error.code, error.detail, write.ref)


def _plain_replicas(write: Write) -> int | None:
    """The count of a write that says nothing else, without building a document: what autoscalers send."""
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


def _never_plain(change: Change, scale: bool) -> Tree:
    return None


_PLAIN: Final[Mapping[type, Callable[[Any, bool], Tree]]] = {
    JsonPatch: _plain_json_patch,
    MergePatch: _plain_merge,
    StrategicMergePatch: _plain_merge,
    Put: _plain_put,
}


def _put(write: Write, base: Observed | None) -> Outcome:
    assert isinstance(write.change, Put)
    if write.scale:
        return outcome(write.change.document, Area.REPLICAS, scale=True)
    new = describe(write.ref.resource, write.change.document)
    return Outcome(new.replicas, (new.template,), new.labels, new.owner)


_CHANGES: Final[Mapping[type, Callable[[Write, Observed | None], Outcome]]] = {
    Put: _put,
}
