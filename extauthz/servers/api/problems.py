"""Errors of the API as RFC 9457 has them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

CONTENT_TYPE = "application/problem+json"


class Problem(Exception):  # noqa: N818 (the word of RFC 9457)
    """A question that cannot be answered. ``detail`` names the field and the cure."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail

    def shown(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": self.detail}
