"""What a server is told that can change a write before it is decided (mode Clamp, docs/modes.md)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from extauthz.core.model import Question, Request


class Lowered(NamedTuple):
    """A write that is asked for with fewer replicas."""

    replicas: int
    warning: str
    """For whoever sends it, if he is told anything."""
    body: bytes = b""
    """What to send in place of the body that came; of a question none."""


class Lower(Protocol):
    """Answers with ``None`` what is to be left as it is. Must neither block nor raise, and charges nothing."""

    def body(self, request: Request) -> Awaitable[Lowered | None]:
        """Of a request whose body the server can change."""

    def review(self, question: Question) -> Awaitable[Lowered | None]:
        """Of an object that the API server is about to store."""
