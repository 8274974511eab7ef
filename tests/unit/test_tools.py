"""A program of Debian's that tests need: named with its cure, installed by its target, required by CI."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests import bare, tools
from tests.controlplane.parts import HIDDEN
from tests.observability.promtool import PROMTOOL
from tests.tools import Tool

ROOT = Path(__file__).parents[2]
ABSENT = Tool("no-such-program", "its-package")


@pytest.fixture
def item(request: pytest.FixtureRequest) -> pytest.Item:
    """This test, marked as one that needs the program."""
    node: pytest.Item = request.node
    node.keywords[ABSENT.program] = True
    node.own_markers.append(pytest.Mark(ABSENT.program, (), {}, _ispytest=True))
    return node


def test_what_is_missing_is_named_with_the_target_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HIDDEN, raising=False)
    assert ABSENT.missing == "no-such-program is not on PATH: run `make no-such-program`"
    assert Tool("sh", "dash").missing == ""
    monkeypatch.setenv(HIDDEN, "sh")
    assert Tool("sh", "dash").missing == "sh is not on PATH: run `make sh`"


def test_a_test_that_needs_it_is_skipped_loudly_without_it(item: pytest.Item) -> None:
    with pytest.raises(pytest.skip.Exception, match="run `make no-such-program`"):
        ABSENT.pytest_runtest_setup(item)


def test_where_it_is_required_the_test_fails(item: pytest.Item, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "asked_for", lambda _: {ABSENT.program})
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="run `make no-such-program`") as ended:
        ABSENT.pytest_runtest_setup(item)
    assert ended.type is pytest.fail.Exception


def test_the_target_installs_the_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wanted: list[object] = []
    monkeypatch.setattr(tools, "install", wanted.append)
    assert ABSENT.main() == 0
    assert wanted == [{"no-such-program": "its-package"}]
    assert capsys.readouterr().out == "no-such-program: here\n"


def test_what_cannot_be_installed_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(_: object) -> None:
        raise tools.CannotInstallError("there is no apt-get")

    monkeypatch.setattr(tools, "install", fails)
    assert ABSENT.main() == 1
    assert capsys.readouterr().err == "make no-such-program: there is no apt-get\n"


def test_ci_installs_promtool_before_it_requires_it() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    (required,) = (number for number, line in enumerate(lines) if line.startswith("export EXTAUTHZ_REQUIRE="))
    assert lines.index("make promtool") < required
    assert "promtool" in lines[required]
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    assert f"make {PROMTOOL.program}" in listed


def test_ci_runs_what_a_bare_machine_leaves_out_once_all_is_built() -> None:
    """Both stages of CI together run every test: marks say what needs a part."""
    script = (ROOT / ".ci" / "run").read_text()
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    names = {re.split(r"\W", marker)[0] for marker in markers}
    names -= {"envoy", "cluster"}  # a package brings Envoy; `make full` has the cluster
    bare, rest = script.split("export EXTAUTHZ_REQUIRE=")
    assert "PARTS_MISSING=all" in bare
    assert " tests/unit tests/simulate --cov" in bare
    (chosen,) = re.findall(r" tests/unit tests/simulate -m '(.*?)'", rest)
    assert set(chosen.split(" or ")) == names
    assert "--ignore=tests/unit --ignore=tests/simulate" in rest


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
