"""Ids of decisions."""

from __future__ import annotations

import secrets
from typing import Final

_DRAWN: Final[list[str]] = []


def new_id() -> str:
    """64 random bits in hex that nobody can guess: an access log that names an id may end its pending write.

    The kernel is asked for many at once.
    """
    if not _DRAWN:
        drawn = secrets.token_hex(8 * 256)
        _DRAWN.extend(drawn[at : at + 16] for at in range(0, len(drawn), 16))
    return _DRAWN.pop()
