"""What a patch makes of an object, in both of our API servers: the simulated one, and the one that listens.

Written without the product's own readers: it is the other side of the wire.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial

from extauthz.core.model import Tree
from extauthz.kube.connection import ApiError


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
    """RFC 6902, as far as autoscalers go: add, replace, remove, test."""
    for operation in operations:
        *parents, last = [_unescape(part) for part in operation["path"].split("/")[1:]]
        target = item
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        _OPERATIONS[operation["op"]](target, last, operation.get("value"))
    return item


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


def _merge(item: Tree, patch: Tree, *, by_name: bool = False) -> Tree:
    """RFC 7386. ``by_name``: lists of named things are merged by name, and directives are ignored."""
    if by_name and isinstance(patch, list) and isinstance(item, list) and all("name" in one for one in [*item, *patch]):
        changed = {one["name"]: one for one in item}
        for one in patch:
            changed[one["name"]] = _merge(changed.get(one["name"]), one, by_name=True)
        return list(changed.values())
    if not isinstance(patch, dict):
        return patch
    merged = dict(item) if isinstance(item, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif not (by_name and name.startswith("$")):
            merged[name] = _merge(merged.get(name), value, by_name=by_name)
    return merged


_strategic = partial(_merge, by_name=True)

PATCHES: dict[str, Callable[[Tree, Tree], Tree]] = {
    "application/json-patch+json": _json_patch,
    "application/merge-patch+json": _merge,
    "application/strategic-merge-patch+json": _strategic,
    "application/apply-patch+yaml": _strategic,
}
