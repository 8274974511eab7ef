"""The same change with fewer replicas, and nothing else changed: what mode Clamp asks for in place of what came.

Only a count that stands in its plain place, as an integer, is lowered. What is given is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from extauthz.core.model import Apply, Change, JsonPatch, MergePatch, Put, StrategicMergePatch, Tree

REPLICAS_PATH: Final = "/spec/replicas"
VERSION_PATH: Final = "/metadata/resourceVersion"


def lowered(change: Change, count: int, version: str | None) -> Change | None:
    """``change`` with this count; ``None``: it cannot be lowered.

    Args:
        version: bind it to this resourceVersion; ``None``: it is bound already.

    >>> patch = MergePatch({"spec": {"replicas": 9, "paused": True}})
    >>> lowered(patch, 4, "7").patch
    {'spec': {'replicas': 4, 'paused': True}, 'metadata': {'resourceVersion': '7'}}
    >>> lowered(JsonPatch(({"op": "add", "path": "/spec/replicas", "value": 9},)), 4, None).operations
    ({'op': 'add', 'path': '/spec/replicas', 'value': 4},)
    """
    return _LOWERED[type(change)](change, count, version)


def _object(tree: dict[str, Tree], count: int, version: str | None) -> dict[str, Tree] | None:
    spec, metadata = tree.get("spec"), tree.get("metadata", {})
    if type(spec) is not dict or type(spec.get("replicas")) is not int or type(metadata) is not dict:
        return None
    bound = {"metadata": metadata | {"resourceVersion": version}} if version is not None else {}
    return tree | {"spec": spec | {"replicas": count}} | bound


def _of(kind: Callable[[Tree], Change], tree: Tree, count: int, version: str | None) -> Change | None:
    made = _object(tree, count, version)
    return kind(made) if made is not None else None


def _json_patch(change: JsonPatch, count: int, version: str | None) -> Change | None:
    operations = list(change.operations)
    setting = [at for at, one in enumerate(operations) if one.get("op") != "test" and one.get("path") == REPLICAS_PATH]
    if len(setting) != 1 or type(operations[setting[0]].get("value")) is not int:
        return None
    operations[setting[0]] = dict(operations[setting[0]]) | {"value": count}
    bound = [{"op": "test", "path": VERSION_PATH, "value": version}] if version is not None else []
    return JsonPatch((*bound, *operations))


_LOWERED: Final[Mapping[type, Callable[[Any, int, str | None], Change | None]]] = {
    Put: lambda change, count, version: _of(Put, change.document, count, version),
    JsonPatch: _json_patch,
    MergePatch: lambda change, count, version: _of(MergePatch, change.patch, count, version),
    StrategicMergePatch: lambda change, count, version: _of(StrategicMergePatch, change.patch, count, version),
    Apply: lambda change, count, version: _of(Apply, change.configuration, count, version),
}
