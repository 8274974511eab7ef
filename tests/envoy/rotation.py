"""Certificates that are replaced while writes go through: Envoy's for the client, and what gate and Envoy show."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from extauthz.demo.gate import Gate
from tests.support.certs import LOOPBACK_NAMES, Authority
from tests.support.kubelet import Volume
from tests.waiting import eventually

ROTATIONS = 5
WRITERS = 3
MEETINGS = 10
"""Of Envoy and gate after each rotation, before the next one."""
MOST_WRITES = 3000
"""Of one writer: ends it, should no rotation ever be noticed."""

QUESTIONS = 2
"""Questions that one connection carries to the gate, so that new ones are opened all the time."""

HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
UPDATES = "cluster.extauthz.client_ssl_socket_factory.ssl_context_update_by_sds"
HANDSHAKES = "cluster.extauthz.ssl.handshake"


def short_connections(clusters: list[dict[str, Any]]) -> None:
    """To the gate."""
    (gate,) = [each for each in clusters if each["name"] == "extauthz"]
    options = gate["typed_extension_protocol_options"][HTTP]
    options.setdefault("common_http_protocol_options", {})["max_requests_per_connection"] = QUESTIONS


class Certificates:
    """Three, each in a volume. Gate and Envoy trust two authorities, and have certificates of one and other in turn.

    ``names`` are what the client dials.
    """

    def __init__(
        self, authority: Authority, new: Authority, folder: Path, names: tuple[str, ...] = LOOPBACK_NAMES
    ) -> None:
        self.served, self.gates, self.envoys = (Volume(folder / name) for name in ("served", "gates", "envoys"))
        self.both = authority.ca.read_bytes() + new.ca.read_bytes()
        self.turned = 0
        """How often all three were replaced."""
        self._issuers, self._names = (authority, new), names
        self._issue()

    def turn(self) -> None:
        """Replaces all three."""
        self.turned += 1
        self._issue()

    def _issue(self) -> None:
        self.served.issue(self._issuers[0], names=self._names)
        for at, volume in enumerate((self.gates, self.envoys)):
            volume.issue(self._issuers[(self.turned + at) % 2], self.both)


class Rotation:
    """How a rotation is noticed: by Envoy's statistics, the gate's log, and what the client sees."""

    def __init__(
        self, certificates: Certificates, gate: Gate, stat: Callable[[str], int], look: Callable[[], bytes]
    ) -> None:
        self._certificates, self._gate, self._stat, self._look = certificates, gate, stat, look
        self.seen: set[bytes] = set()
        """What the client was shown so far."""

    def rotate(self) -> None:
        """Replaces all three, and returns once they are in force, and gate and Envoy have met with them."""
        updates = self._stat(UPDATES)
        self._certificates.turn()
        eventually(self.shows_another)
        eventually(lambda: self._stat(UPDATES) > updates)
        eventually(lambda: len(list(self._gate.events("tls-renewed"))) == self._certificates.turned)
        met = self._stat(HANDSHAKES)
        eventually(lambda: self._stat(HANDSHAKES) >= met + MEETINGS)

    def shows_another(self) -> bool:
        """The client sees a certificate that was not seen before."""
        before = len(self.seen)
        self.seen.add(self._look())
        return len(self.seen) > before

    def under_load(self, write: Callable[[int, int], int]) -> list[int]:
        """Rotates so many times while writers go on; what they were answered. ``write`` is given a number of the writer
        and of its write, and tells the HTTP status."""
        enough = threading.Event()

        def go_on(writer: int) -> list[int]:
            statuses = []
            for number in range(MOST_WRITES):
                if enough.is_set():
                    break
                statuses.append(write(writer, number))
            return statuses

        assert self.shows_another()
        with ThreadPoolExecutor(WRITERS) as pool:
            writers = pool.map(go_on, range(WRITERS))
            try:
                for _ in range(ROTATIONS):
                    self.rotate()
            finally:
                enough.set()
            return [status for each in writers for status in each]
