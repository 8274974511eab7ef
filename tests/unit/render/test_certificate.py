"""``extauthz render certificate``: what it writes holds, is renewed by a second run, and nothing else is touched.

Openssl judges: it knows nothing of the library that made them.
"""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from extauthz.cli import exits, main
from extauthz.serve.selfsigned import issuing


def verify(certificates: Path, name: str, *claims: str) -> bool:
    """Whether whoever trusts the folder's authority takes it for this."""
    command = ["openssl", "verify", "-CAfile", str(certificates / "ca.crt"), *claims]
    done = subprocess.run([*command, f"{certificates / name}.crt"], capture_output=True, timeout=60, check=False)
    return done.returncode == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "certificates"


def test_a_server_has_its_names_and_a_client_none(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["render", "certificate", f"{folder}/gate", "extauthz.extauthz-system.svc", "10.96.0.1"]) == 0
    assert capsys.readouterr().out.startswith(f"{folder}/gate.crt and {folder}/gate.key: for a server named extauthz.")
    assert main(["render", "certificate", f"{folder}/envoy"]) == 0
    assert verify(folder, "gate", "-purpose", "sslserver", "-verify_hostname", "extauthz.extauthz-system.svc")
    assert verify(folder, "gate", "-x509_strict", "-purpose", "sslserver", "-verify_ip", "10.96.0.1")
    assert not verify(folder, "gate", "-verify_ip", "127.0.0.1"), "only the names that were asked for"
    assert not verify(folder, "gate", "-purpose", "sslclient")
    assert verify(folder, "envoy", "-purpose", "sslclient")
    assert not verify(folder, "envoy", "-purpose", "sslserver"), "a client may not pose as the gate"


def test_keys_are_for_the_owner_alone(folder: Path):
    main(["render", "certificate", f"{folder}/gate", "gate"])
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {one.name for one in folder.iterdir()} == {"ca.crt", "ca.key", "gate.crt", "gate.key"}
    assert {one.stat().st_mode & 0o777 for one in folder.glob("*.key")} == {0o600}


def test_a_second_run_renews_from_the_same_authority(folder: Path):
    main(["render", "certificate", f"{folder}/gate", "gate"])
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    main(["render", "certificate", "--days", "30", f"{folder}/gate", "gate"])
    after = {one.name: one.read_bytes() for one in folder.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"gate.crt", "gate.key"}
    assert verify(folder, "gate", "-verify_hostname", "gate")
    at = int((datetime.now(UTC) + timedelta(days=31)).timestamp())
    assert not verify(folder, "gate", "-attime", str(at))


@pytest.mark.parametrize("identifier", ["hash", "none", "01:02:03:04"])
def test_an_authority_of_openssl_signs_too(folder: Path, identifier: str):
    """Whatever it is known by."""
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    extensions = f"subjectKeyIdentifier={identifier}\nbasicConstraints=critical,CA:TRUE\n"
    (folder / "openssl.cnf").write_text(
        f"[req]\ndistinguished_name=name\nx509_extensions=more\n[name]\n[more]\n{extensions}"
    )
    command += ["-config", str(folder / "openssl.cnf")]
    where = ["-subj", "/O=ours/CN=extauthz", "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt")]
    subprocess.run([*command, *where], capture_output=True, timeout=60, check=True)
    main(["render", "certificate", f"{folder}/gate", "gate"])
    assert verify(folder, "gate", "-verify_hostname", "gate")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("ca", "ca is the authority's own name; choose another one"),
        ("CA", "CA is the authority's own name; choose another one"),
        ("gate.crt", "gate.crt: say FOLDER/NAME, without .crt, the name of at most 64 characters"),
        ("gate.key", "without .crt"),
        ("g" * 65, "at most 64 characters"),
    ],
)
def test_a_name_that_cannot_be_is_told_before_anything_is_written(folder: Path, name: str, complaint: str, capsys):
    assert main(["render", "certificate", f"{folder}/{name}"]) == exits.USAGE
    assert complaint in capsys.readouterr().err
    assert not folder.exists()


def _without_key(folder: Path) -> None:
    (folder / "ca.key").unlink()


def _of_others(folder: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    (folder / "ca.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _expired(folder: Path) -> None:
    pair = issuing.authority(datetime.now(UTC) - timedelta(days=2), timedelta(days=1))
    for name, text in zip(("ca.crt", "ca.key"), pair.pem, strict=True):
        (folder / name).write_bytes(text)


def _a_leaf(folder: Path) -> None:
    for suffix in (".crt", ".key"):
        (folder / f"gate{suffix}").replace(folder / f"ca{suffix}")


def _a_file(folder: Path) -> None:
    for one in folder.iterdir():
        one.unlink()
    folder.rmdir()
    folder.write_text("")


@pytest.mark.parametrize(
    ("breaks", "complaint"),
    [
        (_without_key, "ca.key: No such file or directory"),
        (_of_others, "are no authority with an elliptic curve's key"),
        (_expired, "has expired; move it away with"),
        (_a_leaf, "is no authority: it may not sign"),
        (_a_file, "certificates: File exists"),
    ],
)
def test_what_cannot_sign_is_told_and_nothing_is_written(folder: Path, breaks, complaint: str, capsys):
    main(["render", "certificate", f"{folder}/gate", "gate"])
    breaks(folder)
    assert main(["render", "certificate", f"{folder}/other"]) == exits.USAGE
    assert complaint in capsys.readouterr().err
    assert not folder.joinpath("other.crt").exists()
