"""Renewed certificates and authorities are used without a restart, by Envoy and by the gate; docs/render.md says so.

Files are replaced as the kubelet does it. Envoy is a real one, with the rendered configuration, and so is the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import SidecarOptions
from tests.support.certs import Authority
from tests.support.kubelet import Volume
from tests.support.stack import SCALE
from tests.waiting import eventually

from .mutual import Mutual, shown
from .rotation import ROTATIONS, Certificates, Rotation, short_connections
from .test_settling import TEAMS

Make = Callable[[str], Volume]


@pytest.fixture
def volume(tmp_path: Path) -> Make:
    """Makes one by its name."""
    return lambda name: Volume(tmp_path / "volumes" / name)


class TestWhatTheClientSees:
    @pytest.fixture
    def served(self, authority: Authority, volume: Make) -> Volume:
        served = volume("served")
        served.issue(authority)
        return served

    @pytest.fixture
    def envoy(self, served: Volume, tmp_path: Path) -> Iterator[Envoy]:
        files = {"cert_file": served["tls.crt"], "key_file": served["tls.key"], "apiserver_ca_file": served["ca.crt"]}
        with Envoy(SidecarOptions(**files), tmp_path / "envoy") as envoy:
            yield envoy

    def test_a_renewed_certificate_is_shown_each_time(self, authority: Authority, served: Volume, envoy: Envoy):
        seen = {shown(envoy.port, authority)}

        def shows_another() -> bool:
            now, before = shown(envoy.port, authority), len(seen)
            seen.add(now)
            return len(seen) > before

        for _ in range(3):
            served.issue(authority)
            eventually(shows_another)

    def test_a_key_that_does_not_fit_is_refused_and_the_next_good_pair_is_taken(
        self, authority: Authority, served: Volume, envoy: Envoy
    ):
        first = shown(envoy.port, authority)
        one, other = authority.issue("one"), authority.issue("another")
        served.put(tls_crt=one.cert.read_bytes(), tls_key=other.key.read_bytes(), ca_crt=authority.ca.read_bytes())
        eventually(lambda: envoy.stat("sds.serving.key_rotation_failed"))
        assert shown(envoy.port, authority) == first
        served.issue(authority)
        eventually(lambda: shown(envoy.port, authority) != first)

    def test_files_that_are_moved_there_one_by_one_are_taken_once_both_are_there(
        self, authority: Authority, tmp_path: Path
    ):
        """As on a control plane node, where no kubelet keeps them."""
        files = tmp_path / "files"
        files.mkdir()

        def move(name: str) -> None:
            pair = authority.issue(name)
            pair.cert.rename(files / "tls.crt")
            pair.key.rename(files / "tls.key")

        move("first")
        named = {"cert_file": str(files / "tls.crt"), "key_file": str(files / "tls.key")}
        with Envoy(SidecarOptions(**named, apiserver_ca_file=str(authority.ca)), tmp_path / "envoy") as envoy:
            first = shown(envoy.port, authority)
            move("second")
            eventually(lambda: shown(envoy.port, authority) != first)

    def test_a_certificate_and_its_key_may_be_in_two_folders(self, authority: Authority, volume: Make, tmp_path: Path):
        certs, keys = volume("certs"), volume("keys")
        old, new = authority.issue("old"), authority.issue("new")
        certs.put(tls_crt=old.cert.read_bytes())
        keys.put(tls_key=old.key.read_bytes())
        named = {"cert_file": certs["tls.crt"], "key_file": keys["tls.key"], "apiserver_ca_file": str(authority.ca)}
        with Envoy(SidecarOptions(**named), tmp_path / "envoy") as envoy:
            first = shown(envoy.port, authority)
            certs.put(tls_crt=new.cert.read_bytes())
            eventually(lambda: envoy.stat("sds.serving.key_rotation_failed"))
            keys.put(tls_key=new.key.read_bytes())
            eventually(lambda: shown(envoy.port, authority) != first)


@pytest.fixture
def new(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "new CA")


def test_another_authority_of_the_api_server_is_trusted(launch, authority: Authority, new: Authority, volume: Make):
    trusted = volume("apiserver")
    trusted.put(ca_crt=new.ca.read_bytes())
    for stack in launch(apiserver_ca_file=trusted["ca.crt"]):
        assert stack.send("GET", "/version").status_code == 503
        trusted.put(ca_crt=authority.ca.read_bytes())
        eventually(lambda stack=stack: stack.send("GET", SCALE).status_code == 200)


class TestBetweenEnvoyAndGate:
    def test_the_certificate_that_envoy_shows_and_the_authorities_that_both_trust_are_renewed(
        self, authority: Authority, new: Authority, volume: Make, tmp_path: Path
    ):
        """From one authority to another, as an administrator does it: first trusted, then used, then the old one
        dropped. After the last step nothing of the old authority would do."""
        gate, envoy = volume("gate"), volume("envoy")
        both = authority.ca.read_bytes() + new.ca.read_bytes()
        gate.issue(authority)
        envoy.issue(authority)
        with Mutual(authority, tmp_path, gate, envoy) as real:
            for issuer, trusted in ((authority, both), (new, both), (new, new.ca.read_bytes())):
                for each in (gate, envoy):
                    each.issue(issuer, trusted)
                real.connect_anew()
                eventually(real.decides)

    def test_the_old_certificate_of_envoy_does_no_more(
        self, authority: Authority, new: Authority, volume: Make, tmp_path: Path
    ):
        gate, envoy = volume("gate"), volume("envoy")
        gate.issue(authority)
        envoy.issue(authority)
        with Mutual(authority, tmp_path, gate, envoy) as real:
            gate.issue(authority, trusted=new.ca.read_bytes())
            real.connect_anew()
            assert not real.decides()
            envoy.issue(new, trusted=authority.ca.read_bytes())
            eventually(real.decides)

    @pytest.mark.parametrize("bad", [b"", b"no certificate"], ids=["empty", "no-certificate"])
    def test_without_an_authority_envoy_trusts_nobody_until_there_is_one(
        self, authority: Authority, volume: Make, tmp_path: Path, bad: bytes
    ):
        gate, envoy = volume("gate"), volume("envoy")
        gate.issue(authority)
        envoy.issue(authority, trusted=bad)
        with Mutual(authority, tmp_path, gate, envoy) as real:
            assert not real.decides()
            envoy.issue(authority)
            eventually(real.decides)


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
