"""Stand-ins for the API server. One for ``kube.connection.Connection`` with a memory: what our writers send, and the
rules they are held to. One that judges people: TokenReview and SubjectAccessReview.

It knows what ``observe`` needs of the API server: server-side apply of a status, events of ``events.k8s.io/v1``, and
lists. ``tests/contract/test_status_writer.py`` and ``test_kube_events.py`` hold it and a real API server to the same.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS

Tree = Any

MAX_NOTE_BYTES = 1024
EVENTS = "/apis/events.k8s.io/v1/namespaces/"
_NAMESPACE = re.compile(r"/namespaces/[^/]+")
REQUIRED = ("action", "eventTime", "note", "reason", "regarding", "reportingController", "reportingInstance", "type")
"""Of an event (``ValidateEventCreate`` in ``pkg/apis/core/validation/events.go``); the note is ours to require."""


class Called(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    body: Tree
    content_type: str


class ScriptedApi:
    """Objects by path. A collection that nobody has named is answered with 404, as an unknown kind is."""

    def __init__(self, collections: Sequence[str] = ()) -> None:
        self.objects: dict[str, Tree] = {}
        self.collections = set(collections)
        self.called: list[Called] = []
        self.faults: list[ApiError | Unreachable | None] = []
        """Raised by the next calls, one each; ``None``: that call goes well."""
        self.empty_lists_are_null = False
        """As some servers in Go answer."""
        self._version = 100

    def put(self, path: str, obj: Tree) -> Tree:
        """Have an object, with a new resourceVersion."""
        self._version += 1
        stored = copy.deepcopy(obj)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self._version)
        self.objects[path] = stored
        self.collections.add(path.rpartition("/")[0])
        return copy.deepcopy(stored)

    def writes(self, part: str = "") -> list[Called]:
        """What was sent that was no read, to paths with this in them."""
        return [one for one in self.called if one.method != "GET" and part in one.path]

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Tree | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
    ) -> Tree:
        """As ``Connection.call``."""
        self.called.append(Called(method, path, dict(query), copy.deepcopy(body), content_type))
        if self.faults and (fault := self.faults.pop(0)):
            raise fault
        if method == "GET" and path in self.objects:
            return copy.deepcopy(self.objects[path])
        if method == "GET":
            return self._list(path, int(dict(query).get("limit", "0")), int(dict(query).get("continue", "0")))
        return self._written(method, path, body, content_type)

    def _written(self, method: str, path: str, body: Tree, content_type: str) -> Tree:
        match (method, content_type):
            case ("POST", "application/json") if path.startswith(EVENTS):
                return self._create_event(path, body)
            case ("POST", "application/json"):
                given = {"uid": f"uid-{body['metadata']['name']}", "generation": 1}
                return self.put(f"{path}/{body['metadata']['name']}", body | {"metadata": body["metadata"] | given})
            case ("PATCH", "application/merge-patch+json") if path.startswith(EVENTS):
                return self._patch_event(path, body)
            case ("PATCH", "application/merge-patch+json"):
                there = self._existing(path)
                return self.put(path, _merged(there, body | {"metadata": {"generation": _generation(there) + 1}}))
            case ("PATCH", "application/apply-patch+yaml") if path.endswith("/status"):
                return self._apply_status(path.removesuffix("/status"), body)
            case ("PATCH", "application/json-patch+json") if path.endswith("/status"):
                there = self._existing(path.removesuffix("/status"))
                conditions = [*there["status"]["conditions"], *(one["value"] for one in body)]
                return self.put(path.removesuffix("/status"), _merged(there, {"status": {"conditions": conditions}}))
            case ("DELETE", _):
                self.objects = {at: one for at, one in self.objects.items() if path not in (at, at.rpartition("/")[0])}
                return {}
        raise AssertionError(f"nobody expects {method} {path} in {content_type}")

    def _list(self, path: str, limit: int, start: int) -> Tree:
        """Those of a collection, or of all namespaces; from one on, and at most so many."""
        known = {one for at in self.collections for one in (at, _NAMESPACE.sub("", at))}
        if path not in known:
            raise ApiError(404, "NotFound", f"there is no {path}")
        of = {at: at.rpartition("/")[0] for at in sorted(self.objects)}
        items = [self.objects[at] for at, of_it in of.items() if path in (of_it, _NAMESPACE.sub("", of_it))]
        if not items and self.empty_lists_are_null:
            return {"items": None, "metadata": {}}
        end = start + limit if limit else len(items)
        more = {"continue": str(end)} if end < len(items) else {}
        return {"items": copy.deepcopy(items[start:end]), "metadata": more}

    def _apply_status(self, path: str, body: Tree) -> Tree:
        there = self._existing(path)
        ours = {one["type"] for one in body["status"]["conditions"]}
        others = [one for one in there.get("status", {}).get("conditions", ()) if one["type"] not in ours]
        status = {**body["status"], "conditions": [*body["status"]["conditions"], *others]}
        return self.put(path, {**there, "status": status})

    def _create_event(self, path: str, body: Tree) -> Tree:
        lacking = [field for field in REQUIRED if not body.get(field)]
        if lacking or len(body["note"].encode()) > MAX_NOTE_BYTES or not _good(body.get("series")):
            raise ApiError(422, "Invalid", f"bad event: {', '.join(lacking) or 'its note or its series'}")
        at = f"{path}/{body['metadata']['name']}"
        if at in self.objects:
            raise ApiError(409, "AlreadyExists", f"there is {at} already")
        return self.put(at, body)

    def _patch_event(self, path: str, body: Tree) -> Tree:
        there = self._existing(path)
        if set(body) != {"series"} or not _good(body["series"]):
            raise ApiError(422, "Invalid", "of an event only its series may change, and that counts from 2")
        return self.put(path, {**there, "series": body["series"]})

    def _existing(self, path: str) -> Tree:
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"there is no {path}")
        return self.objects[path]


def _merged(there: Tree, patch: Tree) -> Tree:
    """A merge patch of mappings (RFC 7386)."""
    if not isinstance(there, dict) or not isinstance(patch, dict):
        return patch
    found = there | {key: _merged(there.get(key), value) for key, value in patch.items()}
    return {key: value for key, value in found.items() if value is not None}


def _generation(obj: Tree) -> int:
    return int(obj["metadata"].get("generation", 0))


def _good(series: Tree) -> bool:
    return series is None or (series["count"] >= 2 and bool(series["lastObservedTime"]))


class Answers:
    """Answers from a table, by path; an int is the status of a refusal. Events that are not in it are none."""

    def __init__(self, table: dict[str, Tree]) -> None:
        self.table = table

    async def call(self, method: str, path: str, **_: Any) -> Tree:
        """As ``Connection.call``."""
        found = self.table.get(path, {"items": []}) if "/events?" in path else self.table[path]
        if isinstance(found, int):
            raise ApiError(found, "", "no")
        return found


API_SERVER = "https://kubernetes.default.svc"
"""Whom tokens are for, unless they say otherwise."""


@dataclass
class Reviewer:
    """Knows tokens and rights, both of which may be changed at any time. Has ``call`` as a ``Connection`` has."""

    tokens: dict[str, Tree] = field(default_factory=dict)
    """Token to ``status.user`` of its review."""
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    """User or group, plural, and name; an empty name allows all. In place of a name ``list in NAMESPACE``; for a
    quota by a RoleBinding, ``in NAMESPACE``."""
    fault: ApiError | Unreachable | None = None
    """Raised in place of each answer."""
    gate: asyncio.Event | None = None
    """If given, answers wait for it."""
    audiences: dict[str, str] | None = field(default_factory=dict)
    """Token to whom it is for; others are for the API server. ``None`` in place of the dict: it knows no audiences."""
    called: list[Tree] = field(default_factory=list)
    """Bodies that came."""
    under_way: int = 0
    most_under_way: int = 0

    async def call(self, method: str, path: str, *, body: Tree = None, **_: object) -> Tree:
        """As ``Connection.call``."""
        assert method == "POST"
        assert isinstance(body, dict)
        self.called.append(body)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.fault is not None:
                raise self.fault
            return {"status": self._status(path, body["spec"])}
        finally:
            self.under_way -= 1

    def reviews(self, kind: str) -> int:
        """How many of a kind came."""
        return sum(body["kind"] == kind for body in self.called)

    def _status(self, path: str, spec: Tree) -> Tree:
        if path == TOKEN_REVIEWS:
            user = self.tokens.get(spec["token"])
            wanted = spec.get("audiences", [API_SERVER])
            is_for = wanted if self.audiences is None else [self.audiences.get(spec["token"], API_SERVER)]
            if user is None or not set(is_for) & set(wanted):
                return {"user": {}, "error": "invalid bearer token"}
            told = {} if self.audiences is None or "audiences" not in spec else {"audiences": is_for}
            return {"authenticated": True, "user": user} | told
        assert path == ACCESS_REVIEWS
        asked = spec["resourceAttributes"]
        assert asked["verb"] == "get"
        names = ("", asked.get("name", ""))
        if asked["resource"] == "workspacequotas" and asked.get("namespace"):
            names = (f"in {asked['namespace']}",)
        return {"allowed": any((who, asked["resource"], n) in self.allowed for who in _of(spec) for n in names)}


def _of(spec: Tree) -> list[str]:
    return [spec["user"], *spec["groups"]]
