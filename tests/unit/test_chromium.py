"""``make chromium`` and what asks for it, with a stand-in for apt-get."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tools
from tests.controlplane import netns
from tests.controlplane.parts import HIDDEN
from tests.page.chromium import CHROMIUM

ROOT = Path(__file__).parents[2]
APT = """#!/bin/sh
[ "$1" = install ] || exit 0
for name; do :; done
echo "$name" >> "$APT_LOG"
echo '#!/bin/sh' > "$APT_INTO/$name"
chmod +x "$APT_INTO/$name"
"""
TEST = "tests/page/test_in_chromium.py::test_all_of_it_works_without_a_script"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of PATH: a shell, chmod, and apt-get."""
    folder = tmp_path / "path"
    folder.mkdir()
    for name in ("sh", "chmod"):
        (folder / name).symlink_to(str(shutil.which(name)))
    (folder / "apt-get").write_text(APT)
    (folder / "apt-get").chmod(0o755)
    for module in (netns, tools):
        monkeypatch.setattr(module, "environment", lambda: {**os.environ, "PATH": str(folder)})
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv(HIDDEN, raising=False)
    monkeypatch.setenv("APT_LOG", str(tmp_path / "apt.log"))
    monkeypatch.setenv("APT_INTO", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


def test_a_missing_chromium_is_named_with_its_cure_and_installed_once(path: Path, tmp_path: Path):
    assert CHROMIUM.missing == "chromium is not on PATH: run `make chromium`"
    assert CHROMIUM.main() == 0
    assert CHROMIUM.main() == 0
    assert (tmp_path / "apt.log").read_text() == "chromium\n"
    assert CHROMIUM.missing == ""


def test_where_it_cannot_be_installed_the_target_fails_and_says_how(path: Path, capsys: pytest.CaptureFixture[str]):
    (path / "apt-get").unlink()
    assert CHROMIUM.main() == 1
    assert "make chromium: chromium not on PATH, and there is no apt-get" in capsys.readouterr().err


@pytest.mark.parametrize("hidden", ["chromium", "all"])
@pytest.mark.parametrize(
    ("require", "code", "says"),
    [
        ("", 0, "NOT TESTED, 1 tests: chromium is not on PATH"),
        ("chromium", 1, "chromium is not on PATH: run `make chromium`"),
    ],
)
def test_without_it_tests_are_skipped_loudly_or_fail_where_it_is_required(
    require: str, code: int, says: str, hidden: str
):
    environment = {**os.environ, "EXTAUTHZ_REQUIRE": require, HIDDEN: hidden}
    command = [sys.executable, "-m", "pytest", "-q", TEST]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stdout + run.stderr
    assert says in run.stdout
