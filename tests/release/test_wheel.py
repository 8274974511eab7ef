"""What `make release` builds can be installed, and runs from anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tools.release.__main__ as release
from tests.servers.running import QUOTAS, STATE

ROOT = Path(__file__).parents[2]


def test_the_wheel_has_what_it_reads_at_run_time(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    sources = {file.relative_to(ROOT).as_posix() for file in (ROOT / "extauthz").rglob("*") if file.is_file()}
    assert {name for name in sources if "__pycache__" not in name} <= packed


def test_the_wheel_is_of_the_version_that_the_project_says(wheel: Path):
    assert wheel.name == f"extauthz-{release.version()}-py3-none-any.whl"


def test_the_command_is_one_file_that_needs_no_package(wheel: Path, tmp_path: Path):
    made = release.command(wheel, tmp_path)
    plugin = tmp_path / "kubectl-wsq"
    plugin.symlink_to(made)
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    (tmp_path / "quotas.yaml").write_text(QUOTAS % 4)
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    words = ["top", f"--quotas={tmp_path}/quotas.yaml", f"--state={tmp_path}/state.json"]
    run = subprocess.run(
        [sys.executable, "-I", plugin, *words], env=bare, capture_output=True, text=True, timeout=120, check=False
    )
    assert "acme" in run.stdout, run.stderr


@pytest.mark.envoy
def test_the_wheel_runs_the_demo_in_an_environment_that_was_empty(wheel: Path, tmp_path: Path):
    python = release.install(tmp_path / "venv", f"{wheel}[demo]")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [python.with_name("extauthz"), "demo"]
    run = subprocess.run(
        command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "all as they must be" in run.stdout
    assert [*elsewhere.iterdir()] == []
