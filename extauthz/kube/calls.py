"""What those who send single requests want of a connection, so that a stand-in can be one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from extauthz.core.model import Tree


class Calls(Protocol):
    """What of ``connection.Connection`` is no watch."""

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
