"""``make``'s .venv: which Python it takes, what it says where there is none, how it finds uv."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tests import environment
from tests.environment import SetupError

ROOT = Path(__file__).parents[2]
TESTED = environment.tested()
OLDEST, NEWEST = TESTED[0], TESTED[-1]
NEXT = (NEWEST[0], NEWEST[1] + 1)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of PATH."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def script(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def python(folder: Path, name: str, version: tuple[int, int]) -> Path:
    return script(folder / name, f"echo {version[0]} {version[1]}")


def spelled(version: tuple[int, int]) -> str:
    return f"python{version[0]}.{version[1]}"


def test_the_tested_pythons_are_those_of_the_classifiers():
    assert (3, 11) in TESTED
    assert sorted(TESTED) == TESTED
    assert len(TESTED) >= 4


class TestChoosing:
    def test_python3_is_taken_if_it_is_tested(self, path: Path):
        python(path, "python3", OLDEST)
        python(path, spelled(NEWEST), NEWEST)
        assert environment.choose("") == ("python3", OLDEST)

    @pytest.mark.parametrize("usual", [None, (3, 9), NEXT], ids=["none", "too-old", "too-new"])
    def test_else_the_newest_that_is_tested(self, path: Path, usual: tuple[int, int] | None):
        if usual is not None:
            python(path, "python3", usual)
        for version in TESTED[:2]:
            python(path, spelled(version), version)
        assert environment.choose("") == (spelled(TESTED[1]), TESTED[1])

    def test_one_that_is_newer_than_all_is_tried_where_there_is_no_other(self, path: Path):
        python(path, "python3", NEXT)
        assert environment.choose("") == ("python3", NEXT)

    def test_the_one_that_is_given_is_taken(self, path: Path):
        python(path, "python3", OLDEST)
        python(path, "mine", NEXT)
        assert environment.choose("mine") == ("mine", NEXT)

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ("", r"needs Python 3\.11 or later; this is Python 3\.9 \(python3\): install Python 3\.\d+"),
            ("nothing", "PYTHON=nothing: no Python is there"),
            ("python3", r"this is Python 3\.9 \(python3\): install"),
        ],
        ids=["found", "given-nothing", "given-too-old"],
    )
    def test_where_there_is_none_the_cure_is_told(self, path: Path, given: str, says: str):
        python(path, "python3", (3, 9))
        with pytest.raises(SetupError, match=says):
            environment.choose(given)

    def test_a_command_that_only_has_the_name_is_none(self, path: Path):
        script(path / spelled(NEWEST), "echo 'command not found'; exit 127")
        python(path, spelled(OLDEST), OLDEST)
        assert environment.choose("").version == OLDEST


class TestPackages:
    UV = """echo "uv $@" >> "$LOG"
case "$*" in
  *no-binary=numpy*) ;;
  *dry-run*) echo 'cause: Because numpy==2.4.6 has no usable wheels and you require' >&2; exit 1 ;;
  *) exit "$UV_ENDS" ;;
