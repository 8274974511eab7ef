"""Signs a notice: HMAC-SHA256 over ``id.timestamp.body``, in the headers of Standard Webhooks 1.0.

Source: standard-webhooks, ``spec/standard-webhooks.md`` ("Signature scheme").
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from extauthz.notify.receivers import ReceiverError

PREFIX: Final = "whsec_"
"""Before a key in base64. A key without it is taken as it is written."""

LEAST_BYTES: Final = 24
"""Of a key, as Standard Webhooks has it."""

MOST_KEYS: Final = 4
"""A new key and an old one, while receivers learn the new one."""


def read_keys(path: Path) -> tuple[bytes, ...]:
    """The keys of a file, one a line. With several, there is a signature by each.

    Raises:
        ReceiverError: it cannot be read, or holds no good key.
    """
    try:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ReceiverError(f"{path}: {why}; put a key there, as `openssl rand -base64 32` prints one") from None
    if not 1 <= len(lines) <= MOST_KEYS:
        raise ReceiverError(f"{path}: holds {len(lines)} keys; write one a line, at most {MOST_KEYS}")
    return tuple(_key(line, path) for line in lines)


def headers(keys: Sequence[bytes], notice_id: str, time_s: float, body: bytes) -> dict[str, str]:
    """The three headers; without keys, those that say which notice it is and when it was sent."""
    timestamp = str(int(time_s))
    said = {"webhook-id": notice_id, "webhook-timestamp": timestamp}
    if keys:
        text = f"{notice_id}.{timestamp}.".encode() + body
        said["webhook-signature"] = " ".join(f"v1,{_mac(key, text)}" for key in keys)
    return said


def _mac(key: bytes, text: bytes) -> str:
    return base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def _key(line: str, path: Path) -> bytes:
    key = line.encode()
    if line.startswith(PREFIX):
        try:
            key = base64.b64decode(line.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise ReceiverError(f"{path}: what follows {PREFIX} is no base64") from None
    if len(key) < LEAST_BYTES:
        raise ReceiverError(f"{path}: a key has at least {LEAST_BYTES} bytes; `openssl rand -base64 32` prints one")
    return key
