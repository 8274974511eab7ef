"""How frames are spelled: RFC 9113 §4.1 (frame), §6 (types), §7 (error codes)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first (RFC 9113 §3.4)."""

HEAD: Final = struct.Struct(">HBBBI")
"""Length in two parts (16 and 8 bits), type, flags, stream. The highest bit of the last is reserved: see ``STREAM``."""

HEAD_BYTES: Final = 9
STREAM: Final = 0x7FFF_FFFF
"""The bits of a stream's number, and the highest one."""

LARGEST_WINDOW: Final = 0x7FFF_FFFF
"""§6.9.1."""

FIRST_WINDOW: Final = 65_535
"""Of a connection, and of a stream unless SETTINGS say otherwise (RFC 9113 §6.9.2)."""

FRAME_BYTES: Final = 16_384
"""The longest payload unless SETTINGS say otherwise (RFC 9113 §4.2). This server never does."""


class Kind(IntEnum):
    """§6."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20


class Setting(IntEnum):
    """§6.5.2."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Error(IntEnum):
    """§7."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class BadConnectionError(Exception):
    """The peer broke a rule of the whole connection (RFC 9113 §5.4.1), or a bound: it ends with a GOAWAY."""

    def __init__(self, code: Error, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


class BadStreamError(Exception):
    """The peer broke a rule of one stream (RFC 9113 §5.4.2): that ends with a RST_STREAM."""

    def __init__(self, stream: int, code: Error) -> None:
        super().__init__(stream, code)
        self.stream = stream
        self.code = code


def frame(kind: Kind, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame. ``payload`` of at most ``FRAME_BYTES`` unless the peer allows more."""
    length = len(payload)
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def settings(values: Mapping[Setting, int]) -> bytes:
    """What this end tells of itself."""
    return frame(Kind.SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in values.items()))


def window_update(stream: int, increment: int) -> bytes:
    """So many bytes more may come: of a stream, or with 0 of the connection (RFC 9113 §6.9)."""
    return frame(Kind.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def rst_stream(stream: int, code: Error) -> bytes:
    """The end of a stream (RFC 9113 §6.4)."""
    return frame(Kind.RST_STREAM, 0, stream, int(code).to_bytes(4, "big"))


def goaway(last: int, code: Error, why: str = "") -> bytes:
    """No stream above ``last`` is answered (RFC 9113 §6.8)."""
    return frame(Kind.GOAWAY, 0, 0, struct.pack(">II", last, code) + why.encode()[:128])


def unpadded(flags: int, payload: bytes) -> bytes:
    """What DATA and HEADERS carry without their padding (RFC 9113 §6.1, §6.2).

    Raises:
        BadConnectionError: the padding is as long as what there is.
    """
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise BadConnectionError(Error.PROTOCOL_ERROR, "the padding is longer than the frame")
    return payload[1 : len(payload) - payload[0]]
