"""What gates that share a ledger tell each other: the content of one ledger object, as text.

Opaque to all but gates: zlib over JSON, in base64, so that 2,000 writes under way take some 100 KiB.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from extauthz.core.ledger.record import Record

FORMAT = 1

MAX_TEXT_BYTES = 512 * 1024
"""DESIGN §6. etcd takes 1.5 MiB, and every write of the object sends all of it."""

MAX_JSON_BYTES = 64 * 1024 * 1024
"""What a text may unpack to, so that nobody who may write the object can exhaust a gate."""


class PayloadError(ValueError):
    """A text is no payload. The gate then knows nothing of that ledger, as if it were missing."""


class TooLargeError(ValueError):
    """Too many intents for one object."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The content of the ledger of one root quota."""

    intents: Mapping[str, Record] = field(default_factory=dict)
    """By id."""
    watermark: Mapping[str, int] = field(default_factory=dict)
    """``deployments.apps`` to the latest resourceVersion that a writer has seen of it. Who has not come as far knows
    less than what its writes rest on (DESIGN §6.8)."""
    quotas: tuple[str, ...] = ()
    """Names of the quotas that count here, sorted. One that moves to another root must leave here first."""
    holds: bool = False
    """Made anew: writes that an earlier ledger has known may still land (DESIGN §6.11)."""


def encode(payload: Payload) -> str:
    """The text of a payload.

    Raises:
        TooLargeError: it would be longer than ``MAX_TEXT_BYTES``.
    """
    tree = {
        "format": FORMAT,
        "intents": dict(payload.intents),
        "watermark": dict(payload.watermark),
        "quotas": list(payload.quotas),
        "holds": payload.holds,
    }
    text = base64.b64encode(zlib.compress(json.dumps(tree, separators=(",", ":")).encode(), level=1)).decode()
    if len(text) > MAX_TEXT_BYTES:
        raise TooLargeError(f"{len(payload.intents)} writes under way take {len(text)} bytes; {MAX_TEXT_BYTES} fit")
    return text


def decode(text: str) -> Payload:
    """The payload of a text.

    Raises:
        PayloadError: ``text`` is not one that ``encode`` wrote, or of a format to come.
    """
    try:
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(base64.b64decode(text, validate=True), MAX_JSON_BYTES)
        if not unpacking.eof:
            raise PayloadError("it is cut short, or far too long")
        tree = json.loads(raw)
        if tree["format"] != FORMAT:
            raise PayloadError(f"its format is {tree['format']!r}; this gate writes {FORMAT}: run one release of it")
        return Payload(
            intents={str(key): dict(record) for key, record in tree["intents"].items()},
            watermark={str(kind): int(version) for kind, version in tree["watermark"].items()},
            quotas=tuple(map(str, tree["quotas"])),
            holds=bool(tree["holds"]),
        )
    except (binascii.Error, zlib.error, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PayloadError(repr(error)) from error
    except ValueError as error:
        raise PayloadError(str(error)) from error
