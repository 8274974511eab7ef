"""``make``'s .venv: what it says where there is no Python for it, and that all that is imported is asked for."""

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
NEWEST = TESTED[-1]


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


def test_the_tested_pythons_are_those_of_the_classifiers():
    assert (3, 11) in TESTED
    assert sorted(TESTED) == TESTED
    assert len(TESTED) >= 4


class TestChoosing:
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


class TestPackages:
    @pytest.fixture
    def log(self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Of all commands. .venv holds a Python whose pip fetches nothing."""
        monkeypatch.setattr(environment, "VENV", tmp_path / "venv")
        monkeypatch.setenv("LOG", str(tmp_path / "log"))
        script(tmp_path / "venv" / "bin" / "python", 'echo "python $@" >> "$LOG"')
        return tmp_path / "log"

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


def test_it_ends_with_1_and_one_line_where_there_can_be_none():
    command = [sys.executable, "-m", "tests.environment", "dev", "no-such-python"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "make: PYTHON=no-such-python: no Python is there\n")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMES_WITH = {"markupsafe": "jinja2", "yarl": "aiohttp", "pydantic-core": "pydantic"}
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
    assert distributions(module) & asked_for(PROJECT["dependencies"])


@pytest.mark.parametrize("module", sorted(imported(test_kit=True)))
def test_the_test_kit_needs_the_extra_of_developers_at_most(module: str):
    extras = PROJECT["optional-dependencies"]
    extra = asked_for([*PROJECT["dependencies"], *extras["dev"], *extras["demo"]])
    assert distributions(module) & extra
