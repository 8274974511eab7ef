"""A run ends with one line: what was tested, what was not, and what would have it tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.closing import closing
from tests.controlplane.parts import HIDDEN

ROOT = Path(__file__).parents[2]
PLANE = "etcd is not here: run `make controlplane` (README.md), or set ETCD"
HELM = "helm is not here: run `make helm`"
WHEEL = "no wheel was built: ask for it by EXTAUTHZ_REQUIRE=wheel"
NO_CURE = "no network namespace here: not permitted"


@pytest.mark.parametrize(
    ("failed", "left_out", "says"),
    [
        pytest.param(0, [], "Tested: 1,234, all well. Nothing was left out.", id="all"),
        pytest.param(2, [], "Tested: 1,236, 2 of them red. Nothing was left out.", id="red"),
        pytest.param(
            0,
            [[PLANE, HELM], [PLANE]],
            "Tested: 1,234, all well. Not tested: 2. `make controlplane helm test` has them tested.",
            id="parts",
        ),
        pytest.param(
            0,
            [[HELM], [WHEEL]],
            "Tested: 1,234, all well. Not tested: 2. `EXTAUTHZ_REQUIRE=wheel make helm test` has them tested.",
            id="what-has-to-be-asked-for",
        ),
        pytest.param(
            0,
            [[HELM], [NO_CURE], []],
            "Tested: 1,234, all well. Not tested: 3. `make helm test` has 1 of them tested.",
            id="some-cannot-be-had",
        ),
        pytest.param(0, [[NO_CURE]], "Tested: 1,234, all well. Not tested: 1.", id="none-can-be-had"),
    ],
)
def test_it_says_what_was_tested_and_what_would_have_the_rest_tested(failed: int, left_out: list[list[str]], says: str):
    assert closing(1234, failed, left_out) == says


@pytest.mark.parametrize("processes", ["0", "2"], ids=["one-process", "side-by-side"])
def test_it_stands_below_the_line_of_pytest(processes: str):
    tests = ["tests/controlplane/test_plane.py", "tests/unit/test_tools.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", processes, *tests]
    environment = {**os.environ, HIDDEN: "all"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)
    *_, of_pytest, ours = run.stdout.splitlines()
    passed = re.match(r"(\d+) passed, 2 skipped in ", of_pytest)
    assert passed is not None, of_pytest
    assert ours == f"Tested: {passed[1]}, all well. Not tested: 2. `make controlplane test` has them tested."
