"""Stands for a Service: each connection to one port is led to the next of several."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Self


class Balancer:
    """A context manager. It listens on a free port."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.ports = ports
        """Those that new connections are led to."""
        self.opened = 0
        """Connections that it was asked for so far."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join(10)

    def _connect(self) -> socket.socket:
        """To who is next. Raises OSError: nobody listens there."""
        return socket.create_connection(("127.0.0.1", self.ports[self.opened % len(self.ports)]))

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                asking, _ = self._listener.accept()
                self.opened += 1
                try:
                    asked = self._connect()
                except OSError:
                    asking.close()
                    continue
                self._open += [asking, asked]
                for ends in ((asking, asked), (asked, asking)):
                    threading.Thread(target=_copy, args=ends, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
