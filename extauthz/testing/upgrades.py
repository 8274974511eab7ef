"""Upgraded connections, spelled by hand: what exec, attach and port-forward look like on the wire."""

from __future__ import annotations

import base64
import socket
import ssl


def upgrade(connection: ssl.SSLSocket, method: str, path: str, protocol: str) -> bytes:
    """The head of the answer to an upgrade."""
    key = base64.b64encode(bytes(16)).decode()
    websocket = f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n" if protocol == "websocket" else ""
    connection.sendall(
        f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: {protocol}\r\n{websocket}"
        "content-length: 0\r\n\r\n".encode()
    )
    return until_blank(connection)


def until_blank(connection: socket.socket) -> bytes:
    """A head, to the blank line that ends it."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        head += byte
    return head


def echo(connection: ssl.SSLSocket, message: bytes) -> bytes:
    """Sends one binary frame (RFC 6455 §5.2, masked with zeros) and gives back the payload of the next that comes."""
    connection.sendall(bytes([0x82, 0x80 | len(message), 0, 0, 0, 0]) + message)
    head = connection.recv(2)
    return connection.recv(head[1])
