"""An HTTP/2 server over TLS that answers requests as it is told: refuses streams, leaves, resets."""

from __future__ import annotations

import socket
import ssl
import threading
from enum import StrEnum
from typing import Self

import h2.config
import h2.connection
import h2.errors
import h2.events

from tests.support.certs import Pair


class How(StrEnum):
    """What becomes of a request."""

    ANSWER = "answer"
    REFUSE = "refuse"
    """RST_STREAM with REFUSED_STREAM as soon as its headers are there."""
    REFUSE_LATE = "refuse-late"
    """The same once it is whole."""
    CANCEL = "cancel"
    """RST_STREAM with CANCEL."""
    INTERNAL = "internal"
    """RST_STREAM with INTERNAL_ERROR."""
    LEAVE_BEFORE = "leave-before"
    """GOAWAY with a last stream below it: it was not and will not be processed."""
    LEAVE_AFTER = "leave-after"
    """GOAWAY with it as the last stream, and then the connection ends: it may have been processed."""
    HANG_UP = "hang-up"
    """The connection ends without a word."""


CODES = {
    How.REFUSE: h2.errors.ErrorCodes.REFUSED_STREAM,
    How.REFUSE_LATE: h2.errors.ErrorCodes.REFUSED_STREAM,
    How.CANCEL: h2.errors.ErrorCodes.CANCEL,
    How.INTERNAL: h2.errors.ErrorCodes.INTERNAL_ERROR,
}


class H2Server:
    """On a port of its own. A context manager."""

    def __init__(self, pair: Pair) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(*pair)
        self._context.set_alpn_protocols(["h2"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.how = How.ANSWER
        self.seen: list[str] = []
        """Paths of the requests that came, in order."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as connection:
                self._talk(connection)
        except OSError:  # the peer has gone
            return

    def _talk(self, connection: ssl.SSLSocket) -> None:
        protocol = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        protocol.initiate_connection()
        connection.sendall(protocol.data_to_send())
        while data := connection.recv(65536):
            told = [self._heed(protocol, event) for event in protocol.receive_data(data)]
            connection.sendall(protocol.data_to_send())
            if not all(told):
                return

    def _heed(self, protocol: h2.connection.H2Connection, event: h2.events.Event) -> bool:
        """False: the connection ends."""
        if isinstance(event, h2.events.RequestReceived):
            self.seen.append(dict(event.headers)[b":path"].decode())
            return self._began(protocol, event.stream_id)
        if isinstance(event, h2.events.StreamEnded):
            self._whole(protocol, event.stream_id)
        return True

    def _began(self, protocol: h2.connection.H2Connection, stream: int) -> bool:
        if self.how is How.REFUSE:
            protocol.reset_stream(stream, CODES[self.how])
        if self.how is How.LEAVE_BEFORE:
            protocol.close_connection(last_stream_id=0)
        if self.how is How.LEAVE_AFTER:
            protocol.close_connection(last_stream_id=stream)
        return self.how not in (How.HANG_UP, How.LEAVE_BEFORE, How.LEAVE_AFTER)

    def _whole(self, protocol: h2.connection.H2Connection, stream: int) -> None:
        if self.how is How.ANSWER:
            protocol.send_headers(stream, [(":status", "200"), ("content-length", "0")], end_stream=True)
        elif self.how in CODES and self.how is not How.REFUSE:
            protocol.reset_stream(stream, CODES[self.how])
