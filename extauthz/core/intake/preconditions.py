"""Finds the preconditions of a write: what the API server must verify first.

A precondition that were claimed and not enforced would end a pending write too early (docs/design.md L3). Sources:
``Store.Update`` in ``apiserver/pkg/registry/generic/registry/store.go``; ``scaleUpdatedObjectInfo`` in
``pkg/registry/apps/*/storage``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from extauthz.core.model import (
    Apply,
    Change,
    JsonPatch,
    MergePatch,
    Operation,
    Precondition,
    Put,
    StrategicMergePatch,
    Tree,
)

NONE = Precondition()

_RESOURCE_VERSION_PATH = "/metadata/resourceVersion"

_UINT64_DIGITS = 20

_MAX_UID = 253
"""The API server's uids have 36 characters. A longer one is not kept."""


def find(operation: Operation, change: Change) -> Precondition:
    """The preconditions of a write. A create has none: the server refuses one that names a resourceVersion."""
    if operation is Operation.CREATE:
        return NONE
    return _FIND[type(change)](change)


def of_admitted(change: Put) -> Precondition:
    """What tells a create that an API server has admitted: it has given the new object its uid by then
    (``FillObjectMetaSystemFields`` in ``apiserver/pkg/registry/rest/meta.go``). No client can choose it."""
    return Precondition(uid=_uid(metadata(change.document)))


def _of_put(change: Put) -> Precondition:
    given = metadata(change.document)
    return _precondition(given.get("resourceVersion"), _uid(given))


def _uid(given: Mapping[str, Tree]) -> str | None:
    uid = given.get("uid")
    return uid if type(uid) is str and 0 < len(uid) <= _MAX_UID else None


def _of_merge(change: MergePatch | StrategicMergePatch) -> Precondition:
    """If a patch sets the version, the server compares it. The uid is not compared for every scale."""
    given = metadata(change.patch)
    directed = any(key.startswith("$") for members in (change.patch, given) for key in members)
    return NONE if directed else _precondition(given.get("resourceVersion"))


def _of_json_patch(change: JsonPatch) -> Precondition:
    """A ``test`` of the version, unless an operation before it may have changed what it looks at."""
    for operation in change.operations:
        if operation.get("op") != "test":
            path, source = operation.get("path", ""), operation.get("from", _NOWHERE)
            if _may_touch_metadata(path) or _may_touch_metadata(source):
                return NONE
        elif operation.get("path") == _RESOURCE_VERSION_PATH:
            return _precondition(operation.get("value"))
    return NONE


_NOWHERE = "/"
"""The source of an operation that has none."""


def _may_touch_metadata(path: Tree) -> bool:
    # Not a comparison of segments: json-patch ignores what stands before the first slash.
    return type(path) is not str or not path or "metadata" in path


def _of_apply(change: Apply) -> Precondition:
    return NONE


_FIND: Mapping[type, Callable[[Any], Precondition]] = {
    Put: _of_put,
    MergePatch: _of_merge,
    StrategicMergePatch: _of_merge,
    JsonPatch: _of_json_patch,
    Apply: _of_apply,
}


def metadata(body: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """The metadata of a body; empty if there is none."""
    given = body.get("metadata")
    return given if type(given) is dict else {}


def _precondition(version: Tree, uid: str | None = None) -> Precondition:
    number = _number(version)
    if not number and uid is None:
        return NONE
    return Precondition(str(number) if number else None, uid)


def _number(version: Tree) -> int:
    """Versions are compared as numbers (``ObjectResourceVersion``). Zero asks for nothing. Others are refused."""
    readable = type(version) is str and version.isascii() and version.isdecimal() and len(version) <= _UINT64_DIGITS
    return int(version) if readable else 0
