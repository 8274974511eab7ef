"""What a patch makes of an object, in stand-ins for the API server.

Written without the product's own readers: it is the other side of the wire.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from extauthz.core.model import Tree
from extauthz.inputs.kube.connection import ApiError


def apply(item: Tree, kind: str, patch: Tree) -> Tree:
    """A patched copy. ``kind``: one of ``PATCHES``.

    Raises:
        ApiError: 422 for a patch that does not fit.
    """
    try:
        return PATCHES[kind](copy.deepcopy(item), patch)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ApiError(422, "Invalid", f"the patch does not fit: {error!r}") from error


def _json_patch(item: Tree, operations: list[Mapping[str, Tree]]) -> Tree:
    """RFC 6902."""
    for operation in operations:
        target, last = _located(item, operation["path"])
        if operation["op"] in ("copy", "move"):
            source, key = _located(item, operation["from"])
            value = copy.deepcopy(source[int(key) if isinstance(source, list) else key])
            if operation["op"] == "move":
                _remove(source, key, None)
            _add(target, last, value)
        else:
            _OPERATIONS[operation["op"]](target, last, operation.get("value"))
    return item


def _located(item: Tree, pointer: str) -> tuple[Tree, str]:
    """What holds the value that a pointer names, and where in it."""
    *parents, last = [_unescape(part) for part in pointer.split("/")[1:]]
    for part in parents:
        item = item[int(part)] if isinstance(item, list) else item[part]
    return item, last


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _add(target: Tree, last: str, value: Tree) -> None:
    if not isinstance(target, list):
        target[last] = value
    elif last == "-":
        target.append(value)
    else:
        target.insert(int(last), value)


def _replace(target: Tree, last: str, value: Tree) -> None:
    where: Tree = int(last) if isinstance(target, list) else last
    target[where]  # replacing what is not there is an error (RFC 6902 §4.3)
    target[where] = value


def _remove(target: Tree, last: str, value: Tree) -> None:
    del target[int(last) if isinstance(target, list) else last]


def _test(target: Tree, last: str, value: Tree) -> None:
    if target[int(last) if isinstance(target, list) else last] != value:
        raise ApiError(422, "Invalid", f"testing value {last} failed")


_OPERATIONS: dict[str, Callable[[Tree, str, Tree], None]] = {
    "add": _add,
    "replace": _replace,
    "remove": _remove,
    "test": _test,
}


def _merge(item: Tree, patch: Tree) -> Tree:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    return _merged(item, patch, _merge)


def _merged(item: Tree, patch: Mapping[str, Tree], each: Callable[[Tree, Tree], Tree]) -> Tree:
    merged = dict(item) if isinstance(item, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = each(merged.get(name), value)
    return merged


def _strategic(item: Tree, patch: Tree) -> Tree:
    """Lists of named things are merged by name. The order of lists (``$setElementOrder``) is as it comes."""
    if isinstance(patch, list):
        return _merged_by_name(item, patch)
    if not isinstance(patch, dict):
        return patch
    content = {name: value for name, value in patch.items() if not name.startswith("$")}
    if patch.get("$patch") in ("replace", "delete"):
        return content if patch["$patch"] == "replace" else {}
    if "$retainKeys" in patch and isinstance(item, dict):
        retained = patch["$retainKeys"]
        if not content.keys() <= set(retained):
            raise ValueError("$retainKeys does not name all that is there")
        item = {name: value for name, value in item.items() if name in retained}
    return _merged(item, content, _strategic)


def _merged_by_name(item: Tree, patch: list[Tree]) -> Tree:
    if not all(isinstance(one, dict) for one in patch):
        return patch
    told = [one for one in patch if "$patch" not in one]
    held = item if isinstance(item, list) and {"$patch": "replace"} not in patch else []
    if not all("name" in one for one in [*held, *told]):
        return told
    gone = {one["name"] for one in patch if one.get("$patch") == "delete"}
    changed = {one["name"]: one for one in held if one["name"] not in gone}
    for one in told:
        changed[one["name"]] = _strategic(changed.get(one["name"]), one)
    return list(changed.values())


PATCHES: dict[str, Callable[[Tree, Tree], Tree]] = {
    "application/json-patch+json": _json_patch,
    "application/merge-patch+json": _merge,
    "application/strategic-merge-patch+json": _strategic,
    "application/apply-patch+yaml": _strategic,
}
