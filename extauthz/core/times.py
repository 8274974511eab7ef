"""Times of RFC 3339."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def seconds(text: str) -> float | None:
    """A time with its zone, in seconds since 1970; ``None``: it is none."""
    if not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except ValueError:
        return None  # no such day or hour


def stamp(at_s: float, to: str = "milliseconds") -> str:
    """The same as text, in UTC. ``to``: ``seconds`` or ``milliseconds``."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec=to).replace("+00:00", "Z")
