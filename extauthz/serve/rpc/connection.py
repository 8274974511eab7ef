"""One connection of a gRPC server, without I/O and without a clock: bytes in, events out; answers in, bytes out.

    connection = Connection(methods, Bounds())
    write(connection.pending_bytes())
    for event in connection.feed(data, now_s): ...
        connection.answer(event.stream, message)
    write(connection.pending_bytes())

``feed`` never raises: what a peer does wrong ends a stream or the connection, as RFC 9113 §5.4 says. A call that has
ended for any reason is unknown from then on, and what is answered to it is dropped. After each step the caller writes
``pending_bytes``, and closes the connection where it is ``finished``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import inf
from typing import Final

from extauthz.serve.rpc import frames
from extauthz.serve.rpc.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    FRAME_BYTES,
    HEAD,
    HEAD_BYTES,
    LARGEST_WINDOW,
    PADDED,
    PREFACE,
    PRIORITY,
    BadConnectionError,
    BadStreamError,
    Bounds,
    Error,
    FrameType,
    Patience,
    Setting,
    frame,
)
from extauthz.serve.rpc.heads import (
    CONTENT_TYPE,
    EMPTY_TABLE,
    Code,
    Decoder,
    Head,
    Methods,
    Refusal,
    StatusError,
    Unary,
    block,
    trailers,
    trailers_only,
    well_formed,
)
from extauthz.serve.rpc.streams import (
    CODES,
    REACTIONS,
    Asked,
    Drained,
    Ended,
    Event,
    Gone,
    Message,
    Opened,
    Reaction,
    State,
    Stream,
)

_HEAD_BLOCK: Final = block(((":status", "200"), ("content-type", CONTENT_TYPE)))
_OK_BLOCK: Final = block(trailers(Code.OK))
_NO_METHOD: Final = trailers_only(Code.UNIMPLEMENTED, "there is no such method here")

_ANSWER: Final = struct.Struct(f">5sI{len(_HEAD_BLOCK)}sHBBBIBI")
"""The head of an answer as one frame, and the frame that its message goes into, with the message's own prefix."""
_ANSWER_HEAD: Final = frame(FrameType.HEADERS, END_HEADERS, 0, _HEAD_BLOCK)[:5]
_OK: Final = struct.Struct(f">5sI{len(_OK_BLOCK)}s")
"""The trailers of an answer as one frame."""
_OK_HEAD: Final = frame(FrameType.HEADERS, END_HEADERS | END_STREAM, 0, _OK_BLOCK)[:5]
_PREFIX: Final = struct.Struct(">BI")

WINDOW: Final = 4 << 20
"""Of the whole connection. What is read gives room again at once; ``Bounds.unread_bytes`` bounds what is kept."""

MESSAGE_BYTES: Final = 64
"""What Python keeps of a message that waits, beside its bytes: else many of one byte held six times their bound."""

STREAM_BYTES: Final = 1_024
"""What Python keeps of a call, beside its head and its messages."""

CUT: Final = 1_024
"""Of so many streams that were ended from here it is known that the client may not have heard of it yet."""

LEAVING: Final = b"leaving!"
"""The PING that tells when the client has heard of the GOAWAY before it (RFC 9113 §6.8)."""


