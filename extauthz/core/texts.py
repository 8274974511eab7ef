"""Bounds texts of clients before they are shown in a log line or an answer."""

from __future__ import annotations

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
