"""Finds the preconditions of a write: what the API server must verify first.

A precondition that were claimed and not enforced would end a pending write too early (design.md L3). Sources:
``Store.Update`` in ``apiserver/pkg/registry/generic/registry/store.go``; ``scaleUpdatedObjectInfo`` in
``pkg/registry/apps/*/storage``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extauthz.core.model import NO_PRECONDITION, Precondition, Tree

_RESOURCE_VERSION_PATH = "/metadata/resourceVersion"

_UINT64_DIGITS = 20

_MAX_UID = 253
"""The API server's uids have 36 characters. A longer one is not kept."""


def of_create(document: Mapping[str, Tree]) -> Precondition:
    """What tells a create that an API server has admitted: it has given the new object its uid by then
    (``FillObjectMetaSystemFields`` in ``apiserver/pkg/registry/rest/meta.go``). No client can choose it."""
    return Precondition(uid=_uid(metadata(document)))


def of_object(document: Mapping[str, Tree]) -> Precondition:
    """Of a whole object or Scale: the version and the uid that it has."""
    given = metadata(document)
    return _precondition(given.get("resourceVersion"), _uid(given))


def of_merge_patch(patch: Mapping[str, Tree]) -> Precondition:
    """If a patch sets the version, the server compares it. The uid is not compared for every scale."""
    return _precondition(metadata(patch).get("resourceVersion"))


def of_json_patch(operations: Iterable[Mapping[str, Tree]]) -> Precondition:
    """A ``test`` of the version, unless an operation before it may have changed what it looks at."""
    for operation in operations:
        if operation.get("op") != "test":
            if any(_may_touch_metadata(operation.get(key, _NOWHERE)) for key in ("path", "from")):
                return NO_PRECONDITION
        elif operation.get("path") == _RESOURCE_VERSION_PATH:
            return _precondition(operation.get("value"))
    return NO_PRECONDITION


_NOWHERE = "/"
"""The source of an operation that has none."""


def _may_touch_metadata(path: Tree) -> bool:
    # Not a comparison of segments: json-patch ignores what stands before the first slash.
    return type(path) is not str or not path or "metadata" in path


def metadata(body: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """The metadata of a body; empty if there is none."""
    given = body.get("metadata")
    return given if type(given) is dict else {}


def _uid(given: Mapping[str, Tree]) -> str | None:
    uid = given.get("uid")
    return uid if type(uid) is str and 0 < len(uid) <= _MAX_UID else None


def _precondition(version: Tree, uid: str | None = None) -> Precondition:
    number = _number(version)
    if not number and uid is None:
        return NO_PRECONDITION
    return Precondition(str(number) if number else None, uid)


def _number(version: Tree) -> int:
    """Versions are compared as numbers (``ObjectResourceVersion``). Zero asks for nothing. Others are refused."""
    readable = type(version) is str and version.isascii() and version.isdecimal() and len(version) <= _UINT64_DIGITS
    return int(version) if readable else 0
