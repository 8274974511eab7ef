"""Certificates are rotated while writes go through: none fails, and each is decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from extauthz.testing.certs import Authority
from tests.waiting import eventually

from .mutual import Mutual, shown
from .rotation import ROTATIONS, Certificates, Rotation, short_connections
from .test_settling import TEAMS


@pytest.fixture
def certificates(authority: Authority, tmp_path: Path) -> Certificates:
    return Certificates(authority, Authority(tmp_path, "new CA"), tmp_path)


@pytest.fixture
def real(authority: Authority, certificates: Certificates, tmp_path: Path) -> Iterator[Mutual]:
    served = certificates.served
    files = {"cert_file": served["tls.crt"], "key_file": served["tls.key"]}
    # What the state file shows does not grow: a short W forgets what was written, and there is room again.
    flags = ("--window-s", "1")
    real = Mutual(authority, tmp_path, certificates.gates, certificates.envoys, *flags, **files)
    real.alter = lambda tree: short_connections(tree["static_resources"]["clusters"])
    with real:
        yield real


def test_certificates_rotated_under_load_no_failed_write(
    real: Mutual, certificates: Certificates, authority: Authority
):
    rotation = Rotation(certificates, real.gate, real.envoy.stat, lambda: shown(real.envoy.port, authority))

    def write(_: int, number: int) -> int:
        """Growth, each over a connection of its own."""
        return real.grow(TEAMS[number % len(TEAMS)]).status_code

    statuses = rotation.under_load(write)

    assert len(rotation.seen) == ROTATIONS + 1
    assert statuses == [200] * len(statuses)
    eventually(lambda: len(real.envoy.access_lines()) >= len(statuses))
    lines = real.envoy.access_lines()
    assert len(lines) == len(statuses)
    assert len({line["decision_id"] for line in lines}) == len(statuses)
    assert list(real.gate.events("tls-refused")) == []
