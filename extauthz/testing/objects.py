"""The stand-in's memory: Kubernetes objects as JSON trees, with resource versions, patches and events of changes.

Deliberately simple, and written without the product's own readers: it is the other side of the wire.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import yaml

from extauthz.kube.connection import ApiError
from extauthz.simulate.patches import PATCHES, apply

Tree: TypeAlias = Any


class Key(NamedTuple):
    """Names one object, whatever the API version."""

    group: str
    resource: str
    namespace: str
    name: str


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
    if kind not in PATCHES:
        raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {kind}")
    try:
        patch = yaml.safe_load(body) if kind.endswith("+yaml") else json.loads(body)
    except (ValueError, yaml.YAMLError) as error:
        raise ApiError(400, "BadRequest", str(error)) from error
    return apply(item, kind, patch)
