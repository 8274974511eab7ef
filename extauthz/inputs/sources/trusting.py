"""Whom a client of HTTPS trusts, and what it shows."""

from __future__ import annotations

import ssl
from pathlib import Path


class Trusting:
    """TLS towards a server, by files of authorities and, if there is one, a client certificate and its key; without
    files as the system has it."""

    def __init__(self, ca: Path | None, cert: Path | None = None, key: Path | None = None) -> None:
        self._ca, self._cert, self._key = ca, cert, key
        self._made: ssl.SSLContext | bool = True
        self._made_of: list[tuple[float, int]] = []

    def context(self) -> ssl.SSLContext | bool:
        """Made again when one of the files has changed: certificates are renewed in place. Raises OSError."""
        stats = [path.stat() for path in (self._ca, self._cert, self._key) if path is not None]
        if (made_of := [(one.st_mtime, one.st_ino) for one in stats]) != self._made_of:
            context = ssl.create_default_context(cafile=self._ca)
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 asks for more than Go and many an authority
            if self._cert is not None:
                context.load_cert_chain(self._cert, self._key)
            self._made, self._made_of = context, made_of
        return self._made
