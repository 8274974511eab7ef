"""The check of what a network namespace of its own needs, with a stand-in for apt-get."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import netns
from tests.controlplane.parts import HIDDEN

ROOT = Path(__file__).parents[2]
APT = """#!/bin/sh
echo "$@ $DEBIAN_FRONTEND" >> "$APT_LOG"
[ "$1" = install ] || exit 0
for name in $APT_BRINGS; do echo '#!/bin/sh' > "$APT_INTO/$name"; chmod +x "$APT_INTO/$name"; done
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of PATH: a folder with a shell and chmod, and no tool that is asked for."""
    folder = tmp_path / "path"
    folder.mkdir()
    for name in ("sh", "chmod"):
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setattr(netns, "environment", lambda: {**os.environ, "PATH": str(folder)})
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv(HIDDEN, raising=False)
    monkeypatch.setenv("APT_LOG", str(tmp_path / "apt.log"))
    monkeypatch.setenv("APT_INTO", str(folder))
    monkeypatch.setenv("APT_BRINGS", "unshare ip iptables")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


def binary(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_a_missing_tool_is_named_with_the_target_that_installs_it(path: Path) -> None:
    binary(path / "unshare")
    binary(path / "ip")
    assert netns.why_not() == ["iptables is not on PATH: run `make netns` (tests/controlplane/README.md)"]


def test_only_packages_of_missing_tools_are_installed_after_an_update(path: Path, tmp_path: Path) -> None:
    binary(path / "unshare")
    binary(path / "apt-get", APT)
    assert netns.main() == 0
    assert (tmp_path / "apt.log").read_text().splitlines() == [
        "update --quiet noninteractive",
        "install --quiet --yes --no-install-recommends iproute2 iptables noninteractive",
    ]
    assert netns.missing() == []


def test_where_all_is_here_nothing_is_done(path: Path, tmp_path: Path) -> None:
    binary(path / "apt-get", APT)
    for tool in netns.PACKAGES:
        binary(path / tool)
    assert netns.main() == 0
    assert not (tmp_path / "apt.log").exists()


def test_a_user_who_is_not_root_goes_through_sudo(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    binary(path / "apt-get", APT)
    binary(path / "sudo", '#!/bin/sh\necho "sudo $@" >> "$APT_LOG"\nshift 2\n"$@"\n')
    assert netns.main() == 0
    said = (tmp_path / "apt.log").read_text().splitlines()
    assert said[0] == "sudo env DEBIAN_FRONTEND=noninteractive apt-get update --quiet"


def test_without_apt_get_it_says_what_to_install(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert netns.main() == 1
    assert "there is no apt-get: install your system's util-linux iproute2 iptables" in capsys.readouterr().err


def test_without_root_or_sudo_it_says_what_root_must_run(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    binary(path / "apt-get", APT)
    assert netns.main() == 1
    assert "run as root: apt-get update && apt-get install util-linux iproute2 iptables" in capsys.readouterr().err


def test_packages_that_do_not_bring_the_tool_are_no_success(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APT_BRINGS", "unshare ip")
    binary(path / "apt-get", APT)
    assert netns.main() == 1
    assert "iptables not on PATH although" in capsys.readouterr().err


def test_folders_of_system_programs_are_looked_in_too() -> None:
    assert netns.environment()["PATH"].endswith(":/usr/sbin:/sbin")


def test_ci_sets_up_what_it_requires_before_it_runs_the_tests() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    required = next(number for number, line in enumerate(lines) if line.startswith("export EXTAUTHZ_REQUIRE="))
    assert lines.index("make netns") < required
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    assert "make netns" in listed


def test_what_is_here_can_be_taken_for_missing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in netns.PACKAGES:
        binary(path / name, "#!/bin/sh\n")
    assert netns.missing() == []
    monkeypatch.setenv(HIDDEN, "netns")
    assert len(netns.missing()) == len(netns.PACKAGES)


def test_it_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HIDDEN, raising=False)
    command = [sys.executable, "-m", "tests.controlplane.netns"]
    if netns.missing():
        pytest.skip("it would install what is missing here")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "unshare, ip, iptables: here\n")
