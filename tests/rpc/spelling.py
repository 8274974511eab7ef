"""Frames spelled by hand, and floods of them."""

from __future__ import annotations

from collections.abc import Callable

from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.rpc.client import UNARY, head


def block(path: str = UNARY, **more: str) -> bytes:
    """The head of a call, encoded without a table."""
    return Encoder().encode([(name, value, True) for name, value in head(path, **more)])


def headers(stream: int, encoded: bytes | None = None, flags: tuple[str, ...] = ("END_HEADERS",), **more):
    """One frame with a head."""
    return HeadersFrame(stream, block() if encoded is None else encoded, flags=list(flags), **more)


def spelled(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame that hyperframe would not make."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def raw(frame: Frame | bytes) -> bytes:
    """Its bytes."""
    return frame if isinstance(frame, bytes) else frame.serialize()


def setting(name: int, value: int) -> SettingsFrame:
    return SettingsFrame(0, settings={name: value})


FLOODS: dict[str, Callable[[int], list[Frame | bytes]]] = {
    "rapid resets (CVE-2023-44487)": lambda n: [headers(2 * n + 1), RstStreamFrame(2 * n + 1, 8)],
    "resets asked for (CVE-2025-8671)": lambda n: [headers(2 * n + 1), spelled(8, 0, 2 * n + 1, bytes(4))],
    "malformed heads": lambda n: [headers(2 * n + 1, Encoder().encode([(":path", "/")]))],
    "pings (CVE-2019-9512)": lambda n: [PingFrame(0, bytes(8))],
    "settings (CVE-2019-9515)": lambda n: [setting(4, 100 + n)],
    "acknowledgements": lambda n: [SettingsFrame(0, flags=["ACK"])],
    "empty data (CVE-2019-9518)": lambda n: [headers(1)] * (not n) + [DataFrame(1, b"")],
    "empty continuations (CVE-2024-27316)": lambda n: [headers(1, block(), ())] * (not n) + [ContinuationFrame(1, b"")],
    "priorities (CVE-2019-9513)": lambda n: [PriorityFrame(1, depends_on=3 + 2 * n)],
    "windows of a byte (CVE-2019-9511)": lambda n: [WindowUpdateFrame(0, 1)],
    "windows of an answered call": lambda n: [headers(1, b"\x82")] * (not n) + [WindowUpdateFrame(1, 1)],
    "unknown frames": lambda n: [spelled(0xAA, 0, 0, b"")],
    "farewells": lambda n: [GoAwayFrame(0)],
}
"""The n-th frames of an attack."""
