"""How frames are spelled: RFC 9113 §4.1 (frame), §6 (types), §7 (error codes)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
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


class FrameType(IntEnum):
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


def frame(kind: FrameType, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame. ``payload`` of at most ``FRAME_BYTES`` unless the peer allows more."""
    length = len(payload)
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def settings(values: Mapping[Setting, int]) -> bytes:
    """What this end tells of itself."""
    return frame(FrameType.SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in values.items()))


def window_update(stream: int, increment: int) -> bytes:
    """So many bytes more may come: of a stream, or with 0 of the connection (RFC 9113 §6.9)."""
    return frame(FrameType.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def rst_stream(stream: int, code: Error) -> bytes:
    """The end of a stream (RFC 9113 §6.4)."""
    return frame(FrameType.RST_STREAM, 0, stream, int(code).to_bytes(4, "big"))


def goaway(last: int, code: Error, why: str = "") -> bytes:
    """No stream above ``last`` is answered (RFC 9113 §6.8)."""
    return frame(FrameType.GOAWAY, 0, 0, struct.pack(">II", last, code) + why.encode()[:128])


def unpadded(payload: bytes) -> bytes:
    """What DATA and HEADERS that are ``PADDED`` carry without their padding (RFC 9113 §6.1, §6.2).

    Raises:
        BadConnectionError: the padding is as long as what there is.
    """
    if not payload or payload[0] >= len(payload):
        raise BadConnectionError(Error.PROTOCOL_ERROR, "the padding is longer than the frame")
    return payload[1 : len(payload) - payload[0]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one connection. How many there may be, and how long each may be silent, is in ``accepting.Bounds``."""

    message_bytes: int = 4 << 20
    """The longest message; a longer one is RESOURCE_EXHAUSTED. gRPC's own default is the same 4 MiB."""

    streams: int = 1_024
    """Calls under way (SETTINGS_MAX_CONCURRENT_STREAMS). As many as Envoy's circuit breaker lets it ask at a time
    (``max_requests``, 1,024). One more gets REFUSED_STREAM."""

    unread_bytes: int = 32 << 20
    """Parts of messages, and whole ones that no handler has read yet, of all calls together. The call that needs more
    is RESOURCE_EXHAUSTED. Eight of the longest messages; a window alone would stop all calls for ever instead, where
    parts of many come in turn."""

    whole_s: float = 10.0
    """For the one message of a call to come whole, from its head: else DEADLINE_EXCEEDED. Envoy sends a check at
    once."""

    header_bytes: int = 16 << 10
    """A header block, with all its CONTINUATION frames, and what it decodes to, each field with 32 bytes more (RFC 7541
    §4.1). gRPC's hard limit is 16 KiB too (``grpc.absolute_max_metadata_size``). Without a bound: CVE-2024-27316
    (CONTINUATION flood), CVE-2016-6581 (HPACK bomb)."""

    idle_frames: int = 1_000
    """Frames that bring no call forward, in a row: RST_STREAM, PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA and
    CONTINUATION, unknown types, and those that make this end reset a stream. nghttp2 takes as many resets
    (``stream_reset_rate_limit``), Envoy as many control frames that wait (``max_outbound_control_frames``). Without a
    bound: CVE-2023-44487 (rapid reset), CVE-2025-8671 (resets that the server is made to send), CVE-2019-9512 (PING),
    CVE-2019-9514 (resets), CVE-2019-9515 (SETTINGS), CVE-2019-9518 (empty frames), CVE-2019-9513 (PRIORITY),
    CVE-2019-9511 (window of a byte)."""

    idle_frames_per_s: float = 33.0
    """So many come back each second (nghttp2's default for resets)."""

    idle_frames_per_call: int = 4
    """So many come back with each call that was sent whole and is answered: a client may cancel every second call, ping
    and open its window, for as long as it has calls answered. Envoy's rule is of this kind too: it ends a connection
    more than half of whose streams were reset early (``overload.premature_reset_total_stream_count``)."""


class Patience:
    """Counts frames that bring no call forward."""

    __slots__ = ("_left", "_most", "_per_s", "_since_s")

    def __init__(self, most: int, per_s: float) -> None:
        self._most = most
        self._per_s = per_s
        self._left = float(most)
        self._since_s: float | None = None
        """Time up to which frames have come back; ``None``: none were spent yet."""

    def spend(self, now_s: float) -> bool:
        """One more has come; whether that is within the bound. ``now_s`` on any clock that does not go back."""
        if self._since_s is None:
            self._since_s = now_s
        self._left -= 1
        if self._left < 0:
            self._left = min(self._most, self._left + (now_s - self._since_s) * self._per_s)
            self._since_s = now_s
        return self._left >= 0

    def earn(self, count: int) -> None:
        """So many come back."""
        self._left = min(self._most, self._left + count)
