"""An intent as a JSON-ready record, for whoever takes it over: the next start of a gate, or another gate.

A record holds no time: each gate counts on a clock of its own (DESIGN §6.5, §6.11).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from extauthz.core.intake.gojson import Number
from extauthz.core.ledger.intents import Intent, State
from extauthz.core.model import (
    Apply,
    Change,
    JsonPatch,
    MergePatch,
    Operation,
    OwnerRef,
    Precondition,
    StrategicMergePatch,
    Template,
    Tree,
    WorkloadRef,
    Write,
)

Record = Mapping[str, object]

MAX_PATCH_CHARS = 4096
"""A longer patch stays behind. What it would make of a later write of that workload is then not known."""

FRACTION = "$fraction"
"""Marks a number that is not spelled as an integer: a quantity is read from its text, to the nano."""


class RecordError(ValueError):
    """A record is not one that ``dump`` wrote. The text says what is wrong with it."""


_CHANGES: Mapping[str, Callable[[Tree], Change]] = {
    "JsonPatch": lambda body: JsonPatch(tuple(body)),
    "MergePatch": MergePatch,
    "StrategicMergePatch": StrategicMergePatch,
    "Apply": Apply,
}


def _body(change: Change) -> Tree:
    match change:
        case JsonPatch():
            return list(change.operations)
        case Apply():
            return change.configuration
        case MergePatch() | StrategicMergePatch():
            return change.patch
        case _:
            raise TypeError("a whole object is no patch")


def dump(ref: WorkloadRef, intent: Intent) -> dict[str, object]:
    """The record of an intent on ``ref``. A patch that is long, or no JSON, is left out of it."""
    return {
        "id": intent.id,
        "workload": list(ref),
        "replicas": intent.replicas,
        "templates": [template.text.decode() for template in intent.templates],
        "labels": list(intent.labels),
        "creates": intent.creates,
        "precondition": list(intent.precondition),
        "state": intent.state.value,
        "source": intent.source,
        "owner": list(intent.owner) if intent.owner is not None else None,
        "frees": intent.frees,
        "keeps_count": intent.keeps_count,
        "is_patch": intent.is_patch,
        "patch": _dump_patch(intent.patch) if intent.patch is not None else None,
    }


def load(record: Record, expires_s: float, now_s: float) -> tuple[WorkloadRef, Intent]:
    """The intent of a record.

    Args:
        expires_s: when its W has elapsed, and ``now_s``, on this gate's clock. A write that was answered counts as
            answered now, so that a read made from now on settles it.

    Raises:
        RecordError: ``record`` is not one that ``dump`` wrote.
    """
    try:
        return _load(record, expires_s, now_s)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(repr(error)) from error


def _load(record: Record, expires_s: float, now_s: float) -> tuple[WorkloadRef, Intent]:
    group, resource, namespace, name = map(str, _list(record["workload"]))
    ref = WorkloadRef(group, resource, namespace, name)
    replicas = record["replicas"]
    if not isinstance(replicas, int | None):
        raise TypeError("replicas must be an integer or null")
    version, uid = _list(record["precondition"])
    precondition = Precondition(_optional(version), _optional(uid))
    state = State(str(record["state"]))
    return ref, Intent(
        id=str(record["id"]),
        replicas=replicas,
        templates=tuple(Template(str(text).encode()) for text in _list(record["templates"])),
        labels=tuple(map(str, _list(record["labels"]))),
        creates=bool(record["creates"]),
        precondition=precondition,
        expires_s=expires_s,
        state=state,
        source=str(record["source"]),
        answered_s=now_s if state is State.SUCCEEDED else None,
        owner=None if record["owner"] is None else OwnerRef(*map(str, _list(record["owner"]))),
        frees=bool(record["frees"]),
        keeps_count=bool(record["keeps_count"]),
        is_patch=bool(record["is_patch"]),
        patch=_load_patch(record["patch"], ref, precondition),
    )


def _dump_patch(patch: Write) -> dict[str, object] | None:
    try:
        body = _marked(_body(patch.change))
        text = json.dumps(body, allow_nan=False)
    except (TypeError, ValueError):  # of a CBOR or YAML body: JSON has nothing like it
        return None
    if len(text) > MAX_PATCH_CHARS:
        return None
    return {"form": type(patch.change).__name__, "operation": patch.operation.value, "body": body}


def _load_patch(patch: object, ref: WorkloadRef, precondition: Precondition) -> Write | None:
    if patch is None:
        return None
    if not isinstance(patch, Mapping):
        raise TypeError("patch must be an object or null")
    change = _CHANGES[str(patch["form"])](_unmarked(patch["body"]))
    operation = Operation(str(patch["operation"]))
    return Write(ref, operation, scale=False, dry_run=False, change=change, precondition=precondition)


def _marked(tree: Tree) -> Tree:
    """Fractions with their text. Raises TypeError for what JSON cannot say, ValueError for what looks like a mark."""
    if isinstance(tree, Mapping):
        if FRACTION in tree:
            raise ValueError("the patch itself has such a field")
        return {key: _marked(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_marked(one) for one in tree]
    return {FRACTION: tree.text} if isinstance(tree, Number) else tree


def _unmarked(tree: Tree) -> Tree:
    if isinstance(tree, Mapping):
        fraction = tree.get(FRACTION)
        return Number(fraction) if fraction is not None else {key: _unmarked(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_unmarked(one) for one in tree]
    return tree


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else str(value)
