"""The content of the ledger object that gates share, as text.

Opaque to all but gates: zlib over lines, in base64. The first line is a JSON header; then come pod templates and
labels, each once, by their hash; then the pending writes, a line each. A gate parses only the lines that are new to it.

Times are on the *ledger's clock*, in milliseconds: whoever writes the object moves it on by the time since it saw the
object before. So it never runs ahead of real time, and it goes on through any number of restarts of gates.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from extauthz.core.ledger.entry import PendingWrite

FORMAT = 3

MAX_TEXT_BYTES = 512 * 1024
"""etcd takes 1.5 MiB. Every write of the object sends all of it."""

GROWTH_TEXT_BYTES = 384 * 1024
"""So long may growth make it. The rest is for what takes no room in quotas: that is never refused for want of it."""

MAX_LINES_BYTES = 16 * 1024 * 1024
"""How long an unpacked text may be. Else somebody who may write the object could exhaust a gate."""


class PayloadError(ValueError):
    """A text is no payload. What the gate knows of the ledger stays."""


class OtherFormatError(PayloadError):
    """A gate of another release wrote it."""


class TooLargeError(ValueError):
    """Too many pending writes for one object."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The content of the ledger object."""

    pending_writes: Mapping[str, str] = field(default_factory=dict)
    """Pending writes by id, each as ``record.dump`` has it."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Templates and labels that they name, by hash (``lines``)."""
    watermark: Mapping[str, int] = field(default_factory=dict)
    """``deployments.apps`` to the latest resourceVersion that a writer has seen of it. Who has not come as far knows
    less than what its writes rest on (docs/internals/ledger.md)."""
    clock_ms: int = 0
    """The ledger's clock, when this was written."""
    holds: bool = False
    """The object was made again: writes that an earlier ledger had may still land."""
    hold_ends_ms: int = 0
    """When they no longer can land, on the ledger's clock."""
    line: Mapping[str, str] | None = None
    """Who waits for room (``core.ledger.line``); ``None``: its writer knows of no quota that has turns."""


def encode(payload: Payload, most: int = MAX_TEXT_BYTES) -> str:
    """The text of a payload.

    Raises:
        TooLargeError: it would be longer than ``most`` bytes.
    """
    header = {
        "format": FORMAT,
        "clock_ms": payload.clock_ms,
        "holds": payload.holds,
        "hold_ends_ms": payload.hold_ends_ms,
        "watermark": dict(payload.watermark),
        "texts": len(payload.texts),
    }
    if payload.line is not None:
        header["line"] = dict(payload.line)
    lines = [json.dumps(header, separators=(",", ":"))]
    lines += [f"{key} {text}" for table in (payload.texts, payload.pending_writes) for key, text in table.items()]
    text = base64.b64encode(zlib.compress("\n".join(lines).encode(), level=1)).decode()
    if len(text) > most:
        raise TooLargeError(f"{len(payload.pending_writes)} pending writes take {len(text)} bytes; {most} fit")
    return text


def decode(text: str) -> Payload:
    """The payload of a text. The lines of the writes are not parsed.

    Raises:
        PayloadError: ``text`` is not one that ``encode`` wrote.
        OtherFormatError: it is of another release.
    """
    try:
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(base64.b64decode(text, validate=True), MAX_LINES_BYTES)
        if not unpacking.eof:
            raise PayloadError("it is cut short, or far too long")
        first, *lines = raw.decode().split("\n")
        return _read(json.loads(first), lines)
    except PayloadError:
        raise
    except ValueError as error:
        raise PayloadError(str(error)) from error
    except (zlib.error, LookupError, ArithmeticError, TypeError, AttributeError, RecursionError) as error:
        raise PayloadError(repr(error)) from error


def _read(header: Mapping[str, object], lines: list[str]) -> Payload:
    found = header["format"]
    if found != FORMAT:
        raise OtherFormatError(f"its format is {found!r}; this gate writes {FORMAT}: run one release of it")
    count, watermark = header["texts"], header["watermark"]
    if not isinstance(count, int) or not isinstance(watermark, dict) or not 0 <= count <= len(lines):
        raise PayloadError("its header is not as gates write it")
    texts, pending_writes = dict(map(_pair, lines[:count])), dict(map(_pair, lines[count:]))
    return Payload(
        texts=texts,
        pending_writes=pending_writes,
        watermark={str(kind): int(version) for kind, version in watermark.items()},
        clock_ms=_whole(header["clock_ms"]),
        holds=bool(header["holds"]),
        hold_ends_ms=_whole(header["hold_ends_ms"]),
        line=_line(header.get("line")),
    )


def _line(found: object) -> dict[str, str] | None:
    return {str(key): str(text) for key, text in found.items()} if isinstance(found, dict) else None


def _pair(line: str) -> tuple[str, str]:
    key, space, value = line.partition(" ")
    if not space:
        raise PayloadError("a line has no name")
    return key, value


def _whole(value: object) -> int:
    if type(value) is not int or abs(value) >= 2**53:
        raise PayloadError("a time is none")
    return value


# The lines of the ledger object: one for each pending write.
#
# Templates and labels are long, and alike where many objects are made together. So a line names them by their hashes,
# and each of these texts is kept once, with a mark in place of the workload's name.

KEPT_ONCE: Final = ("templates", "labels")

_NAME: Final = "\0"
"""Stands for the name. No JSON text and no label has it."""


class Line(NamedTuple):
    """A pending write as the object has it."""

    text: str
    texts: Mapping[str, str]
    """Those that it names, by hash."""
    tenants: frozenset[str]
    expires_s: float
    """On the clock of the gate that holds the line."""
    renewed: int

    def says_less_than(self, pending_write: PendingWrite) -> bool:
        """Whether it no longer says all of a pending write.

        A renewal counts even if it adds no time here: where the write was allowed, it may end sooner.
        """
        return pending_write.expires_s > self.expires_s or pending_write.renewed > self.renewed


def pack(tree: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The line of a record, and the texts that it names."""
    line, name = dict(tree), tree["workload"][3]
    texts: dict[str, str] = {}
    for key in KEPT_ONCE:
        if key in line:
            shared = [text.replace(name, _NAME) for text in line[key]]
            line[key] = [hashlib.blake2b(text.encode(), digest_size=12).hexdigest() for text in shared]
            texts |= zip(line[key], shared, strict=True)
    return json.dumps(line, separators=(",", ":")), texts


def unpack(text: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """The record of a line. Raises KeyError, TypeError, ValueError, RecursionError."""
    line = json.loads(text)
    named = {key: [texts[one].replace(_NAME, line["workload"][3]) for one in line.get(key, ())] for key in KEPT_ONCE}
    return {**line, **named}
