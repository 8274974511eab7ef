"""A client of another make for the pure ``Connection``: the package h2, and frames of hyperframe for what h2 would not
send. No sockets: bytes go from one to the other by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import h2.events as h2_events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import Settings
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

from extauthz.serve.rpc.connection import Connection
from extauthz.serve.rpc.frames import Bounds
from extauthz.serve.rpc.heads import Call, Methods, Sink, Streaming, Unary
from extauthz.serve.rpc.streams import Asked, Event, Message, Opened

UNARY, SINK, BIDI = "/a.Test/Unary", "/a.Test/Sink", "/a.Test/Bidi"


async def nothing(_: Call) -> None:
    """The pure machine runs no handlers."""


METHODS: Methods = {UNARY: Unary(lambda message, _: message), SINK: Sink(lambda _: None), BIDI: Streaming(nothing)}


def head(path: str = UNARY, **more: str) -> list[tuple[str, str]]:
    """That of a call; an underscore in a name stands for a dash, and ``""`` leaves a field out."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "gate",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    fields |= {name.replace("_", "-"): value for name, value in more.items()}
    return [(name, value) for name, value in fields.items() if value]


def prefixed(message: bytes, compressed: int = 0) -> bytes:
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message


def parsed(data: bytes) -> list[Frame]:
    """Whole frames, by hyperframe."""
    found, at = [], 0
    while at < len(data):
        frame, length = Frame.parse_frame_header(memoryview(data[at : at + 9]))
        frame.parse_body(memoryview(data[at + 9 : at + 9 + length]))
        found.append(frame)
        at += 9 + length
    return found


class Answer:
    """What the client got of one call."""

    def __init__(self) -> None:
        self.heads: list[dict[str, str]] = []
        self.data = b""
        self.trailers: dict[str, str] = {}
        self.ended = False
        self.reset: int | None = None

    @property
    def messages(self) -> list[bytes]:
        rest, found = self.data, []
        while rest:
            size = int.from_bytes(rest[1:5], "big")
            assert rest[0] == 0
            found.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return found

    @property
    def status(self) -> str | None:
        return (self.trailers or (self.heads[0] if self.heads else {})).get("grpc-status")

    @property
    def text(self) -> str:
        return (self.trailers or self.heads[0]).get("grpc-message", "")


class Peer:
    """An h2 client and a ``Connection`` under test.

    Args:
        echo: whether unary calls are answered with their message at once, as a server with one handler does.
        cut: how what the client sends is cut: sizes in turn.
    """

    def __init__(
        self,
        bounds: Bounds | None = None,
        *,
        echo: bool = True,
        cut: Iterable[int] = (),
        settings: Mapping[int, int] | None = None,
    ) -> None:
        self.connection = Connection(METHODS, bounds or Bounds())
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        if settings:
            self.h2.local_settings = Settings(client=True, initial_values=dict(settings))
        self.h2.initiate_connection()
        self.echo = echo
        self.now_s = 0.0
        self._cut = list(cut)
        self.answers: dict[int, Answer] = defaultdict(Answer)
        self.events: list[Event] = []
        self.goaways: list[h2_events.ConnectionTerminated] = []
        self.other: list[h2_events.Event] = []
        self.exchange()

    def call(self, *messages: bytes, path: str = UNARY, end: bool = True, **more: str) -> int:
        """Begin a call, as far as the windows allow; its stream."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, head(path, **more), end_stream=end and not messages)
        for number, message in enumerate(messages):
            self.data(stream, prefixed(message), end=end and number == len(messages) - 1)
        return stream

    def data(self, stream: int, raw: bytes, *, end: bool = False) -> None:
        """Send DATA, of any length; what the client's windows do not let through is an error of the test."""
        while len(raw) > 16_384:
            self.h2.send_data(stream, raw[:16_384])
            raw = raw[16_384:]
            if self.h2.local_flow_control_window(stream) < 16_384 * 2:
                self.exchange()
        self.h2.send_data(stream, raw, end_stream=end)

    def exchange(self) -> None:
        """Bytes go to and fro until both have said everything."""
        while True:
            said = self.h2.data_to_send()
            for part in self._parts(said):
                self._handle(self.connection.feed(part, self.now_s))
            answered = self.connection.pending_bytes()
            if not said and not answered:
                return
            self._hear(self.h2.receive_data(answered))

    def raw(self, *frames: Frame | bytes) -> None:
        """Frames that h2 would not send."""
        self.exchange()
        for one in frames:
            self._handle(self.connection.feed(one if isinstance(one, bytes) else one.serialize(), self.now_s))
        self.hear()

    def hear(self) -> None:
        """What the connection has to say goes to the client, and what that says to it goes back."""
        answered = self.connection.pending_bytes()
        if answered:
            self._hear(self.h2.receive_data(answered))
        if not self.goaways:
            self.exchange()

    def _parts(self, data: bytes) -> Iterable[bytes]:
        at = 0
        while at < len(data):
            size = self._cut[0] if self._cut else len(data)
            self._cut = self._cut[1:] + self._cut[:1]
            yield data[at : at + size]
            at += size

    def _handle(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, Asked) and self.echo and self.connection.is_open(event.stream):
                answer = event.method.answer(event.message, event.timeout_s)
                assert isinstance(answer, bytes)
                self.connection.answer(event.stream, answer)

    def of(self, kind: type) -> list:
        """The events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def came(self, stream: int) -> list[bytes]:
        """The messages of an opened call."""
        return [event.message for event in self.of(Message) if event.stream == stream]

    def opened(self) -> list[Opened]:
        return self.of(Opened)

    def _hear(self, events: list[h2_events.Event]) -> None:
        for event in events:
            if isinstance(event, h2_events.ResponseReceived):
                self.answers[event.stream_id].heads.append(dict(event.headers))
            elif isinstance(event, h2_events.TrailersReceived):
                self.answers[event.stream_id].trailers = dict(event.headers)
            elif isinstance(event, h2_events.DataReceived):
                self.answers[event.stream_id].data += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2_events.StreamEnded):
                self.answers[event.stream_id].ended = True
            elif isinstance(event, h2_events.StreamReset):
                self.answers[event.stream_id].reset = event.error_code
            elif isinstance(event, h2_events.ConnectionTerminated):
                self.goaways.append(event)
            else:
                self.other.append(event)


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
