"""The replica count that a body says, and nothing else: of a Scale, or of a patch of the object itself.

An autoscaler writes a count. What may change more than that is not read here: ``MoreThanACount`` says so, and the
webhook is shown the object that comes of it. Sources: ``gopkg.in/evanphx/json-patch.v4``, RFC 7386,
``k8s.io/apimachinery/pkg/util/strategicpatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.objects.fields import converted_int32, mapping, replicas
from extauthz.core.objects.workloads import DEFAULT_REPLICAS

REPLICAS: Final = ("spec", "replicas")

_OF_METADATA: Final = frozenset({"labels", "ownerReferences"})
"""What decides which quotas an object counts in, and through which owner."""

_OF_SPEC: Final = frozenset({"template", "volumeClaimTemplates", "ordinals", "selector"})
"""What decides what a replica costs, and which pods are the object's."""

_OPERATIONS: Final = frozenset({"add", "remove", "replace", "move", "copy", "test"})

_Place: TypeAlias = tuple[str, ...]


class MoreThanACount(Exception):  # noqa: N818 (no error of anybody: others decide it)
    """The body may change something else that costs. The text says what."""


def of_put(document: Tree) -> int:
    """Of a whole Scale. Raises ObjectError."""
    spec = mapping(mapping(document, "(root)").get("spec"), "spec")
    return replicas(spec.get("replicas"), 0)


def of_merge_patch(patch: Mapping[str, Tree], *, scale: bool) -> int | None:
    """``None``: it leaves the count as it is. Raises ObjectError, MoreThanACount."""
    return _of_tree(patch, lambda value: value, scale=scale)


def of_strategic_merge_patch(patch: Mapping[str, Tree], *, scale: bool) -> int | None:
    """The same. Directives (``$patch`` and others) are more than a count."""
    for part in (patch, patch.get("metadata"), patch.get("spec")):
        if isinstance(part, dict) and any(key.startswith("$") for key in part):
            raise MoreThanACount("it has directives of a strategic merge patch")
    return _of_tree(patch, converted_int32, scale=scale)


def _of_tree(patch: Mapping[str, Tree], convert: Callable[[Tree], Tree], *, scale: bool) -> int | None:
    if not scale:
        _refuse_more(patch)
    if "spec" not in patch:
        return None
    spec = mapping(patch["spec"], "spec")  # null takes the whole spec of a Scale away
    if patch["spec"] is not None and "replicas" not in spec:
        return None
    return replicas(convert(spec.get("replicas")), _default(scale=scale))


def _refuse_more(patch: Mapping[str, Tree]) -> None:
    for part, costly in (("metadata", _OF_METADATA), ("spec", _OF_SPEC)):
        given = patch.get(part, {})
        if given is None:
            raise MoreThanACount(f"it takes all of {part} away")
        if isinstance(given, dict) and (found := costly & given.keys()):
            raise MoreThanACount(f"it changes {part}.{min(found)}")


def of_json_patch(operations: Iterable[Mapping[str, Tree]], *, scale: bool) -> int | None:
    """``None``: it leaves the count as it is. Raises BodyError, ObjectError, MoreThanACount.

    ``test`` is taken as passed: what it looks at may have another value in the cluster by now.
    """
    found: list[Tree] = []
    for operation in operations:
        name = operation.get("op")
        if not isinstance(name, str) or name not in _OPERATIONS:
            raise BodyError("patch-malformed", "op must be add, remove, replace, move, copy or test")
        place = _place(operation, "path")
        if name in ("move", "copy"):
            _refuse_moved(name, _place(operation, "from"), place, scale=scale)
        elif name != "test" and _counts(place, scale=scale):
            found.append(_set(name, place, operation.get("value"), scale=scale))
    return replicas(found[-1], _default(scale=scale)) if found else None


def _set(name: str, place: _Place, value: Tree, *, scale: bool) -> Tree:
    """What an operation makes of the count; null: the default."""
    if place == REPLICAS:
        return value if name != "remove" else None
    if not scale or len(place) > 1:
        raise MoreThanACount(f"it changes {'.'.join(place[:2]) or 'the whole object'}")
    if name == "remove":
        return None
    spec = value if place else mapping(value, "(root)").get("spec")
    return mapping(spec, "spec").get("replicas")


def _refuse_moved(name: str, source: _Place, place: _Place, *, scale: bool) -> None:
    if _counts(place, scale=scale) or (name == "move" and _counts(source, scale=scale)):
        raise MoreThanACount(f"it can {name} more than a count")


def _counts(place: _Place, *, scale: bool) -> bool:
    """Whether something that costs is there, or below."""
    if not place:
        return True
    if place[0] == "metadata":
        return not scale and (len(place) == 1 or place[1] in _OF_METADATA)
    return place[0] == "spec" and (len(place) == 1 or place[1] == "replicas" or (not scale and place[1] in _OF_SPEC))


def _place(operation: Mapping[str, Tree], key: str) -> _Place:
    """The first tokens of a pointer: what is deeper makes no difference. What is before the first slash is dropped, as
    the library does it."""
    pointer = operation.get(key)
    if not isinstance(pointer, str):
        raise BodyError("patch-malformed", f"{key} of an operation must be a string")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/", 3)[1:])


def _default(*, scale: bool) -> int:
    return 0 if scale else DEFAULT_REPLICAS


def members(body: Tree, what: str) -> dict[str, Tree]:
    """The keys of a body that is an object. Raises BodyError."""
    if type(body) is not dict:
        raise BodyError("not-an-object", f"{what} must be an object")
    return body


def operations(body: Tree) -> list[dict[str, Tree]]:
    """The operations of a JSON Patch. Raises BodyError."""
    if type(body) is not list:
        raise BodyError("not-an-array", "a JSON Patch must be an array of operations (RFC 6902 §3)")
    return [members(operation, "an operation of a JSON Patch") for operation in body]
