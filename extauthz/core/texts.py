"""Bounds texts of clients before they are shown in a log line or an answer."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Protocol

MAX_NAME = 256
"""Characters kept of a name. The API server takes none of more than 253 (RFC 1123 subdomains)."""

MAX_SENTENCE = 1024
"""Characters kept of a sentence, as many as an event's note may have (``k8s.io/api/events/v1``)."""

MARK = "…"
"""Ends a text that was cut."""


def cut(text: str, most: int) -> str:
    """At most so many characters; a longer text ends with the mark.

    >>> cut("production", 5)
    'prod…'
    """
    return text if len(text) <= most else text[: most - len(MARK)] + MARK


# Times of RFC 3339.

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


class Tell(Protocol):
    """Writes a line to the gate's log."""

    def __call__(self, level: str, event: str, **fields: object) -> None: ...
