"""One stream: what may come in which state, how much, and the messages in it; and the events of calls.

The states are those of RFC 9113 §5.1 as a server has them that never pushes. What a frame means in each is a table,
``REACTIONS``. Messages: PROTOCOL-HTTP2.md, "Length-Prefixed-Message": a byte that tells whether it is compressed, four
with its length, and the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from extauthz.serve.rpc.frames import Error, FrameType
from extauthz.serve.rpc.heads import Code, Head, Method, StatusError, Unary


class State(Enum):
    """Of a stream, as the client's frames meet it."""

    IDLE = "not begun"
    OPEN = "the client may send more"
    ENDED = "the client has sent everything (half-closed, remote)"
    CUT = "ended from here, while the client may not know that yet"
    CLOSED = "over at both ends"


class Reaction(Enum):
    TAKE = "it is taken"
    IGNORE = "it is read and dropped"
    END_STREAM = "the stream ends with STREAM_CLOSED"
    END_CONNECTION = "the connection ends with STREAM_CLOSED"
    NONSENSE = "the connection ends with PROTOCOL_ERROR"


_TAKE, _IGNORE, _STREAM, _CONNECTION, _NONSENSE = Reaction

REACTIONS: Final[Mapping[FrameType, Mapping[State, Reaction]]] = {
    kind: dict(zip(State, row, strict=True))
    for kind, row in {
        # idle, open, ended, cut, closed
        FrameType.DATA: (_NONSENSE, _TAKE, _STREAM, _IGNORE, _STREAM),
        FrameType.HEADERS: (_TAKE, _TAKE, _STREAM, _IGNORE, _CONNECTION),
        FrameType.RST_STREAM: (_NONSENSE, _TAKE, _TAKE, _IGNORE, _IGNORE),
        FrameType.WINDOW_UPDATE: (_NONSENSE, _TAKE, _TAKE, _IGNORE, _IGNORE),
    }.items()
}


class Stream:
    """One that is open or ended, and not yet answered in full."""

    __slots__ = (
        "_parts",
        "_sent_bytes",
        "clients_deadline_s",
        "counted",
        "deadline_s",
        "end",
        "has_ended",
        "head",
        "is_asked",
        "kept",
        "message",
        "messages",
        "method",
        "number",
        "owed",
        "room",
        "started",
        "unsent",
        "window",
    )

    def __init__(self, number: int, head: Head, method: Method | None, window: int, room: int) -> None:
        self.number = number
        self.head = head
        self.method = method
        """``None``: it will be refused."""
        self.deadline_s: float | None = None
        """When it ends, if it does not before: until its one message is whole, at the latest after a time for that."""
        self.clients_deadline_s: float | None = None
        """When its client has no use for the answer any more."""
        self.is_asked = False
        """Its one message is with its handler, and not answered."""
        self.has_ended = False
        """The client has sent everything."""
        self._parts = bytearray()
        """Of messages that are not complete."""
        self._sent_bytes = 0
        """DATA so far, to hold against a content-length."""
        self.messages = 0
        """How many came."""
        self.message: bytes | None = None
        """The one of a unary call, until the client has ended."""
        self.kept = 0
        """Bytes of messages that are not complete or not read, as the connection counts them."""
        self.room = room
        """Bytes that the client may still send (this end's window)."""
        self.owed = 0
        """Bytes that were read, of which the client has not been told yet."""
        self.window = window
        """Bytes that may still be sent to the client; negative after it made its windows smaller (RFC 9113 §6.9.2)."""
        self.started = False
        """The head of the answer is sent."""
        self.unsent = bytearray()
        """Waits for the client's window."""
        self.counted = 0
        """Bytes of that, as the connection counts them."""
        self.end: bytes | None = None
        """The header block that ends the answer, once nothing of it is unsent. ``b""``: the last DATA ends it."""

    @property
    def parts_bytes(self) -> int:
        """Kept of messages that are not complete."""
        return len(self._parts)

    def fits(self, length: int) -> bool:
        """Count so many bytes of DATA in; whether they are no more than the head's content-length said."""
        self._sent_bytes += length
        limit = self.head.content_length
        return limit is None or self._sent_bytes <= limit

    @property
    def is_short(self) -> bool:
        """At its end: less came than its content-length said (RFC 9113 §8.1.1)."""
        limit = self.head.content_length
        return limit is not None and self._sent_bytes != limit

    def take(self, data: bytes, most: int) -> list[bytes]:
        """The messages that these bytes complete.

        Raises:
            StatusError: one is longer than ``most``, or compressed.
        """
        if not self._parts and len(data) >= 5 and not data[0] and int.from_bytes(data[1:5], "big") == len(data) - 5:
            if len(data) - 5 > most:
                raise _too_long(len(data) - 5, most)
            self.messages += 1
            return [data[5:]]
        parts = self._parts
        parts += data
        found, at = [], 0
        while len(parts) - at >= 5:
            length = int.from_bytes(parts[at + 1 : at + 5], "big")
            if parts[at]:
                raise StatusError(Code.INTERNAL, "a message says that it is compressed, and the head named no encoding")
            if length > most:
                raise _too_long(length, most)
            if len(parts) - at - 5 < length:
                break
            found.append(bytes(parts[at + 5 : at + 5 + length]))
            at += 5 + length
        del parts[:at]
        self.messages += len(found)
        return found


def _too_long(length: int, most: int) -> StatusError:
    return StatusError(Code.RESOURCE_EXHAUSTED, f"a message of {length} bytes; at most {most} are taken")


CODES: Final[Mapping[Reaction, Error]] = {
    Reaction.END_STREAM: Error.STREAM_CLOSED,
    Reaction.END_CONNECTION: Error.STREAM_CLOSED,
    Reaction.NONSENSE: Error.PROTOCOL_ERROR,
}


# What a connection tells of its calls.


@dataclass(slots=True)
class Asked:
    """The one message of a unary call, and so the whole call."""

    stream: int
    method: Unary
    message: bytes
    timeout_s: float | None
    """How long its client waits."""


@dataclass(slots=True)
class Opened:
    """A call of any other method begins."""

    stream: int
    method: Method
    head: Head


@dataclass(slots=True)
class Message:
    """One more of an opened call. Whoever has read it says so by ``taken``, so that more may come."""

    stream: int
    message: bytes


@dataclass(slots=True)
class Ended:
    """The client of an opened call has sent everything."""

    stream: int


@dataclass(slots=True)
class Drained:
    """The client has room again: nothing of this call is unsent."""

    stream: int


@dataclass(slots=True)
class Gone:
    """A call is over without its handler: given up by its client, ended for a fault, or at its deadline."""

    stream: int


Event: TypeAlias = Asked | Opened | Message | Ended | Drained | Gone
