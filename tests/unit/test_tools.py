"""A program of Debian's that tests need: named with its cure, installed by its target, required by CI."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.controlplane import marker
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


def test_a_test_that_needs_it_is_skipped_loudly_without_it(item: pytest.Item) -> None:
    with pytest.raises(pytest.skip.Exception, match="run `make no-such-program`"):
        ABSENT.pytest_runtest_setup(item)


def test_where_it_is_required_the_test_fails(item: pytest.Item, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker, "asked_for", lambda _: {ABSENT.program})
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="run `make no-such-program`") as ended:
        ABSENT.pytest_runtest_setup(item)
    assert ended.type is pytest.fail.Exception


def test_ci_runs_what_a_bare_machine_leaves_out_once_all_is_built() -> None:
    """All stages of CI together run every test but most of the cluster's: marks say what needs a part."""
    script = (ROOT / ".ci" / "run").read_text()
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    names = {re.split(r"\W", marker)[0] for marker in markers}
    names -= {"envoy", "cluster"}  # a package brings Envoy; the cluster has a stage of its own
    bare, rest, cluster = script.split("export EXTAUTHZ_REQUIRE=")
    assert "PARTS_MISSING=all" in bare
    assert "bare tests/unit --cov=extauthz.core --cov-report=term:skip-covered --cov-fail-under=100 " in bare
    assert "bare tests/simulate " in bare
    (chosen,) = re.findall(r" tests/unit tests/simulate -m '(.*?)'", rest)
    assert set(chosen.split(" or ")) == names
    assert "--ignore=tests/unit --ignore=tests/simulate --ignore=tests/cluster" in rest
    assert "tests/cluster/test_first_week.py tests/cluster/test_cluster.py" in cluster
