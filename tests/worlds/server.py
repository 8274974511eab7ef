"""A simulated API server: objects, resourceVersions, optimistic concurrency and a history to watch. It holds no faults.

Every object that is written is a new tree; what is handed out is not changed by anybody, or copied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import NamedTuple

from extauthz.core.model import Tree
from extauthz.demo.patches import PATCHES, apply
from extauthz.inputs.kube.connection import ApiError
from tests.worlds import applying
from tests.worlds.judge import Key
from tests.worlds.objects import APPLY


class Event(NamedTuple):
    """One change."""

    version: int
    type: str
    object: Tree


class Prepared(NamedTuple):
    """A write that is worked out, and not stored yet."""

    collection: str
    key: Key
    sub: str
    before: Tree
    """``None``: it is a create."""
    after: Tree


class Place(NamedTuple):
    """What a path names."""

    collection: str
    """``/apis/apps/v1/deployments``: of all namespaces."""
    namespace: str
    name: str
    sub: str


class ApiServer:
    """Objects by collection."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, Tree]] = {}
        self._history: dict[str, list[Event]] = {}
        self._compacted: dict[str, int] = {}
        self._version = 100
        self._uids = count(1)
        self.watchers: dict[str, list[Callable[[Event], None]]] = {}
        """Collection to the listeners of every change."""
        self.wrote: list[Callable[[str, Key, Tree, Tree], None]] = []
        """Called with every change: collection, key, the object before and after (``None``: there is none)."""

    @property
    def version(self) -> int:
        """The version of the last change of anything."""
        return self._version

    def pass_version(self) -> None:
        """Something that nobody here looks at has changed."""
        self._version += 1

    def objects(self, collection: str) -> Mapping[Key, Tree]:
        """All objects of a collection as they are now. Not to be changed."""
        return self._objects.get(collection, {})

    def since(self, collection: str, version: int) -> Iterator[Event]:
        """The changes after ``version``. Raises ApiError (410) if they are not known any more."""
        if version < self._compacted.get(collection, 0):
            raise ApiError(410, "Expired", f"too old resource version: {version}")
        events = self._history.get(collection, [])
        yield from events[bisect_right(events, version, key=lambda one: one.version) :]

    def compact(self) -> None:
        """Forget the history of everything."""
        for collection in self._history:
            self._compacted[collection] = self._version
            self._history[collection] = []

    def request(self, method: str, path: str, query: Mapping[str, str], body: Tree, content_type: str = "") -> Tree:
        """Handle one request in one moment, without admission. Raises ApiError."""
        if method == "GET":
            return self._get(split(path), query)
        if method == "DELETE":
            place = split(path)
            self._held(place)
            return self._delete(place.collection, (place.namespace, place.name))
        return self.store(self.prepare(method, path, body, content_type))

    def prepare(self, method: str, path: str, body: Tree, content_type: str = "") -> Prepared:
        """Work out what a write leaves. Raises ApiError."""
        place = split(path)
        if method == "POST":
            key = (place.namespace, body["metadata"]["name"])
            if key in self.objects(place.collection):
                raise ApiError(409, "AlreadyExists", f"{key[1]} exists")
            return self._made(place.collection, key, body)
        if content_type == APPLY and (place.namespace, place.name) not in self.objects(place.collection):
            return self._made(place.collection, (place.namespace, place.name), applying.created(body))
        held = self._held(place)
        if content_type == APPLY:
            changed = applying.applied(held, body)
        elif place.sub == "scale":
            changed = applying.kept(held, _scaled(held, method, body))
        else:
            changed = applying.kept(held, _changed(held, method, body, content_type))
        return Prepared(place.collection, (place.namespace, place.name), place.sub, held, changed)

    def _made(self, collection: str, key: Key, body: Tree) -> Prepared:
        made = {**body, "metadata": {**body["metadata"], "uid": f"uid-{next(self._uids)}"}}
        return Prepared(collection, key, "", None, made)

    def store(self, prepared: Prepared) -> Tree:
        """Store it, unless the object is another one by now. Raises ApiError."""
        if self.objects(prepared.collection).get(prepared.key) is not prepared.before:
            raise ApiError(409, "Conflict" if prepared.before is not None else "AlreadyExists", "it has changed")
        return self._store(prepared.collection, prepared.key, prepared.after)

    def _held(self, place: Place) -> Tree:
        held = self.objects(place.collection).get((place.namespace, place.name))
        if held is None:
            raise ApiError(404, "NotFound", f"there is no {place.name}")
        return held

    def _get(self, place: Place, query: Mapping[str, str]) -> Tree:
        if place.name:
            return self._held(place)
        name = query.get("fieldSelector", "").removeprefix("metadata.name=")
        labels = [one.split("=", 1) for one in query.get("labelSelector", "").split(",") if one]
        items = [
            tree
            for (namespace, own), tree in self.objects(place.collection).items()
            if place.namespace in ("", namespace)
            and name in ("", own)
            and all(_labels(tree).get(label) == value for label, value in labels)
        ]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": [copied(one) for one in items]}

    def _store(self, collection: str, key: Key, tree: Tree) -> Tree:
        objects = self._objects.setdefault(collection, {})
        before = objects.get(key)
        if before is not None and _same(before, tree):
            return before
        self._version += 1
        uid = (before or tree)["metadata"]["uid"]
        stored = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self._version), "uid": uid}}
        objects[key] = stored
        self._tell(collection, key, before, stored, "ADDED" if before is None else "MODIFIED")
        return stored

    def _delete(self, collection: str, key: Key) -> Tree:
        before = self._objects[collection].pop(key)
        self._version += 1
        last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self._version)}}
        self._tell(collection, key, before, None, "DELETED", last)
        return last

    def _tell(self, collection: str, key: Key, before: Tree, after: Tree, type_: str, last: Tree = None) -> None:
        event = Event(self._version, type_, last if after is None else after)
        self._history.setdefault(collection, []).append(event)
        for wrote in self.wrote:
            wrote(collection, key, before, after)
        for tell in list(self.watchers.get(collection, ())):
            tell(event)


