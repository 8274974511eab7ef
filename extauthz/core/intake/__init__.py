"""An HTTP request or an AdmissionReview → ``Write``, ``NotAWrite``, ``NotACount`` or ``Unreadable``: what it means, as
the API server reads it.

In: method, path, headers and body. Out: one of the four, with a stable code where it cannot be read.
"""

from __future__ import annotations

from extauthz.core.intake.counts import read

__all__ = ["read"]
