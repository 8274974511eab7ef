"""Strangers who send bodies that never end, through the real Envoy: its memory is bounded, and who is honest loses
nothing."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import WindowUpdated

from extauthz.render import routes
from extauthz.testing.stack import PATCH, SCALE, Stack, scale_body

BODIES = 250
SENT = 3 * 1024 * 1024 - 1
"""Bytes of each, if Envoy takes them."""

MIB = 1024 * 1024
GROWS_MIB = 64


class Flood:
    """One HTTP/2 connection with as many bodies as Envoy lets it begin."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._socket = connection
        self._h2 = H2Connection(H2Configuration(client_side=True))
        self._h2.initiate_connection()
        self._left: dict[int, int] = {}
        self._exchange()

    def begin(self, most: int) -> int:
        """How many were begun."""
        allowed = self._h2.remote_settings.max_concurrent_streams
        for _ in range(min(most, allowed)):
            stream = self._h2.get_next_available_stream_id()
            head = {":method": "PATCH", ":scheme": "https", ":path": SCALE, ":authority": "x"}
            head |= {"authorization": "Bearer invented", "content-type": "application/merge-patch+json"}
            self._h2.send_headers(stream, list(head.items()))
            self._left[stream] = SENT
        self._exchange()
        return len(self._left)

    def push(self) -> int:
        """Send what there are windows for, until Envoy gives no more. The bytes."""
        sent, silent = 0, 0
        while silent < 3:
            before = sent
            for stream, left in self._left.items():
                size = min(left, self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
                if size > 0:
                    self._h2.send_data(stream, bytes(size))
                    self._left[stream] -= size
                    sent += size
            self._exchange()
            silent = silent + 1 if sent == before else 0
        return sent

    def _exchange(self) -> None:
        self._socket.settimeout(10)
        self._socket.sendall(self._h2.data_to_send())
        self._socket.settimeout(0.3)
        try:
            while data := self._socket.recv(65536):
                if any(isinstance(event, WindowUpdated) for event in self._h2.receive_data(data)):
                    break
        except TimeoutError:
            pass
        self._socket.settimeout(10)
        self._socket.sendall(self._h2.data_to_send())


@contextmanager
def flooded(stack: Stack) -> Iterator[tuple[int, int]]:
    """Bodies that were begun, and bytes that were taken."""
    with ExitStack() as open_ones:
        begun = sent = 0
        while begun < BODIES:
            flood = Flood(open_ones.enter_context(stack.connect("h2")))
            begun += flood.begin(BODIES - begun)
            sent += flood.push()
        yield begun, sent


def memory_mib(stack: Stack) -> float:
    status = Path(f"/proc/{stack.envoy.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_bodies_that_never_end_take_little_and_honest_clients_lose_nothing(stack: Stack) -> None:
    """Without bounds Envoy grew from 66 to 812 MiB by one connection, and kept it for half a minute."""
    before = memory_mib(stack)
    with flooded(stack) as (begun, sent):
        grown = memory_mib(stack) - before
        print(f"{begun} bodies, {sent / MIB:.0f} MiB taken: {before:.0f} MiB and {grown:.0f} more; at most {GROWS_MIB}")
        answers = [stack.send("PATCH", SCALE, content=scale_body(3), headers=PATCH).status_code for _ in range(20)]
        assert answers == [200] * 20
    assert begun == BODIES
    assert sent >= BODIES * 1000, "else nothing was tried"
    assert grown < GROWS_MIB
    assert (before + GROWS_MIB) * MIB < routes.HEAP_BYTES
