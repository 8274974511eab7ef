"""The stand-in's memory: Kubernetes objects as JSON trees, with resource versions, patches and events of changes.

Deliberately simple, and written without the product's own readers: it is the other side of the wire.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import yaml

Tree: TypeAlias = Any


class Key(NamedTuple):
    """Names one object, whatever the API version."""

    group: str
    resource: str
    namespace: str
    name: str


class ApiError(Exception):
    """A refusal in the API server's form: HTTP code, reason, sentence."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


PLURALS = {
    "Namespace": "namespaces",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "ReplicaSet": "replicasets",
    "Lease": "leases",
    "Event": "events",
}


class Objects:
    """All objects, and who wants to hear of changes."""

    def __init__(self, items: Iterable[Tree] = ()) -> None:
        self.items: dict[Key, Tree] = {}
        self.listeners: set[Callable[[str, Key, Tree], None]] = set()
        self.version = 100
        """The latest resourceVersion."""
        for item in items:
            metadata = item["metadata"]
            group = item["apiVersion"].rpartition("/")[0]
            key = Key(group, PLURALS[item["kind"]], metadata.get("namespace", ""), metadata["name"])
            self.put(key, copy.deepcopy(item), "ADDED")

    def get(self, key: Key) -> Tree:
        """The object itself, not a copy.

        Raises:
            ApiError: 404.
        """
        if key not in self.items:
            plural = f"{key.resource}.{key.group}" if key.group else key.resource
            raise ApiError(404, "NotFound", f'{plural} "{key.name}" not found')
        return self.items[key]

    def put(self, key: Key, item: Tree, event: str) -> Tree:
        """Stores under a new resource version and tells the listeners."""
        self.version += 1
        metadata = item.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("uid", str(uuid4()))
        self.items[key] = item
        for listener in tuple(self.listeners):
            listener(event, key, item)
        return item

    def remove(self, key: Key) -> Tree:
        """Raises: ApiError: 404."""
        before = self.get(key)
        self.version += 1
        item = before | {"metadata": before["metadata"] | {"resourceVersion": str(self.version)}}
        del self.items[key]
        for listener in tuple(self.listeners):
            listener("DELETED", key, item)
        return item


def scale_of(item: Tree) -> Tree:
    """The ``autoscaling/v1`` Scale of an object."""
    kept = ("name", "namespace", "uid", "resourceVersion")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: item["metadata"][name] for name in kept if name in item["metadata"]},
        "spec": {"replicas": item["spec"].get("replicas", 1)},
        "status": {"replicas": item.get("status", {}).get("replicas", 0)},
    }


def patched(item: Tree, content_type: str, body: bytes) -> Tree:
    """A patched copy.

    Raises:
        ApiError: 415 for a patch of unknown kind, 422 for one that does not fit, 400 for one that is no JSON.
    """
    kind = content_type.partition(";")[0].strip().lower()
    apply = PATCHES.get(kind)
    if apply is None:
        raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {kind}")
    try:
        return apply(copy.deepcopy(item), _load(kind, body))
    except (ValueError, yaml.YAMLError) as error:
        raise ApiError(400, "BadRequest", str(error)) from error
    except (KeyError, IndexError, TypeError) as error:
        raise ApiError(422, "Invalid", f"the patch does not fit: {error!r}") from error


def _load(kind: str, body: bytes) -> Tree:
    return yaml.safe_load(body) if kind.endswith("+yaml") else json.loads(body)


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


def _merge(item: Tree, patch: Tree) -> Tree:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(item) if isinstance(item, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


def _strategic(item: Tree, patch: Tree) -> Tree:
    """Lists of named things are merged by name, directives are ignored."""
    if isinstance(patch, list) and isinstance(item, list) and all("name" in one for one in [*item, *patch]):
        changed = {one["name"]: one for one in item}
        for one in patch:
            changed[one["name"]] = _strategic(changed.get(one["name"]), one)
        return list(changed.values())
    if not isinstance(patch, dict):
        return patch
    merged = dict(item) if isinstance(item, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif not name.startswith("$"):
            merged[name] = _strategic(merged.get(name), value)
    return merged


PATCHES: dict[str, Callable[[Tree, Tree], Tree]] = {
    "application/json-patch+json": _json_patch,
    "application/merge-patch+json": _merge,
    "application/strategic-merge-patch+json": _strategic,
    "application/apply-patch+yaml": _strategic,
}
