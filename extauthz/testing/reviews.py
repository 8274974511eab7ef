"""A stand-in for the part of an API server that judges people: TokenReview and SubjectAccessReview.

``tests/controlplane/test_api.py`` asks a real one the same.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from extauthz.core.intake import admission, routes
from extauthz.core.intake.read import read
from extauthz.core.kinds import BY_KEY
from extauthz.core.model import NotACount, Observed, Reading, Request, Unreadable, WorkloadRef
from extauthz.core.objects.metadata import labels_dict
from extauthz.kube.connection import ApiError, Unreachable
from extauthz.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
from extauthz.simulate import patches

Tree = Any

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
        assert asked["verb"] in ("get", "list")
        names = ("", asked.get("name", "")) if asked["verb"] == "get" else (f"list in {asked['namespace']}",)
        if asked["resource"] == "workspacequotas" and asked.get("namespace"):
            names = (f"in {asked['namespace']}",)
        return {"allowed": any((who, asked["resource"], n) in self.allowed for who in _of(spec) for n in names)}


def _of(spec: Tree) -> list[str]:
    return [spec["user"], *spec["groups"]]


# What a gate gets to read of a request: a count at Envoy, or the AdmissionReview of the object that comes of it.


_APPLY = "application/apply-patch+yaml"


def reading(request: Request, observed: Observed | None) -> Reading:
    """``observed`` is what the request finds. As an API server does it, the webhook is shown whole objects."""
    found = read(request)
    if not isinstance(found, NotACount):
        return found
    old = document(found.ref, observed) if observed is not None else None
    body, content_type = json.loads(request.body), request.headers.get("content-type", "")
    if request.method == "PATCH" and old is None and content_type != _APPLY:
        return Unreadable("not-found", "an API server patches no object that is not there", found.ref)
    new = body if request.method != "PATCH" or old is None else patches.apply(old, content_type, body)
    if request.method == "POST":
        old = None
    named = {"name": found.ref.name} if found.ref.name else {}
    new = new | {"metadata": {"namespace": found.ref.namespace} | named | new.get("metadata", {})}
    asked = admission.read(json.dumps(review(found.ref, new, old, request.target)).encode())
    return asked.question.reading if isinstance(asked, admission.Review) else asked


def review(ref: WorkloadRef, new: Any, old: Any, target: str) -> dict[str, Any]:  # noqa: ANN401 (any object)
    """The AdmissionReview of an object that an API server is about to store in place of ``old``."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "resource": {"group": ref.group, "version": "v1", "resource": ref.resource},
        "name": ref.name,
        "namespace": ref.namespace,
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {},
        "object": new,
        "oldObject": old,
        "dryRun": routes.dry_run(target.partition("?")[2]),
    }
    return {"apiVersion": admission.API_VERSION, "kind": admission.KIND, "request": request}


def document(ref: WorkloadRef, observed: Observed) -> dict[str, Any]:
    """The object of which so much was kept."""
    metadata: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace, "labels": labels_dict(observed.labels)}
    named = {"uid": observed.uid, "resourceVersion": observed.resource_version}
    metadata |= {key: value for key, value in named.items() if value}
    if observed.owner is not None:
        group, kind, name, uid = observed.owner
        api = f"{group}/v1" if group else "v1"
        metadata["ownerReferences"] = [{"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True}]
    spec: dict[str, Any] = {"replicas": observed.replicas}
    if observed.selector:
        spec["selector"] = {"matchLabels": labels_dict(observed.selector)}
    if observed.template is not None:
        spec |= json.loads(observed.template.text)
    api = f"{ref.group}/v1" if ref.group else "v1"
    return {"apiVersion": api, "kind": BY_KEY[ref[:2]].name, "metadata": metadata, "spec": spec}
