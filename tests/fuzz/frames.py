"""Frames that a mutator makes, fed to the gRPC server's state machine: nothing raises, and nothing is kept.

Half of what is sent is right, so that calls are under way when the other half comes.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

from hpack import Encoder

from extauthz.serve.rpc.connection import Connection
from extauthz.serve.rpc.frames import FRAME_BYTES, PREFACE, Bounds
from extauthz.serve.rpc.heads import Call, Code, Methods, Sink, Streaming, Unary
from extauthz.serve.rpc.streams import Asked, Ended, Gone, Message, Opened


async def _unused(_: Call) -> None:
    """The pure machine runs no handlers."""


PATHS = ("/a.Fuzz/Unary", "/a.Fuzz/Sink", "/a.Fuzz/Bidi")
METHODS: Methods = {PATHS[0]: Unary(lambda raw, _: raw), PATHS[1]: Sink(lambda _: None), PATHS[2]: Streaming(_unused)}
BOUNDS = Bounds(message_bytes=50_000, streams=8, unread_bytes=120_000, idle_frames=200)
KEPT_BYTES = 2 << 20
"""Of one connection, whatever it was sent: what is unread, as much again for how Python keeps it, and its answers."""


class Run(NamedTuple):
    """What came of a connection."""

    frames: int
    answered: int
    ended_by_fault: bool
    peak_bytes: int


class Client:
    """Draws what it sends."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self._encoder = Encoder()
        self._next = 1
        self._open: list[int] = []

    def bytes(self) -> bytes:
        """The next frame or frames, sometimes spoilt."""
        made = self.draw.choice(_MAKERS)(self) if self._open else self.call()
        if self.draw.random() < 0.01:
            made = self._spoilt(made)
        return made

    def _spoilt(self, made: bytes) -> bytes:
        raw = bytearray(made)
        for _ in range(self.draw.randint(1, 3)):
            if raw:
                raw[self.draw.randrange(len(raw))] = self.draw.randrange(256)
        return bytes(raw[: self.draw.choice((len(raw), self.draw.randrange(len(raw) + 1)))])

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def _stream(self) -> int:
        """Most often one that is open."""
        if self.draw.random() < 0.99:
            return self.draw.choice(self._open)
        return self.draw.choice((0, 1, 2, self._next, self._next + 1, max(self._next - 2, 1)))

    def head(self) -> bytes:
        fields = [
            (":method", self.draw.choice(("POST",) * 9 + ("GET",))),
            (":scheme", "http"),
            (":path", self.draw.choice((*PATHS * 3, "/none"))),
            ("content-type", self.draw.choice(("application/grpc",) * 9 + ("text/plain",))),
        ]
        more = [("te", "trailers"), ("grpc-timeout", "1S"), ("x-" + "a" * self.draw.randint(0, 30), "v"),
                ("grpc-encoding", "gzip"), ("content-length", "7"), ("Bad", "x"), ("x", "y" * 3_000)]  # fmt: skip
        fields += self.draw.sample(more, self.draw.choice((0, 0, 1, 1, 2)))
        if self.draw.random() < 0.05:
            self._encoder.header_table_size = self.draw.choice((0, 100, 4_096))
        encoded = self._encoder.encode(fields)
        stream, self._next = self._next, self._next + self.draw.choice((2, 2, 2, 4))
        self._open = [*self._open[-6:], stream]
        end = self.draw.choice((0, 0, 0, 1))
        if self.draw.random() < 0.8:
            return self._frame(1, 4 | end, stream, encoded)
        at = self.draw.randint(0, len(encoded))
        return self._frame(1, end, stream, encoded[:at]) + self._frame(9, 4, stream, encoded[at:])

    def data(self) -> bytes:
        size = self.draw.choice((0, 1, 10, 1_000, 30_000, 50_000, 50_001))
        whole = bytes([self.draw.random() < 0.02]) + size.to_bytes(4, "big") + bytes(size)
        stream, end = self._stream(), self.draw.choice((0, 1))
        cut = self.draw.choice((len(whole), self.draw.randint(0, len(whole))))
        parts = [whole[at : min(at + FRAME_BYTES, cut)] for at in range(0, max(cut, 1), FRAME_BYTES)]
        return b"".join(
            self._frame(0, end if number == len(parts) - 1 else 0, stream, part) for number, part in enumerate(parts)
        )

    def other(self) -> bytes:
        window = self.draw.choice((0, 1, 100, 1 << 20)).to_bytes(4, "big")
        kind, payload = self.draw.choice((
            (2, bytes(5)), (3, b"\0\0\0\x08"), (4, b""), (4, b"\0\4" + window),
            (6, bytes(8)), (7, bytes(8)), (8, window), (0x55, b"?"),
        ))  # fmt: skip
        return self._frame(kind, 0, 0 if kind in (4, 6, 7) else self._stream(), payload)

    def call(self) -> bytes:
        """A whole one, as it should be."""
        encoded = self._encoder.encode(
            [(":method", "POST"), (":scheme", "http"), (":path", PATHS[0]), ("content-type", "application/grpc")]
        )
        stream, self._next = self._next, self._next + 2
        self._open = [*self._open[-6:], stream]
        return self._frame(1, 4, stream, encoded) + self._frame(0, 1, stream, b"\0\0\0\0\3abc")


_MAKERS: tuple[Callable[[Client], bytes], ...] = (Client.head, Client.data, Client.data, Client.other, Client.call)


def run(seed: int, most: int = 400) -> Run:
    """One connection, until it ends or has had so many frames.

    Raises:
        Exception: what the state machine raised; or an AssertionError where it keeps what it should not.
    """
    client, connection, answered = Client(seed), Connection(METHODS, BOUNDS), 0
    connection.feed(PREFACE + b"\0\0\0\4\0\0\0\0\0", 0.0)
    tracemalloc.start()
    try:
        frames = 0
        while frames < most and not connection.finished:
            frames += 1
            raw = client.bytes()
            cut = client.draw.randint(0, len(raw))
            for part in (raw[:cut], raw[cut:]):
                answered += _answer(client.draw, connection, part, frames * 0.05)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    fault = connection._over
    _end(connection)
    return Run(frames, answered, fault, peak)


def _answer(draw: random.Random, connection: Connection, part: bytes, now_s: float) -> int:
    """As a server would, now or later or never; how many were answered."""
    answered = 0
    for event in [*connection.feed(part, now_s), *connection.expire(now_s)]:
        match event:
            case Asked(stream, _, message, _) if connection.is_open(stream) and draw.random() < 0.9:
                connection.answer(stream, message + bytes(draw.choice((0, 0, 40_000))))
                answered += 1
            case Message(stream, message) if draw.random() < 0.9:
                connection.taken(stream, message)
                if draw.random() < 0.5:
                    connection.send(stream, message)
            case Ended(stream):
                connection.finish(stream, draw.choice((Code.OK, Code.NOT_FOUND)), "why")
            case Opened() | Gone():
                pass
    connection.pending_bytes()
    return answered


def _end(connection: Connection) -> None:
    """Whatever has come: when no call is left nothing of any is kept."""
    for stream in list(connection._streams):
        connection._reset(stream, 8)
    assert connection._unread == 0, f"{connection._unread} bytes are still counted"
    assert not connection._waiting
    assert len(connection._cut) <= 1_024
    assert len(connection._rest) <= FRAME_BYTES + 9
