"""The status of a call, and how gRPC spells it in trailers.

Codes: https://github.com/grpc/grpc/blob/master/doc/statuscodes.md. Spelling: PROTOCOL-HTTP2.md, "Responses".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final
from urllib.parse import quote


class Code(IntEnum):
    """Those that this server itself gives; a handler may give any."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class StatusError(Exception):
    """A call ends with this status. The text reaches the client."""

    def __init__(self, code: Code, text: str = "") -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


LONGEST: Final = 256
"""Characters of a text. A client needs no more to know what was wrong."""

_PLAIN: Final = "".join(chr(one) for one in range(0x20, 0x7F) if chr(one) != "%")
"""``grpc-message`` is percent-encoded, but for printable ASCII."""


def trailers(code: Code, text: str = "") -> tuple[tuple[str, str], ...]:
    """The fields that end a call."""
    fields = (("grpc-status", str(int(code))),)
    return (*fields, ("grpc-message", quote(text[:LONGEST], safe=_PLAIN, errors="replace"))) if text else fields
