"""What senders of single requests need of a connection. A stand-in can be one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from extauthz.core.model import Tree


class Calls(Protocol):
    """A ``connection.Connection`` without watches."""

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
        """Send one request. Raises ApiError and Unreachable."""


class Lists(Calls, Protocol):
    """The same, and it reads long lists."""

    async def items(self, path: str, take: Callable[[Tree], object], *, query: Sequence[tuple[str, str]] = ()) -> Tree:
        """Hand the items of a List to ``take`` one by one. Raises ApiError and Unreachable."""
