"""A closed-loop gRPC client over one HTTP/2 connection, made of prebuilt frames: a tenth of a server's cost a call.

A client of grpcio costs as much as the server that it drives, and would hide half of any difference between two.
Frames: RFC 9113 §4 and §6; header fields as literals without indexing: RFC 7541 §6.2.2.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple, Self

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 0x1, 0x1, 0x4
_WINDOW = 0x7FFF_FFFF - 65_535
_HEADER = 9


class LoadError(Exception):
    """The server ended the connection or refused a call."""


class Run(NamedTuple):
    """What came of a run."""

    calls: int
    seconds: float


class Connection:
    """One connection to a gRPC server on 127.0.0.1, calling one method. A context manager."""

    def __init__(self, port: int, method: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        settings = struct.pack(">HIHI", 0x4, 0x7FFF_FFFF, 0x1, 0)  # INITIAL_WINDOW_SIZE, HEADER_TABLE_SIZE
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, settings)
        self._socket.sendall(preface + _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW)))
        self._fields = _fields(method, port)
        self._stream = -1
        self._window = 65_535
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def run(self, supply: Iterator[bytes], seconds: float, in_flight: int) -> Run:
        """Keep so many calls under way for a while, with the next messages of an endless supply."""
        start = time.perf_counter()
        finish = start + seconds
        done, waiting, under_way = 0, in_flight, 0
        while waiting or under_way:
            waiting, sent = self._send(supply, waiting)
            under_way += sent
            ended = self._receive()
            done, under_way = done + ended, under_way - ended
            waiting += ended
            if time.perf_counter() >= finish:
                waiting = 0
        return Run(done, time.perf_counter() - start)

    def _send(self, supply: Iterator[bytes], count: int) -> tuple[int, int]:
        """Start up to ``count`` calls, as the connection's window allows. How many wait, and how many were sent."""
        out = bytearray()
        sent = 0
        while sent < count and self._window > 16_384:
            message = _length_prefixed(next(supply))
            self._stream += 2
            self._window -= len(message)
            out += _frame(_HEADERS, _END_HEADERS, self._stream, self._fields)
            out += _frame(_DATA, _END_STREAM, self._stream, message)
            sent += 1
        if out:
            self._socket.sendall(out)
        return count - sent, sent

    def _receive(self) -> int:
        """Read what there is; how many calls it ended."""
        chunk = self._socket.recv(1 << 18)
        if not chunk:
            raise LoadError("the server closed the connection")
        data = self._unread + chunk
        at = ended = 0
        while at + _HEADER <= len(data):
            size = int.from_bytes(data[at : at + 3], "big")
            if at + _HEADER + size > len(data):
                break
            body = at + _HEADER
            ended += self._take(data[at + 3], data[at + 4], data[at + 5 : body], data[body : body + size])
            at = body + size
        self._unread = data[at:]
        return ended

    def _take(self, kind: int, flags: int, stream: bytes, payload: bytes) -> int:
        if kind == _HEADERS:
            return flags & _END_STREAM
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            self._socket.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind == _WINDOW_UPDATE and stream == b"\0\0\0\0":
            self._window += int.from_bytes(payload, "big")
        elif kind in (_GOAWAY, _RST_STREAM):
            raise LoadError(f"the server refused: frame type {kind}, {payload!r}")
        return 0


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def _length_prefixed(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def _fields(method: str, port: int) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": f"127.0.0.1:{port}",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def _text(value: str) -> bytes:
    assert len(value) < 127, "longer ones need more than one byte of length"
    return bytes([len(value)]) + value.encode()
