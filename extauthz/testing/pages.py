"""Fetches a page over HTTP."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request


def page(url: str, *, within_s: float = 5.0, context: ssl.SSLContext | None = None) -> str:
    """Its text.

    Args:
        within_s: how long the server may say nothing.
        context: for https.

    Raises:
        OSError: it does not answer, or not with 200: an ``HTTPError``, which is closed and has no body any more.
    """
    try:
        with urllib.request.urlopen(url, timeout=within_s, context=context) as answer:
            return bytes(answer.read()).decode()
    except urllib.error.HTTPError as error:
        error.close()  # it is also the answer, and open
        raise
