"""What runs again: a test whose wait ran out of time, once, alone, at the end; and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import again
from tests.closing import closing
from tests.controlplane.parts import HIDDEN

pytest_plugins = ["pytester"]

WORDS = ("late", "group", "part", "never", "wrong", "slow", "well")

TESTS = """
    import asyncio
    from pathlib import Path

    import pytest

    from tests.waiting import OutOfTimeError, eventually, until

    def runs(name):
        with Path(__file__).with_name(name).open("a") as file:
            file.write("x")
        return len(Path(__file__).with_name(name).read_text())

    def test_late():
        number = runs("late")
        eventually(lambda: number > 1, within_s=0.01)

    def test_late_in_a_group():
        number = runs("group")

        async def wait():
            async with asyncio.TaskGroup() as group:
                group.create_task(until(lambda: number > 1, within_s=0.01))

        asyncio.run(wait())

    @pytest.fixture
    def part():
        if runs("part") == 1:
            raise OutOfTimeError("it does not start")

    def test_of_a_part(part):
        pass

    def test_never():
        runs("never")
        eventually(lambda: False, within_s=0.01)

    def test_wrong():
        assert runs("wrong") > 1

    def test_slow():
        if runs("slow") == 1:
            raise TimeoutError("of the product itself")

    def test_well():
        runs("well")
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Runs some of them; the exit status, the lines, and how often each ran."""
    monkeypatch.setenv("PYTHONPATH", str(Path(again.__file__).parents[1]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take their time
    monkeypatch.delenv("SECOND_RUN", raising=False)
    pytester.makeconftest('pytest_plugins = ["tests.again"]')
    file = pytester.makepyfile(test_them=TESTS)

    def run(words: str, *how: str) -> tuple[int, str, dict[str, int]]:
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", words, *how)
        counts = {one.name: len(one.read_text()) for one in file.parent.iterdir() if one.name in WORDS}
        return int(result.ret), result.stdout.str(), counts

    return run


def test_what_ran_out_of_time_runs_once_more_and_is_named(run) -> None:
    status, said, counts = run("late or part or well", "-p", "xdist", "-n", "2")
    assert status == 0
    assert counts == {"late": 2, "group": 2, "part": 2, "well": 1}
    for name in ("test_late", "test_late_in_a_group", "test_of_a_part"):
        assert f"OUT OF TIME, and well once alone: test_them.py::{name}" in said


def test_what_runs_out_of_time_twice_is_red_and_nothing_else_runs_again(run) -> None:
    status, said, counts = run("test_late or never or wrong or slow")
    assert status == 1
    assert counts == {"late": 2, "group": 2, "never": 2, "wrong": 1, "slow": 1}
    assert "3 failed" in said
    assert "OUT OF TIME, and well once alone: test_them.py::test_never" not in said


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


def test_it_stands_below_the_line_of_pytest_where_tests_run_side_by_side():
    tests = ["tests/controlplane/test_plane.py", "tests/unit/test_tools.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *tests]
    environment = {**os.environ, HIDDEN: "all"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)
    *_, of_pytest, ours = run.stdout.splitlines()
    passed = re.match(r"(\d+) passed, 2 skipped in ", of_pytest)
    assert passed is not None, of_pytest
    assert ours == f"Tested: {passed[1]}, all well. Not tested: 2. `make controlplane test` has them tested."
    assert "NOT TESTED, 2 tests: " in run.stdout
