"""Certificates are rotated while writes go through: none fails, and each is decided."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from extauthz.testing.certs import Authority
from extauthz.testing.stack import eventually
from extauthz.testing.volumes import Volume

from .mutual import Mutual, shown
from .test_settling import TEAMS

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


def short_connections(tree: dict[str, Any]) -> None:
    (gate,) = [each for each in tree["static_resources"]["clusters"] if each["name"] == "extauthz"]
    options = gate["typed_extension_protocol_options"][HTTP]
    options.setdefault("common_http_protocol_options", {})["max_requests_per_connection"] = QUESTIONS


class Rotating(Mutual):
    """Three certificates, each in a volume: what the client sees, and what gate and Envoy show each other."""

    def __init__(self, authority: Authority, new: Authority, folder: Path) -> None:
        self.served, self.gates, self.envoys = (Volume(folder / name) for name in ("served", "gates", "envoys"))
        self._issuers = (authority, new)
        self._turned = 0
        self.seen: set[bytes] = set()
        """What the client was shown so far."""
        self._issue()
        files = {"cert_file": self.served["tls.crt"], "key_file": self.served["tls.key"]}
        # What the state file shows does not grow: a short W forgets what was written, and there is room again.
        super().__init__(authority, folder, self.gates, self.envoys, "--window-s", "1", **files)
        self.alter = short_connections

    def rotate(self) -> None:
        """Replaces all three, and returns once they are in force, and gate and Envoy have met with them."""
        updates = self.envoy.stat(UPDATES)
        self._turned += 1
        self._issue()
        eventually(self.shows_another)
        eventually(lambda: self.envoy.stat(UPDATES) > updates)
        eventually(lambda: len(list(self.gate.events("tls-renewed"))) == self._turned)
        met = self.envoy.stat(HANDSHAKES)
        eventually(lambda: self.envoy.stat(HANDSHAKES) >= met + MEETINGS)

    def _issue(self) -> None:
        """Gate and Envoy trust both authorities, and are given certificates of one and of the other in turn."""
        both = b"".join(each.ca.read_bytes() for each in self._issuers)
        self.served.issue(self._issuers[0])
        for at, volume in enumerate((self.gates, self.envoys)):
            volume.issue(self._issuers[(self._turned + at) % 2], both)

    def shows_another(self) -> bool:
        """The client sees a certificate that was not seen before."""
        before = len(self.seen)
        self.seen.add(shown(self.envoy.port, self._issuers[0]))
        return len(self.seen) > before


@pytest.fixture
def rotating(authority: Authority, tmp_path: Path) -> Iterator[Rotating]:
    with Rotating(authority, Authority(tmp_path, "new CA"), tmp_path) as rotating:
        yield rotating


def test_certificates_rotated_under_load_no_failed_write(rotating: Rotating):
    assert rotating.shows_another()
    enough = threading.Event()

    def write(_: int) -> list[int]:
        """Growth, each over a connection of its own."""
        statuses = []
        for team in itertools.islice(itertools.cycle(TEAMS), MOST_WRITES):
            if enough.is_set():
                break
            statuses.append(rotating.grow(team).status_code)
        return statuses

    with ThreadPoolExecutor(WRITERS) as pool:
        writers = pool.map(write, range(WRITERS))
        try:
            for _ in range(ROTATIONS):
                rotating.rotate()
        finally:
            enough.set()
        statuses = [status for each in writers for status in each]

    assert len(rotating.seen) == ROTATIONS + 1
    assert statuses == [200] * len(statuses)
    eventually(lambda: len(rotating.envoy.access_lines()) >= len(statuses))
    lines = rotating.envoy.access_lines()
    assert len(lines) == len(statuses)
    assert len({line["decision_id"] for line in lines}) == len(statuses)
    assert list(rotating.gate.events("tls-refused")) == []