class Connection:
    """The calls of one client.

    Args:
        methods: by path.
        bounds: what the client may cost.
    """

    def __init__(self, methods: Methods, bounds: Bounds) -> None:
        self._methods = methods
        self._bounds = bounds
        self._patience = Patience(bounds.idle_frames, bounds.idle_frames_per_s)
        self._decoder = Decoder(bounds.header_bytes)
        self._stream_window = 2 * bounds.message_bytes + FIRST_WINDOW
        """More than 4/3 of the longest message, as a quarter may be owed: else one could be stuck halfway."""
        self._now_s = 0.0
        self._events: list[Event] = []
        self._out = [self._greeting()]
        self._rest = b""
        """What has come and is not read: the beginning of a frame, or of the preface, or all that was too much."""
        self.has_more = False
        """Frames have come that were not read, as it was enough."""
        self._only: FrameType | None = FrameType.SETTINGS
        """What the next frame must be (RFC 9113 §3.4, §6.10): at first SETTINGS, within a header block CONTINUATION."""
        self._head: tuple[int, int, bytearray] = 0, 0, bytearray()
        """Stream, flags, and the block so far, of a head that goes on in CONTINUATION."""
        self._streams: dict[int, Stream] = {}
        """Those not yet answered in full."""
        self._waiting: dict[int, Stream] = {}
        """Those of which something is unsent, in the order in which they began to wait."""
        self._cut: dict[int, None] = {}
        self._last = 0
        """The highest number that the client has used."""
        self._unread = 0
        """Bytes kept of all streams' messages."""
        self._heads = 0
        """The same of their heads."""
        self._unsent = 0
        """The same of their answers, which wait for the client."""
        self._asked = 0
        """How many calls are whole, and not answered."""
        self._due_s: float | None = None
        """No deadline of a call under way is earlier."""
        self._owed = 0
        """Bytes of DATA that were read, of which the client has not been told yet."""
        self._room = WINDOW
        """Bytes of DATA that may still come."""
        self._window = FIRST_WINDOW
        """Bytes of DATA that may still be sent."""
        self._first_window = FIRST_WINDOW
        """That of a new stream, as the client's SETTINGS have it."""
        self._table_note = b""
        """Stands before the next header block that is sent."""
        self._leaving = False
        self._final: int | None = None
        """Streams above this one are not answered; ``None``: all are."""
        self._over = False
        """A fault has ended it."""
        self.greeted = False
        """The client has sent its preface."""

    def _greeting(self) -> bytes:
        told = {
            Setting.MAX_CONCURRENT_STREAMS: self._bounds.streams,
            Setting.INITIAL_WINDOW_SIZE: self._stream_window,
            Setting.MAX_HEADER_LIST_SIZE: self._bounds.header_bytes,
        }
        return frames.settings(told) + frames.window_update(0, WINDOW - FIRST_WINDOW)

    # What the caller asks.

    @property
    def finished(self) -> bool:
        """Nothing more will be said once ``pending_bytes`` are written."""
        return self._over or (self._final is not None and not self._streams)

    @property
    def awaits_client(self) -> bool:
        """No call is under way: none is whole and not answered. One that never becomes whole, or whose answer the
        client does not take, takes no worker."""
        return not self._asked

    @property
    def held_bytes(self) -> int:
        return (
            self._unread + self._heads + self._unsent + self._decoder.known_bytes + len(self._rest) + len(self._head[2])
        )

    def is_open(self, stream: int) -> bool:
        """Whether an answer to the call would still be sent."""
        return stream in self._streams

    def has_unsent(self, stream: int) -> bool:
        """Whether some of the call's answer waits for the client's window."""
        return stream in self._waiting

    @property
    def deadline_s(self) -> float | None:
        """When ``expire`` is due, at the latest."""
        return self._due_s if self._streams else None

    def pending_bytes(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def expire(self, now_s: float) -> list[Event]:
        """End the calls whose deadline has passed with DEADLINE_EXCEEDED: their client's, or that of their message."""
        for one in list(self._streams.values()):
            if one.deadline_s is not None and one.deadline_s <= now_s:
                self._events.append(Gone(one.number))
                one.unsent.clear()
                self.finish(one.number, Code.DEADLINE_EXCEEDED)
        left = (one.deadline_s for one in self._streams.values() if one.deadline_s is not None)
        self._due_s = min(left, default=None)
        return self._told()

    # What the caller answers.

    def answer(self, stream: int, message: bytes) -> None:
        """Send the one message of an answer, and the status OK."""
        one = self._streams.get(stream)
        if one is None:
            return
        size = len(message) + 5
        if one.started or size > FRAME_BYTES or size > one.window or size > self._window or self._table_note:
            self.send(stream, message)
            self.finish(stream)
            return
        self._window -= size
        self._answered(one)
        self._out += (
            _ANSWER.pack(
                _ANSWER_HEAD, stream, _HEAD_BLOCK, size >> 8, size & 0xFF, FrameType.DATA, 0, stream, 0, len(message)
            ),
            message,
            _OK.pack(_OK_HEAD, stream, _OK_BLOCK),
        )
        self._close(one)

    def send(self, stream: int, message: bytes) -> None:
        """Send one message of an answer, as soon as the client has room for it."""
        one = self._streams.get(stream)
        if one is None:
            return
        self._start(one, _HEAD_BLOCK)
        one.unsent += _PREFIX.pack(0, len(message)) + message
        self._push(one)

    def finish(self, stream: int, code: Code = Code.OK, text: str = "") -> None:
        """End an answer, once everything before has been sent."""
        one = self._streams.get(stream)
        if one is None:
            return
        self._answered(one)
        if not one.started:
            self._refuse(one, trailers_only(code, text))
            return
        one.end = block(trailers(code, text))
        self._push(one)

    def _answered(self, one: Stream) -> None:
        if one.is_asked:
            one.is_asked = False
            self._asked -= 1

    def taken(self, stream: int, message: bytes) -> None:
        """This message has been read by the call's handler, and as much may come anew."""
        one = self._streams.get(stream)
        if one is not None:
            self._keep(one, one.kept - len(message) - 5 - MESSAGE_BYTES)
            self._owe(one, len(message) + 5)

    def go_away(self) -> None:
        """Begin a graceful end (RFC 9113 §6.8): ask the client for no new calls. Those on their way are answered."""
        if not self._leaving:
            self._leaving = True
            self._out += frames.goaway(LARGEST_WINDOW, Error.NO_ERROR), frame(FrameType.PING, 0, 0, LEAVING)

    def settle(self) -> None:
        """The client has heard of that, or has had time to: later calls are dropped."""
        if self._leaving and self._final is None:
            self._final = self._last
            self._out.append(frames.goaway(self._last, Error.NO_ERROR))

    # What the client says.

    def feed(self, data: bytes, now_s: float, is_enough: Callable[[int], bool] = lambda told: False) -> list[Event]:
        """Read what has come.

        Args:
            data: as it was received; frames may be cut anywhere.
            now_s: on a clock that does not go back, the same as for ``expire``.
            is_enough: asked after each frame, with how many events there are. Then the rest waits (``has_more``), and
                is read when this is called again.
        """
        self._now_s = now_s
        if not self._over:
            try:
                self._read(self._rest + data if self._rest else data, is_enough)
            except BadConnectionError as fault:
                self._die(fault)
        return self._told()

    def _told(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _read(self, data: bytes, is_enough: Callable[[int], bool]) -> None:
        at, end = 0, len(data)
        self.has_more = False
        if not self.greeted:
            if data[: len(PREFACE)] != PREFACE[:end]:
                raise BadConnectionError(Error.PROTOCOL_ERROR, "this is not HTTP/2")
            if end < len(PREFACE):
                self._rest = data
                return
            self.greeted, at = True, len(PREFACE)
        while end - at >= HEAD_BYTES:
            high, low, kind, flags, stream = HEAD.unpack_from(data, at)
            length = high << 8 | low
            if length > FRAME_BYTES:
                raise BadConnectionError(Error.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            start, at = at + HEAD_BYTES, at + HEAD_BYTES + length
            if at > end:
                at = start - HEAD_BYTES
                break
            self._frame(kind, flags, stream & frames.STREAM, data[start:at])
            if is_enough(len(self._events)):
                self.has_more = at < end
                break
        self._rest = data[at:]

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._only is not None and kind != self._only:
            raise BadConnectionError(
                Error.PROTOCOL_ERROR, f"a frame of type {kind} where one of {self._only.name} is due"
            )
        if kind >= len(_TAKE):
            self._idle()  # §5.5: unknown types are dropped
            return
        try:
            _TAKE[kind](self, flags, stream, payload)
        except BadStreamError as fault:
            self._idle()
            self._reset(fault.stream, fault.code)

    def _idle(self) -> None:
        """A frame that brings no call forward."""
        if not self._patience.spend(self._now_s):
            raise BadConnectionError(Error.ENHANCE_YOUR_CALM, "too many frames that bring no call forward")

    def _state(self, stream: int) -> State:
        one = self._streams.get(stream)
        if one is not None:
            return State.ENDED if one.has_ended else State.OPEN
        if stream > self._last or not stream & 1:
            return State.IDLE
        return State.CUT if stream in self._cut else State.CLOSED

    def _is_taken(self, kind: FrameType, flags: int, stream: int) -> bool:
        """Whether a frame that is not the usual one is taken or dropped; raises where it is neither."""
        reaction = REACTIONS[kind][self._state(stream)]
        if reaction is Reaction.TAKE:
            return True
        self._idle()
        if reaction is Reaction.IGNORE:
            if flags & END_STREAM or kind is FrameType.RST_STREAM:
                self._cut.pop(stream, None)
            return False
        if reaction is Reaction.END_STREAM:
            raise BadStreamError(stream, CODES[reaction])
        raise BadConnectionError(
            CODES[reaction], f"{kind.name} on stream {stream}, which is {self._state(stream).value}"
        )

    # Heads.

    def _headers(self, flags: int, stream: int, payload: bytes) -> None:
        if not stream & 1:
            raise BadConnectionError(Error.PROTOCOL_ERROR, f"HEADERS on stream {stream}, which no client may begin")
        if flags & PADDED:
            payload = frames.unpadded(payload)
        if flags & PRIORITY:
            _priority(stream, payload[:5])
            payload = payload[5:]
        if flags & END_HEADERS:
            self._block(flags, stream, payload)
        else:
            self._only = FrameType.CONTINUATION
            self._head = stream, flags, bytearray(payload)

    def _continuation(self, flags: int, stream: int, payload: bytes) -> None:
        begun, first_flags, encoded = self._head
        if self._only is None or stream != begun:
            raise BadConnectionError(Error.PROTOCOL_ERROR, "CONTINUATION of nothing")
        encoded += payload
        if len(encoded) > self._bounds.header_bytes:
            raise BadConnectionError(Error.ENHANCE_YOUR_CALM, "a header block is too long")
        if flags & END_HEADERS:
            self._only, self._head = None, (0, 0, bytearray())
            self._block(first_flags, stream, bytes(encoded))
        elif not payload:
            self._idle()

    def _block(self, flags: int, stream: int, encoded: bytes) -> None:
        """A whole header block: of a new call, or of a client's trailers (RFC 9113 §8.1)."""
        if stream > self._last:
            self._last = stream
            self._open(flags, stream, self._decoder.head(encoded))
            return
        fields = self._decoder.fields(encoded)  # whatever becomes of them: the table must stay the same at both ends
        if self._is_taken(FrameType.HEADERS, flags, stream):
            if not flags & END_STREAM or not well_formed(fields):
                raise BadStreamError(stream, Error.PROTOCOL_ERROR)
            self._end(self._streams[stream])

    def _open(self, flags: int, stream: int, head: Head) -> None:
        if self._final is not None:
            self._mark_cut(stream)
            return
        if len(self._streams) >= self._bounds.streams:
            raise BadStreamError(stream, Error.REFUSED_STREAM)
        if head.is_malformed:
            raise BadStreamError(stream, Error.PROTOCOL_ERROR)
        method = self._methods.get(head.path) if head.refusal is None else None
        one = Stream(stream, head, method, self._first_window, self._stream_window)
        self._limit(one)
        self._streams[stream] = one
        self._heads += head.size + STREAM_BYTES
        if flags & END_STREAM:
            one.has_ended = True
        if method is None:
            refusal = head.refusal or _NO_METHOD
            if refusal.at_once:
                self._refuse(one, refusal)
                return
        elif type(method) is not Unary:
            self._events.append(Opened(stream, method, head))
        if flags & END_STREAM:
            self._end(one)

    def _limit(self, one: Stream) -> None:
        """How long a new call may take."""
        if one.head.timeout_s is not None:
            one.deadline_s = one.clients_deadline_s = self._now_s + one.head.timeout_s
        if one.method is None or type(one.method) is Unary:
            one.deadline_s = min(self._now_s + self._bounds.whole_s, one.deadline_s or inf)
        if one.deadline_s is not None:
            self._due_s = min(one.deadline_s, self._due_s or inf) if self._streams else one.deadline_s

    # Messages.

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        length = len(payload)
        self._receive(length)
        one = self._streams.get(stream)
        if (one is None or one.has_ended) and not self._is_taken(FrameType.DATA, flags, stream):
            return
        assert one is not None, "a stream that DATA is taken of is there"
        data = frames.unpadded(payload) if flags & PADDED else payload
        one.room -= length
        if one.room < 0:
            raise BadStreamError(stream, Error.FLOW_CONTROL_ERROR)
        if length != len(data):
            self._owe(one, length - len(data))
        if not one.fits(len(data)):
            raise BadStreamError(stream, Error.PROTOCOL_ERROR)
        one.has_ended = bool(flags & END_STREAM)
        if not data and not one.has_ended:
            self._idle()
        if one.method is None:
            self._owe(one, len(data))
        elif data and not self._parts(one, data):
            return
        if one.has_ended:
            self._end(one)

    def _receive(self, length: int) -> None:
        """Count DATA of any stream, of closed ones too (RFC 9113 §6.9)."""
        self._room -= length
        if self._room < 0:
            raise BadConnectionError(Error.FLOW_CONTROL_ERROR, "more than the connection's window")
        self._owed += length
        if self._owed > WINDOW // 4:
            self._room += self._owed
            self._out.append(frames.window_update(0, self._owed))
            self._owed = 0

    def _owe(self, one: Stream, length: int) -> None:
        """So much more may come of one stream; the client is told when it is worth a frame."""
        one.owed += length
        if one.owed > self._stream_window // 4 and not one.has_ended:
            one.room += one.owed
            self._out.append(frames.window_update(one.number, one.owed))
            one.owed = 0

    def _parts(self, one: Stream, data: bytes) -> bool:
        """Take what came of messages; whether the call goes on."""
        try:
            messages = one.take(data, self._bounds.message_bytes)
        except StatusError as error:
            self._fail(one, error.code, error.text)
            return False
        if type(one.method) is Unary:
            if one.messages > 1:
                self._fail(one, Code.UNIMPLEMENTED, "a second message of a call that has one")
                return False
            if messages:
                (one.message,) = messages
            if one.has_ended:
                return True  # it is handed over now
            kept = one.parts_bytes + len(one.message or b"")
        else:
            self._events += [Message(one.number, message) for message in messages]
            kept = one.kept + len(data) + MESSAGE_BYTES * len(messages)
        if kept > one.kept and self._unread + kept - one.kept > self._bounds.unread_bytes:
            self._fail(one, Code.RESOURCE_EXHAUSTED, "this connection's calls have too much that is not read yet")
            return False
        self._keep(one, kept)
        return True

    def _keep(self, one: Stream, kept: int) -> None:
        self._unread += kept - one.kept
        one.kept = kept

    def _end(self, one: Stream) -> None:
        one.has_ended = True
        if one.is_short:
            raise BadStreamError(one.number, Error.PROTOCOL_ERROR)
        if one.method is None:
            assert one.head.refusal is not None, "one of gRPC is refused at once"
            self._refuse(one, one.head.refusal)
        elif one.parts_bytes:
            self._fail(one, Code.INTERNAL, "the last message is cut off")
        elif type(one.method) is not Unary:
            self._events.append(Ended(one.number))
        elif one.message is None:
            self._fail(one, Code.UNIMPLEMENTED, "no message of a call that has one")
        else:
            self._events.append(Asked(one.number, one.method, one.message, one.head.timeout_s))
            one.message = None
            one.deadline_s = one.clients_deadline_s
            one.is_asked = True
            self._asked += 1
            self._keep(one, 0)

    # The other frames.

    def _priority_frame(self, flags: int, stream: int, payload: bytes) -> None:
        if not stream:
            raise BadConnectionError(Error.PROTOCOL_ERROR, "PRIORITY of no stream")
        _priority(stream, payload)
        self._idle()

    def _rst_stream(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise BadConnectionError(Error.FRAME_SIZE_ERROR, f"RST_STREAM of {len(payload)} bytes")
        if self._is_taken(FrameType.RST_STREAM, 0, stream):
            self._idle()
            self._drop(self._streams[stream])
            self._events.append(Gone(stream))

    def _settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream:
            raise BadConnectionError(Error.PROTOCOL_ERROR, "SETTINGS of a stream")
        if len(payload) % 6 or (flags & ACK and payload):
            raise BadConnectionError(Error.FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes")
        if self._only is not None and flags & ACK:
            raise BadConnectionError(Error.PROTOCOL_ERROR, "an acknowledgement before any SETTINGS of the client's own")
        self._only = None
        self._idle()
        if not flags & ACK:
            # Each changes every stream, and one frame may name one 2,730 times: the last counts (RFC 9113 §6.5.3).
            for name, value in dict(struct.iter_unpack(">HI", payload)).items():
                self._set(name, value)
            self._out.append(frame(FrameType.SETTINGS, ACK, 0))
            self._push_all()

    def _set(self, name: int, value: int) -> None:
        """§6.5.2. Unknown ones are dropped, and so are those that a server without pushes has no use for."""
        if name == Setting.ENABLE_PUSH and value > 1:
            raise BadConnectionError(Error.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")
        if name == Setting.MAX_FRAME_SIZE and not FRAME_BYTES <= value < 1 << 24:
            raise BadConnectionError(Error.PROTOCOL_ERROR, "MAX_FRAME_SIZE is from 2^14 to 2^24-1")
        if name == Setting.HEADER_TABLE_SIZE:
            self._table_note = EMPTY_TABLE
        if name == Setting.INITIAL_WINDOW_SIZE:
            if value > LARGEST_WINDOW:
                raise BadConnectionError(Error.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is at most 2^31-1")
            change, self._first_window = value - self._first_window, value
            for one in self._streams.values():
                one.window += change
                if one.window > LARGEST_WINDOW:
                    raise BadConnectionError(Error.FLOW_CONTROL_ERROR, "a stream's window grows beyond 2^31-1")

    def _push_promise(self, flags: int, stream: int, payload: bytes) -> None:
        raise BadConnectionError(Error.PROTOCOL_ERROR, "a client pushes nothing")

    def _ping(self, flags: int, stream: int, payload: bytes) -> None:
        if stream:
            raise BadConnectionError(Error.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise BadConnectionError(Error.FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes")
        self._idle()
        if not flags & ACK:
            self._out.append(frame(FrameType.PING, ACK, 0, payload))
        elif payload == LEAVING:
            self.settle()

    def _goaway(self, flags: int, stream: int, payload: bytes) -> None:
        """It says nothing new: whoever asks no more closes the connection in the end."""
        if stream:
            raise BadConnectionError(Error.PROTOCOL_ERROR, "GOAWAY of a stream")
        if len(payload) < 8:
            raise BadConnectionError(Error.FRAME_SIZE_ERROR, f"GOAWAY of {len(payload)} bytes")
        self._idle()

    def _window_update(self, flags: int, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise BadConnectionError(Error.FRAME_SIZE_ERROR, f"WINDOW_UPDATE of {len(payload)} bytes")
        increment = int.from_bytes(payload, "big") & LARGEST_WINDOW
        if stream and not self._is_taken(FrameType.WINDOW_UPDATE, 0, stream):
            return
        self._idle()
        if not stream:
            if not increment:
                raise BadConnectionError(Error.PROTOCOL_ERROR, "a window grows by nothing")
            self._window += increment
            if self._window > LARGEST_WINDOW:
                raise BadConnectionError(Error.FLOW_CONTROL_ERROR, "the connection's window grows beyond 2^31-1")
            self._push_all()
            return
        one = self._streams[stream]
        if not increment:
            raise BadStreamError(stream, Error.PROTOCOL_ERROR)
        one.window += increment
        if one.window > LARGEST_WINDOW:
            raise BadStreamError(stream, Error.FLOW_CONTROL_ERROR)
        self._push_waiting(one)

    # What is sent.

    def _start(self, one: Stream, encoded: bytes, flags: int = 0) -> None:
        """Send the head of an answer, unless it was sent."""
        if not one.started:
            one.started = True
            self._out.append(frame(FrameType.HEADERS, END_HEADERS | flags, one.number, self._table_note + encoded))
            self._table_note = b""

    def _push(self, one: Stream) -> None:
        """Send what there is room for (RFC 9113 §6.9), and the end if that was all."""
        while one.unsent:
            size = min(len(one.unsent), FRAME_BYTES, one.window, self._window)
            if size <= 0:
                self._waiting[one.number] = one
                self._count_unsent(one)
                return
            is_end = one.end == b"" and size == len(one.unsent)
            self._out.append(frame(FrameType.DATA, END_STREAM if is_end else 0, one.number, bytes(one.unsent[:size])))
            del one.unsent[:size]
            one.window -= size
            self._window -= size
        self._waiting.pop(one.number, None)
        self._count_unsent(one)
        if one.end is None:
            return
        if one.end:
            self._out.append(frame(FrameType.HEADERS, END_HEADERS | END_STREAM, one.number, one.end))
        self._close(one)

    def _count_unsent(self, one: Stream) -> None:
        self._unsent += len(one.unsent) - one.counted
        one.counted = len(one.unsent)

    def _push_all(self) -> None:
        for one in list(self._waiting.values()):
            self._push_waiting(one)

    def _push_waiting(self, one: Stream) -> None:
        if one.number in self._waiting:
            self._push(one)
            if one.number not in self._waiting and one.number in self._streams:
                self._events.append(Drained(one.number))

    def _refuse(self, one: Stream, refusal: Refusal) -> None:
        """Answer with a head, and perhaps the text for a client of HTTP."""
        if refusal.body:
            self._start(one, refusal.block)
            one.unsent += refusal.body
            one.end = b""
            self._push(one)
        else:
            self._start(one, refusal.block, END_STREAM)
            self._close(one)

    def _fail(self, one: Stream, code: Code, text: str) -> None:
        """End a call for what its client has sent."""
        if type(one.method) is not Unary:
            self._events.append(Gone(one.number))
        one.unsent.clear()
        self.finish(one.number, code, text)

    def _close(self, one: Stream) -> None:
        """Everything is sent. A client that has not sent all is told that it need not go on (RFC 9113 §8.1): such a
        call earns it nothing."""
        self._drop(one)
        if one.has_ended:
            self._patience.earn(self._bounds.idle_frames_per_call)
        else:
            self._out.append(frames.rst_stream(one.number, Error.NO_ERROR))
            self._mark_cut(one.number)

    def _reset(self, stream: int, code: Error) -> None:
        """A stream ends for a fault of the client's."""
        self._out.append(frames.rst_stream(stream, code))
        one = self._streams.get(stream)
        if one is not None:
            self._drop(one)
            self._events.append(Gone(stream))
        self._mark_cut(stream)

    def _drop(self, one: Stream) -> None:
        del self._streams[one.number]
        if one.kept:
            self._keep(one, 0)
        self._answered(one)
        self._heads -= one.head.size + STREAM_BYTES
        self._unsent -= one.counted
        self._waiting.pop(one.number, None)

    def _mark_cut(self, stream: int) -> None:
        self._cut[stream] = None
        if len(self._cut) > CUT:
            del self._cut[next(iter(self._cut))]

    def _die(self, fault: BadConnectionError) -> None:
        """Nothing more is read, and nothing under way is answered."""
        self._over = True
        self._rest, self.has_more = b"", False
        self._events += [Gone(number) for number in self._streams]
        for one in list(self._streams.values()):
            self._drop(one)
        self._out.append(frames.goaway(self._last, fault.code, fault.why))


def _priority(stream: int, payload: bytes) -> None:
    """What it says is dropped (RFC 9113 §5.3.2). That a stream depends on itself is forbidden by RFC 7540 §5.3.1, which
    h2spec tests."""
    if len(payload) != 5:
        raise BadConnectionError(Error.FRAME_SIZE_ERROR, "a priority is cut off")
    if int.from_bytes(payload[:4], "big") & frames.STREAM == stream:
        raise BadConnectionError(Error.PROTOCOL_ERROR, f"stream {stream} depends on itself")


_TAKE: Final[tuple[Callable[[Connection, int, int, bytes], None], ...]] = (
    Connection._data,
    Connection._headers,
    Connection._priority_frame,
    Connection._rst_stream,
    Connection._settings,
    Connection._push_promise,
    Connection._ping,
    Connection._goaway,
    Connection._window_update,
    Connection._continuation,
)
"""By ``Kind``. Functions and no methods of one connection, which would hold it in a circle."""
