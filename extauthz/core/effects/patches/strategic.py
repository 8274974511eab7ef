"""Strategic merge patches as ``k8s.io/apimachinery/pkg/util/strategicpatch`` applies them, on a partial document."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, TypeAlias

from extauthz.core.effects.patches.trees import fresh, without_nulls
from extauthz.core.errors import PatchError
from extauthz.core.model import Tree
from extauthz.core.objects.partial import Hidden, Partial

_MERGE_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("pod", "containers"): "name",
    ("pod", "initContainers"): "name",
    ("pod", "volumes"): "name",
}
"""(kind of the mapping, field) to ``patchMergeKey`` where ``patchStrategy`` has ``merge``
(``k8s.io/api/core/v1/types.go``). Other lists that count, ``volumeClaimTemplates`` among them, are replaced."""

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder"
_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList"

_Map: TypeAlias = dict[str, Tree]


def merge(document: _Map, patch: Tree) -> Tree:
    """Changes ``document`` by ``patch``; they share nothing afterwards. Raises PatchError."""
    if not isinstance(patch, dict):
        raise _malformed("a strategic merge patch must be an object")
    return _merged_map(document, fresh(patch))


def _merged_map(target: _Map, patch: _Map) -> _Map:
    """``mergeMap``. Both arguments are changed."""
    if _PATCH in patch:
        return _directed(patch)
    _retain(target, patch)
    _reorder(target, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            _delete_primitives(target, _suffix(key, _DELETE_PRIMITIVES), value)
        elif value is None:
            target.pop(key, None)
        elif isinstance(value, dict | list):
            _set(target, key, value)
        else:
            target[key] = value
    return target


def _directed(patch: _Map) -> _Map:
    directive = patch.pop(_PATCH)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise _malformed(f"{_PATCH} of an object must be replace or delete")


def _retain(target: _Map, patch: _Map) -> None:
    """``applyRetainKeysDirective``: keys that are not listed go, and the patch may set only listed keys."""
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    if not isinstance(kept, list) or not all(isinstance(key, str) for key in kept):
        raise _malformed(f"{_RETAIN} must be a list of keys")
    kept = set(kept)
    if any(value is not None and not key.startswith("$") and key not in kept for key, value in patch.items()):
        raise _malformed(f"a key is set that {_RETAIN} does not list")
    for key in [key for key in target if key not in kept]:
        del target[key]


def _reorder(target: _Map, patch: _Map) -> None:
    """``mergePatchIntoOriginal``: a list together with the order it is to have."""
    for directive in [key for key in patch if key.startswith(_ORDER)]:
        order = patch.pop(directive)
        key = _suffix(directive, _ORDER)
        merge_key = _merge_key(target, key)
        if merge_key is None:
            continue  # of a field that does not count, or refused by the server
        names = _names(_items(order, directive), merge_key)
        before, patched = _items(target.get(key), key), _items(patch.pop(key, None), key)
        _check_order(patched, names, merge_key)
        merged = _merged_list(before, patched, merge_key)
        target[key] = _ordered(merged, names, _names(before, merge_key), merge_key)


def _set(target: _Map, key: str, value: Tree) -> None:
    known = target.get(key)
    if isinstance(known, Hidden) and isinstance(value, dict):
        raise PatchError("object-not-seen", "the patch changes a part of an object that the gate has not seen")
    if isinstance(known, dict) and isinstance(value, dict):
        target[key] = _merged_map(known, value)
    elif isinstance(known, list) and isinstance(value, list):
        merge_key = _merge_key(target, key)
        target[key] = _merged_list(known, value, merge_key) if merge_key else value
    elif _is_directive(value):
        target.pop(key, None)
    else:
        target[key] = _undirected(without_nulls(value))


def _is_directive(value: Tree) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _undirected(value: Tree) -> Tree:
    """``removeDirectives``: new content without the objects that are only directives."""
    if isinstance(value, dict):
        return {
            key: _undirected(item) if isinstance(item, dict | list) else item
            for key, item in value.items()
            if not _is_directive(item)
        }
    return [_undirected(item) for item in value if not _is_directive(item)] if isinstance(value, list) else value


def _delete_primitives(target: _Map, key: str, value: Tree) -> None:
    """Lists of primitives do not count. But a null in a patch deletes the field itself, whatever its type."""
    if value is None:
        target.pop(key, None)
    elif isinstance(value, list) and isinstance(target.get(key), list):
        raise _malformed(f"{_DELETE_PRIMITIVES} is used on a list of objects")


def _merged_list(before: list[Tree], patch: list[Tree], merge_key: str) -> list[Tree]:
    """``mergeSlice`` for objects: deletions and replacement first, then each item into its namesake."""
    before, patch = _special(before, patch, merge_key)
    order = _names(before, merge_key)
    merged, at = list(before), _ranks(order)
    for name, item in zip(_names(patch, merge_key), patch, strict=True):
        if name in at:
            merged[at[name]] = _merged_map(merged[at[name]], item)
        else:
            at[name] = len(merged)
            merged.append(item)
    return _ordered(merged, _names(patch, merge_key), order, merge_key)


def _special(before: list[Tree], patch: list[Tree], merge_key: str) -> tuple[list[Tree], list[Tree]]:
    """``mergeSliceWithSpecialElements``: carries out the items that have a directive."""
    plain = [item for item in patch if not _is_directive(item)]
    special = [item for item in patch if _is_directive(item)]
    if any(item[_PATCH] not in ("delete", "replace") for item in special):
        raise _malformed(f"{_PATCH} of an item must be delete or replace")
    deleted = set(_names([item for item in special if item[_PATCH] == "delete"], merge_key))
    if any(item[_PATCH] == "replace" for item in special):
        return plain, []
    named = zip(_names(before, merge_key), before, strict=True)
    return [item for name, item in named if name not in deleted], plain


def _check_order(patch: list[Tree], names: list[str], merge_key: str) -> None:
    """``validatePatchWithSetOrderList``: the patch's items are in the order list, and in its order."""
    remaining = iter(names)
    wanted = _names([item for item in patch if not _is_directive(item)], merge_key)
    if names and any(name not in remaining for name in wanted):
        raise _malformed(f"{_ORDER} does not have the patch's items in their order")


