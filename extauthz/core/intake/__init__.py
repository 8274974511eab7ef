"""HTTP request → ``Write``, ``NotAWrite`` or ``Unreadable``: what a request means, read as the API server reads it."""

from __future__ import annotations

from .read import read
from .resolve import resolve

__all__ = ["read", "resolve"]
