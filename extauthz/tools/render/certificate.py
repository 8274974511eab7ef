"""``extauthz render certificate``: one certificate and its key as files, from an authority in the same folder.

It stands where a cluster has no cert-manager. Who runs it again renews it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from extauthz.serve.selfsigned import issuing
from extauthz.serve.selfsigned.issuing import BrokenError, Pair

AUTHORITY: Final = "extauthz CA"
AUTHORITY_LASTS: Final = timedelta(days=3650)
"""Whoever trusts it learns of another only by a restart."""
LONGEST: Final = 64
"""Characters of a common name (RFC 5280, ub-common-name)."""


def made(file: Path, names: Sequence[str], days: int) -> str:
    """Write ``FILE.crt`` and ``FILE.key``, and ``ca.crt`` and ``ca.key`` beside them where there are none.

    Args:
        names: DNS names and addresses that a server has; none: it is a client's.

    Returns:
        What was made, in a line.

    Raises:
        ValueError: a file cannot be read or written, or there is half of an authority.
    """
    _check_name(file.name)
    now = datetime.now(UTC)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        signer = _authority(file.with_name("ca"), now)
        issued = issuing.issued(signer, file.name, names, now, timedelta(days=days))
        _write(file, issued)
    except OSError as error:
        raise ValueError(f"{error.filename or file}: {error.strerror}") from None
    ends = issued.certificate.not_valid_after_utc
    of = f"a server named {' and '.join(names)}" if names else "a client"
    return f"{file}.crt and {file}.key: for {of}, till {ends:%Y-%m-%d}, signed by {file.with_name('ca.crt')}\n"


def _check_name(name: str) -> None:
    """Raises ValueError."""
    if name.lower() == "ca":
        raise ValueError(f"{name} is the authority's own name; choose another one")
    if Path(name).suffix in (".crt", ".key") or not 0 < len(name) <= LONGEST:
        raise ValueError(f"{name}: say FOLDER/NAME, without .crt, the name of at most {LONGEST} characters")


def _authority(file: Path, now: datetime) -> Pair:
    chain, key = file.with_suffix(".crt"), file.with_suffix(".key")
    if not chain.exists() and not key.exists():
        found = issuing.authority(now, AUTHORITY_LASTS, AUTHORITY)
        _write(file, found)
        return found
    try:
        found = issuing.pair(x509.load_pem_x509_certificate(chain.read_bytes()), key.read_bytes(), str(file))
    except (BrokenError, ValueError, TypeError) as error:
        raise ValueError(f"{chain} and {key} are no authority with an elliptic curve's key: {error}") from None
    if not _may_sign(found):
        raise ValueError(f"{chain} is no authority: it may not sign; move it away with {key}, and another is made")
    if found.certificate.not_valid_after_utc <= now:
        raise ValueError(f"{chain} has expired; move it away with {key}, and another is made")
    return found


def _may_sign(pair: Pair) -> bool:
    try:
        return pair.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _write(file: Path, pair: Pair) -> None:
    """Both are moved into their place once both are written: Envoy watches for that, and reads no half of a file."""
    texts = dict(zip((".crt", ".key"), pair.pem, strict=True))
    beside = {suffix: file.with_name(f".{file.name}{suffix}") for suffix in texts}
    for suffix, text in texts.items():
        beside[suffix].unlink(missing_ok=True)
        mode = 0o600 if suffix == ".key" else 0o644
        with os.fdopen(os.open(beside[suffix], os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as to:
            to.write(text)
    for suffix, written in beside.items():
        written.replace(file.with_name(f"{file.name}{suffix}"))
