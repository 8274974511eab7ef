"""An HTTP/1.1 client that sends exactly the bytes it is given, so that a spelling reaches the server as spelled."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from typing import Any, NamedTuple

from tests.controlplane.plane import Plane

TIMEOUT_S = 120.0
"""A JSON text of 9,990 levels takes the API server 7 s of processor time."""


class Reply(NamedTuple):
    """An HTTP answer; ``status`` 0 means that the server closed the connection without one."""

    status: int
    body: bytes

    def tree(self) -> Any:
        """The body as JSON, or None."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Wire:
    """One kept-alive TLS connection, replaced when the server closes it."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._socket: ssl.SSLSocket | None = None
        self._buffer = b""

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket, self._buffer = None, b""

    def send(self, raw: bytes) -> Reply:
        """Send *raw* as it is and read one answer (interim 1xx answers are skipped)."""
        try:
            if self._socket is None:
                plain = socket.create_connection(("127.0.0.1", self._plane.port), TIMEOUT_S)
                self._socket = self._plane.tls.wrap_socket(plain, server_hostname="127.0.0.1")
            self._socket.sendall(raw)
            return self._read_reply(bodiless=raw.startswith(b"HEAD "))
        except OSError:
            self.close()
            return Reply(0, b"")

    def json(self, method: str, target: str, tree: Any = None, content_type: str = "application/json") -> Reply:
        """An ordinary request, for setting up and looking."""
        body = b"" if tree is None else json.dumps(tree).encode()
        headers = [("content-type", content_type)] if body else []
        return self.send(spell(method, target, headers, body))

    def _read_reply(self, bodiless: bool) -> Reply:
        while True:
            head = self._until(b"\r\n\r\n")
            status = int(head[9:12])
            if status >= 200:
                break
        fields = _fields(head)
        if bodiless or status == 204:
            body = b""
        elif "chunked" in fields.get("transfer-encoding", ""):
            body = self._chunks()
        elif "content-length" in fields:
            body = self._exactly(int(fields["content-length"]))
        else:
            body = self._to_the_end()
        if fields.get("connection", "").lower() == "close" or head.startswith(b"HTTP/1.0"):
            self.close()
        return Reply(status, body)

    def _more(self) -> bool:
        assert self._socket is not None
        piece = self._socket.recv(65536)
        self._buffer += piece
        return bool(piece)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            if not self._more():
                raise ConnectionError("closed before an answer")
        head, _, self._buffer = self._buffer.partition(mark)
        return head

    def _exactly(self, length: int) -> bytes:
        while len(self._buffer) < length:
            if not self._more():
                raise ConnectionError("closed within an answer")
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return body

    def _chunks(self) -> bytes:
        pieces = []
        while length := int(self._until(b"\r\n").split(b";")[0], 16):
            pieces.append(self._exactly(length))
            self._until(b"\r\n")
        self._until(b"\r\n")
        return b"".join(pieces)

    def _to_the_end(self) -> bytes:
        while self._more():
            pass
        body, self._buffer = self._buffer, b""
        self.close()
        return body


def spell(
    method: str, target: str, headers: list[tuple[str, str]], body: bytes, version: str = "1.1", chunked: bool = False
) -> bytes:
    """The bytes of a request. *headers* are sent as given; host, accept and framing are added where they lack."""
    given = {name.lower() for name, _ in headers}
    lines = [f"{method} {target} HTTP/{version}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if "host" not in given:
        lines.append("host: 127.0.0.1")
    if "accept" not in given:
        lines.append("accept: application/json")
    if chunked:
        lines.append("transfer-encoding: chunked")
        body = _as_chunks(body)
    elif "content-length" not in given:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def _as_chunks(body: bytes, size: int = 7) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def _fields(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def varint(number: int) -> bytes:
    """Negative numbers as ten bytes, as protobuf writes them."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number_field(tag: int, value: int) -> bytes:
    """A varint field."""
    return varint(tag << 3) + varint(value)


def bytes_field(tag: int, value: bytes) -> bytes:
    """A length-delimited field."""
    return varint(tag << 3 | 2) + varint(len(value)) + value
