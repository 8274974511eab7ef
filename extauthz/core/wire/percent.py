"""Percent-decoding as Go's ``net/url`` does it: strict about what follows ``%``, where Python lets it stand."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class PercentError(ValueError):
    """``%`` is not followed by two hexadecimal digits; Go refuses the whole text (``url.EscapeError``)."""


def unquote(text: str) -> str:
    """Decodes every escape. Bytes that are not UTF-8 come out as lone surrogates (``surrogateescape``)."""
    if "%" not in text:
        return text
    if _BAD_ESCAPE.search(text):
        raise PercentError(text)
    return unquote_to_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")
