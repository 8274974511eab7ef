"""The recorded requests that the demo sends, and the few that it makes from them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

NOT_SENT = ("content-length", "x-request-id", "x-forwarded-proto")
"""Belong to the way that a request came by when it was recorded."""


@dataclass(frozen=True)
class Recording:
    """One request as a real client sent it."""

    client: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def precondition(self) -> dict[str, str]:
        """``resourceVersion`` and ``uid`` that the client asks the API server to verify, if it does."""
        if not self.body.startswith(b"{"):
            return {}
        metadata = json.loads(self.body).get("metadata", {})
        return {key: metadata[key] for key in ("resourceVersion", "uid") if key in metadata}

    def changed(self, *, path: str | None = None, body: bytes | None = None) -> Recording:
        """The same client asking for something else."""
        return replace(self, path=path or self.path, body=self.body if body is None else body)


@cache
def _all() -> tuple[Recording, ...]:
    text = (files(__package__) / "recorded.jsonl").read_text()
    return tuple(_recording(json.loads(line)) for line in text.splitlines())


def _recording(line: dict[str, Any]) -> Recording:
    headers = {k: v for k, v in line["headers"].items() if not k.startswith(":") and k not in NOT_SENT}
    body = line["body"].encode() if "body" in line else base64.b64decode(line["body_base64"])
    return Recording(line["client"], line["method"], line["path"], headers, body)


def find(client: str, wanted: str) -> Recording:
    """The one recording of a client (the beginning of its name) whose path or body holds a text."""
    [found] = (
        one for one in _all() if one.client.startswith(client) and (wanted in one.path or wanted.encode() in one.body)
    )
    return found
