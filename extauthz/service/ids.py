"""Ids of decisions."""

from __future__ import annotations

import secrets


def new_id() -> str:
    """64 random bits in hex that nobody can guess: an access log that names an id may end its pending write."""
    return secrets.token_hex(8)
