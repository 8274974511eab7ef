"""``make demo`` runs on the real API server where there is one, else on the stand-in, says so, and shows the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.parts import HIDDEN

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        pytest.param({}, "API server (the real one)", marks=pytest.mark.controlplane, id="real"),
        pytest.param(
            {HIDDEN: "kube-apiserver"},
            "since kube-apiserver v1.36.3 is not here: run `make controlplane`",
            marks=pytest.mark.controlplane,
            id="no-kube-apiserver",
        ),
        pytest.param({HIDDEN: "all"}, "since etcd v3.6.8 is not here: run `make controlplane`", id="none"),
    ],
)
def test_the_demo_says_what_it_runs_on_and_shows_the_same_table_on_either(environment: dict[str, str], says: str):
    command = [sys.executable, "-m", "tests.controlplane.demo"]
    given = {**os.environ, **environment, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, env=given, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    assert says in run.stdout
    table = run.stdout[run.stdout.index("what happened") :].split("\n\n")[0]
    shown = (ROOT / "tests" / "data" / "demo.txt").read_text()
    assert table in shown, "tests/data/demo.txt shows another run: paste the table anew"
