"""What a peer may cost. Each bound names who has the same; docs/internals/limits.md has them as a table.

RFC 9113 §10.5 lists what a peer may do to waste the other's memory and processor, and leaves the bounds to who serves.
"""

from __future__ import annotations

from dataclasses import dataclass


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