def split(path: str) -> Place:
    """What a path names."""
    words = path.strip("/").split("/")
    depth = 2 if words[0] == "api" else 3
    root, rest = "/" + "/".join(words[:depth]), words[depth:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name, sub = [*rest[1:], "", ""][:2]
    return Place(f"{root}/{rest[0]}", namespace, name, sub)


def copied(tree: Tree) -> Tree:
    """A copy that may be changed as readers do: at its top and in its metadata."""
    return {**tree, "metadata": dict(tree["metadata"])}


def _labels(tree: Tree) -> Mapping[str, str]:
    labels: Mapping[str, str] = tree["metadata"].get("labels") or {}
    return labels


def _meets(held: Tree, metadata: Mapping[str, str]) -> None:
    for field in ("resourceVersion", "uid"):
        if metadata.get(field, "") not in ("", held["metadata"][field]):
            raise ApiError(409, "Conflict", "the object has been modified")


def _scaled(held: Tree, method: str, body: Tree) -> Tree:
    """The object after a write of its scale."""
    if method == "PUT":
        _meets(held, body.get("metadata") or {})
        replicas = body["spec"].get("replicas", 0)
    else:
        replicas = _patched({"spec": {"replicas": held["spec"]["replicas"]}}, body, "")["spec"]["replicas"]
    return {**held, "spec": {**held["spec"], "replicas": replicas}}


def _changed(held: Tree, method: str, body: Tree, content_type: str) -> Tree:
    """The object after a write of all of it: a PUT, or a patch."""
    if method == "PUT":
        _meets(held, body["metadata"])
        return body
    return _as_printed(_patched(held, body, content_type))


def _as_printed(tree: Tree) -> Tree:
    """A workload that a patch has left, with defaults and as its version prints it. Raises ApiError (422)."""
    spec = tree.get("spec", {})
    if "template" not in spec:
        return tree
    containers = spec["template"]["spec"]["containers"]
    if len({one["name"] for one in containers}) < len(containers):
        raise ApiError(422, "Invalid", "two containers have one name")
    if not isinstance(spec.setdefault("replicas", 1), int):
        raise ApiError(422, "Invalid", "spec.replicas is no number")
    for one in containers:
        requests = one["resources"]["requests"]
        requests["cpu"] = str(requests["cpu"])
    return tree


def _patched(tree: Tree, patch: Tree, content_type: str) -> Tree:
    """A patch without content-type is a JSON Patch if it is a list, else a merge patch."""
    kind = "application/json-patch+json" if isinstance(patch, list) else "application/merge-patch+json"
    return apply(tree, content_type if content_type in PATCHES else kind, patch)


def _same(before: Tree, after: Tree) -> bool:
    """A write that changes nothing makes no new version."""

    def content(tree: Tree) -> Tree:
        metadata = {key: value for key, value in tree["metadata"].items() if key not in ("resourceVersion", "uid")}
        return {**tree, "metadata": metadata}

    return bool(content(before) == content(after))
