"""``make bare``: where its machines come from, and who may make them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import bare

APT = """#!/bin/sh
[ "$1" = indextargets ] || exit 1
echo "Debian-Security http://security.example/debian-security/"
echo "Debian http://mirror.example/debian/"
echo "Debian http://other.example/debian/"
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of PATH: apt-get."""
    (tmp_path / "apt-get").write_text(APT)
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_debian_comes_from_where_this_machine_has_it(path: Path):
    assert bare.mirror() == ["http://mirror.example/debian/"]


@pytest.mark.parametrize("apt", [None, "#!/bin/sh\nexit 1\n"], ids=["no-debian", "says-nothing"])
def test_else_debootstrap_knows_a_mirror(path: Path, apt: str | None):
    if apt is None:
        (path / "apt-get").unlink()
    else:
        (path / "apt-get").write_text(apt)
    assert bare.mirror() == []


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert bare.main(["sid"]) == 1
    assert "make bare: run it as root" in capsys.readouterr().err


def test_what_fails_on_a_machine_fails_the_target(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(bare, "install", lambda _: None)
    failed = {"trixie": 0, "sid": 1}
    monkeypatch.setattr(bare, "tried", lambda release, _: failed[release])
    assert bare.main(["trixie"]) == 0
    assert bare.main([]) == 1