def _ordered(merged: list[Tree], first: list[str], before: list[str], merge_key: str) -> list[Tree]:
    """``normalizeElementOrder``: the patch's items in its order, the others in theirs, mixed as before."""
    by_patch, by_server = _ranks(first), _ranks(before)
    names = _names(merged, merge_key)
    pairs = list(zip(names, merged, strict=True))
    own = sorted((pair for pair in pairs if pair[0] in by_patch), key=lambda pair: by_patch[pair[0]])
    rest = deque(pair for pair in pairs if pair[0] not in by_patch)
    result: list[Tree] = []
    for name, item in own:
        while rest and name in by_server and by_server[rest[0][0]] < by_server[name]:
            result.append(rest.popleft()[1])
        result.append(item)
    return result + [item for _, item in rest]


def _merge_key(target: _Map, key: str) -> str | None:
    return _MERGE_KEYS.get((target.of, key)) if isinstance(target, Partial) else None


def _items(value: Tree, key: str) -> list[Tree]:
    if isinstance(value, list):
        return value
    if value is None:
        return []
    raise _malformed(f"{key} must be a list")


def _names(items: list[Tree], merge_key: str) -> list[str]:
    return [_name(item, merge_key) for item in items]


def _name(item: Tree, merge_key: str) -> str:
    name = item.get(merge_key) if isinstance(item, dict) else None
    if isinstance(name, str):
        return name
    raise _malformed(f"every item of a list that is merged must be an object with a {merge_key}")


def _ranks(names: list[str]) -> dict[str, int]:
    """Each name with its first index in the list."""
    return {name: index for index, name in reversed(list(enumerate(names)))}


def _suffix(key: str, prefix: str) -> str:
    """``extractKey``."""
    head, slash, field = key.partition("/")
    if head != prefix or not slash:
        raise _malformed(f"{prefix} must be followed by a slash and a field")
    return field


def _malformed(detail: str) -> PatchError:
    return PatchError("patch-malformed", detail)
