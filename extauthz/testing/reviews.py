"""A stand-in for the part of an API server that judges people: TokenReview and SubjectAccessReview.

``tests/controlplane/test_api.py`` asks a real one the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from extauthz.kube.connection import ApiError, Unreachable
from extauthz.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS

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