esac"""

    @pytest.fixture
    def log(self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Of all commands. .venv holds a Python whose pip fetches nothing."""
        monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
        monkeypatch.setenv("LOG", str(tmp_path / "log"))
        monkeypatch.setenv("UV_ENDS", "0")
        script(tmp_path / "venv" / "bin" / "python", 'echo "python $@" >> "$LOG"; [ "$3" != config ] || cat "$LOG.pip"')
        return tmp_path / "log"

    def test_uv_on_path_fetches_them(self, log: Path, path: Path):
        script(path / "uv", self.UV)
        environment.install("demo", environment.Python("python3", NEWEST))
        (line,) = log.read_text().splitlines()
        assert line.startswith("uv pip install --python=")
        assert line.endswith(" --constraint=constraints.txt --only-binary=pyyaml --editable .[demo]")

    def test_without_uv_pip_does_it_and_says_so(self, log: Path, capfd: pytest.CaptureFixture[str]):
        environment.install("dev", environment.Python("python3", NEWEST))
        sought, done = log.read_text().splitlines()
        assert sought.endswith("install --quiet --constraint=constraints.txt uv")
        assert done.endswith("install --constraint=constraints.txt --only-binary=pyyaml --editable .[dev]")
        assert "uv is not to be had: pip does it" in capfd.readouterr().out

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_release_is_built_with_nothing_whose_hash_is_not_known(
        self, log: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
    ):
        monkeypatch.setenv("REQUIRE_HASHES", "1")
        if fails:
            script(environment.VENV / "bin" / "python", "exit 1")
            with pytest.raises(SetupError, match="could not be installed"):
                environment.install("dev", environment.Python("python3", NEWEST))
            return
        environment.install("dev", environment.Python("python3", NEWEST))
        packages, project = log.read_text().splitlines()
        assert packages.endswith(
            "--no-deps --require-hashes --only-binary=pyyaml --requirement=tools/release/hashes.txt"
        )
        assert project.endswith("--no-deps --no-build-isolation --editable .")

    def test_uv_of_our_own_goes_the_way_that_pip_is_told(self, log: Path, path: Path, monkeypatch: pytest.MonkeyPatch):
        (path / "cat").symlink_to("/bin/cat")
        said = [
            "global.index-url='https://index.example/simple'",
            "user.index-url='https://mine.example/simple'",
            "global.extra-index-url='\\nhttps://a.example\\nhttps://b.example'",
            "global.timeout='9'",
            "global.cert='/pip.crt'",
        ]
        Path(f"{log}.pip").write_text("\n".join(said) + "\n")
        monkeypatch.setenv("SSL_CERT_FILE", "/own.crt")
        told = environment.as_pip()
        assert told["UV_DEFAULT_INDEX"] == "https://mine.example/simple"
        assert told["UV_INDEX"] == "https://a.example https://b.example"
        assert told["UV_INDEX_STRATEGY"] == "unsafe-best-match"
        assert told["SSL_CERT_FILE"] == "/own.crt"

    def test_what_has_no_wheel_for_a_newer_python_is_named_with_the_cure(
        self, log: Path, path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        script(path / "uv", self.UV)
        monkeypatch.setenv("UV_ENDS", "1")
        newer = environment.Python("python3", NEXT)
        with pytest.raises(
            SetupError, match=r"numpy 2\.4\.6 has no wheel for it\. Take one that is tested: install Py"
        ):
            environment.install("dev", newer)
        python(path, spelled(OLDEST), OLDEST)
        with pytest.raises(SetupError, match=f"Take one that is tested: make PYTHON={spelled(OLDEST)}"):
            environment.install("dev", newer)

    def test_what_fails_on_a_tested_python_is_not_put_on_the_python(
        self, log: Path, path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        script(path / "uv", self.UV)
        monkeypatch.setenv("UV_ENDS", "1")
        with pytest.raises(SetupError, match="a package could not be installed: the reason is above"):
            environment.install("dev", environment.Python("python3", NEWEST))


def test_it_ends_with_1_and_one_line_where_there_can_be_none():
    command = [sys.executable, "-m", "tests.environment", "dev", "no-such-python"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "make: PYTHON=no-such-python: no Python is there\n")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMES_WITH = {"betterproto2": "envoy-data-plane", "yarl": "aiohttp", "pydantic-core": "pydantic"}
"""Part of what another package has its users write: messages, URLs, schemas."""
TEST_KIT = "extauthz/demo"
PACKAGES = metadata.packages_distributions()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[<>=\[;! ]", requirement)[0]) for requirement in requirements}


def imported(*, test_kit: bool) -> set[str]:
    """The top packages that the code imports, wherever the import stands."""
    found: set[str] = set()
    for file in (ROOT / "extauthz").rglob("*.py"):
        if test_kit != (TEST_KIT in file.as_posix()):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"extauthz"}


def distributions(module: str) -> set[str]:
    """Who brings it; several may share a namespace."""
    return {COMES_WITH.get(name, name) for name in map(normal, PACKAGES[module])}


def test_every_dependency_is_imported():
    used = set().union(*(distributions(module) for module in imported(test_kit=False)))
    assert asked_for(PROJECT["dependencies"]) - used == set()


ON_DEMAND = {"matplotlib"}
"""Imported where a chart is drawn. Without it the command says what is missing."""


@pytest.mark.parametrize("module", sorted(ON_DEMAND))
def test_what_is_imported_on_demand_is_for_developers(module: str):
    assert distributions(module) & asked_for(PROJECT["optional-dependencies"]["dev"])


@pytest.mark.parametrize("module", sorted(imported(test_kit=False) - ON_DEMAND))
def test_what_is_imported_is_asked_for(module: str):
    optional = PROJECT["optional-dependencies"]["cel"] if module == "cel_expr_python" else []
    assert distributions(module) & asked_for([*PROJECT["dependencies"], *optional])


@pytest.mark.parametrize("module", sorted(imported(test_kit=True)))
def test_the_test_kit_needs_the_extra_of_developers_at_most(module: str):
    extras = PROJECT["optional-dependencies"]
    extra = asked_for([*PROJECT["dependencies"], *extras["dev"], *extras["demo"]])
    assert distributions(module) & extra
