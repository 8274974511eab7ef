"""A token that nobody issued, at the real gate behind the real Envoy: who takes no answer holds no room by that."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

from extauthz.core.ledger.pending_write import Event
from extauthz.render import bounds
from extauthz.testing.certs import Authority
from extauthz.testing.stack import eventually, scale_body
from tests.envoy.test_settling import Real

TEAM = "code-401"


@contextmanager
def window_of_none(authority: Authority, port: int) -> Iterator[None]:
    """``web`` to 3, all the room there is, by a client that takes no byte of an answer's body."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection(("127.0.0.1", port), 10)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        peer = H2Connection(H2Configuration(client_side=True))
        peer.initiate_connection()
        peer.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        path = f"/apis/apps/v1/namespaces/{TEAM}/deployments/web/scale"
        head = {":method": "PATCH", ":scheme": "https", ":path": path, ":authority": "x"}
        head |= {"authorization": "Bearer invented", "content-type": "application/merge-patch+json"}
        peer.send_headers(1, list(head.items()))
        peer.send_data(1, scale_body(3), end_stream=True)
        connection.sendall(peer.data_to_send())
        yield


def impatient(tree: Any) -> None:
    (listener,) = tree["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][-1]["typed_config"]
    assert manager["stream_flush_timeout"] == f"{bounds.FLUSH_S:g}s"
    manager["stream_flush_timeout"] = "1s"


def test_a_stranger_who_takes_no_answer_holds_room_for_seconds_alone(authority: Authority, tmp_path: Path) -> None:
    """It was held for as long as a stream may last, 127 s."""
    real = Real(authority, tmp_path)
    real.alter = impatient
    with real:
        assert real.has_room(TEAM)
        real.api.failing = 401
        with window_of_none(authority, real.envoy.port):
            eventually(lambda: real.answers(Event.REFUSED) == 1)
            real.api.failing = 0
            assert real.has_room(TEAM)
    assert bounds.FLUSH_S <= 10
