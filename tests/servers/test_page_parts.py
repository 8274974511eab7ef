"""The parts of the page that are arithmetic: bars, the chart, times, addresses."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path
from typing import Any

import pytest

from extauthz.servers.page import knows, rendering, workload
from extauthz.servers.page.chart import FRAME, INSET, bar, chart
from extauthz.servers.page.views import Decided

ROOT = Path(__file__).parents[2]


def row(used: str, reserved: str, hard: str) -> dict[str, str]:
    return {"used": used, "reserved": reserved, "hard": hard}


@pytest.mark.parametrize(
    ("given", "wide", "texts"),
    [
        pytest.param(row("2", "1", "10"), (20.0, 10.0, 100.0), ("7", "", 30), id="room"),
        pytest.param(row("8", "2", "10"), (80.0, 20.0, 100.0), ("0", "", 100), id="full"),
        pytest.param(row("8", "3", "10"), (72.73, 18.18, 90.91), ("", "1", 110), id="over-by-what-is-reserved"),
        pytest.param(row("20", "0", "10"), (50.0, 0.0, 50.0), ("", "10", 200), id="over"),
        pytest.param(row("0", "0", "0"), (0.0, 0.0, 0.0), ("0", "", 0), id="nothing-of-nothing"),
        pytest.param(row("1", "0", "0"), (0.0, 0.0, 0.0), ("", "1", 100), id="something-of-nothing"),
    ],
)
def test_a_bar_is_as_long_as_what_it_shows(given, wide, texts):
    drawn = bar("pods", given)
    assert (drawn.used_wide, drawn.reserved_wide, drawn.hard_at) == wide
    assert (drawn.free, drawn.over, drawn.percent) == texts


def decided(second: int, before: int | None, to: int | None, verdict: str, *, dry: bool = False) -> Decided:
    at = f"2027-01-15T08:00:{second:02}.000Z"
    return Decided(at, at[11:19], verdict, before, to, dry, "", "")


def test_a_chart_has_a_mark_for_each_decision_and_a_line_for_what_was_granted():
    newest_first = [
        decided(50, 4, 8, "deny"),
        decided(40, 4, 9, "deny", dry=True),
        decided(30, 2, 4, "allow"),
        decided(20, 2, None, "allow"),
        decided(10, 2, 8, "unavailable"),
    ]
    drawn = chart(newest_first)
    assert drawn is not None
    high, middle, low = FRAME.top, (FRAME.top + FRAME.bottom) / 2, FRAME.bottom - (FRAME.bottom - FRAME.top) / 4
    first, last = FRAME.left + INSET, FRAME.right - INSET
    assert [(mark.kind, mark.x, mark.y, mark.foot) for mark in drawn.marks] == [
        ("undecided", first, high, low),
        ("granted", (first + last) / 2, middle, low),
        ("refused", last, high, middle),
    ]
    half = (first + last) / 2
    points = [(FRAME.left, low), (half, low), (half, middle), (FRAME.right, middle)]
    assert drawn.granted == " ".join(f"{x},{y}" for x, y in points)
    assert [tick.text for tick in drawn.up] == ["0", "2", "4", "6", "8"]
    assert [tick.text for tick in drawn.along] == ["08:00:10", "08:00:30", "08:00:50"]
    assert drawn.summary.startswith("3 decisions from 08:00:10 to 08:00:50 UTC: 1 granted, 1 refused.")


def test_a_count_that_moved_without_the_gate_moves_the_line():
    drawn = chart([decided(20, 8, 9, "allow"), decided(10, 2, 4, "allow")])
    assert drawn is not None
    assert drawn.marks[1].foot == pytest.approx(FRAME.bottom - (FRAME.bottom - FRAME.top) * 8 / 9, abs=0.05)


def test_without_counts_there_is_no_chart():
    assert chart([]) is None
    assert chart([decided(1, None, None, "allow"), decided(2, 1, 2, "allow", dry=True)]) is None


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [(1, ["0", "1"]), (7, ["0", "2", "4", "6"]), (20, ["0", "5", "10", "15", "20"]), (31, ["0", "10", "20", "30"])],
)
def test_the_upward_axis_has_a_few_round_numbers(highest: int, ticks: list[str]):
    drawn = chart([decided(1, 0, highest, "allow")])
    assert drawn is not None
    assert [tick.text for tick in drawn.up] == ticks


def test_a_very_high_axis_has_thousands():
    drawn = chart([decided(1, 0, 2**31 - 1, "deny")])
    assert drawn is not None
    assert drawn.up[-1].text == "2,000,000,000"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "under a minute"), (59.9, "under a minute"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (172_800, "2 d")],
)
def test_times_are_told_in_one_unit(seconds: float, text: str):
    assert rendering.lasting(seconds) == text


def test_addresses_keep_a_name_in_one_place():
    assert rendering.of_quota("a/b?c#d") == "/quotas/a%2Fb%3Fc%23d"
    named = {"namespace": "n s", "resource": "deployments.apps", "name": "../x"}
    assert rendering.of_workload(named) == "/namespaces/n%20s/workloads/deployments.apps/..%2Fx"
    assert rendering.of_tree(q="a&b", only="") == "/?q=a%26b"


async def test_how_fresh_a_gate_is_goes_by_the_watch_that_is_quietest():
    told = knows.Knowledge("1", watches=[("pods", 3.0), ("deployments.apps", 130.0)])
    assert knows._freshness(told).endswith("The quietest, deployments.apps, was last heard of 2 min ago.")


def test_each_file_beside_the_code_is_in_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["extauthz"]
    folder = Path(rendering.__file__).parent
    for file in [*(folder / "static").iterdir(), *(folder / "templates").iterdir()]:
        inside = str(file.relative_to(ROOT / "extauthz"))
        assert any(fnmatch.fnmatch(inside, pattern) for pattern in patterns), inside


def test_what_is_vendored_names_its_version_and_licence():
    text = (Path(rendering.__file__).parent / "static" / "VENDORED.txt").read_text()
    for name in ("htmx.min.js", "htmx-sse.min.js"):
        assert name in text
    assert "2.0.11" in text
    assert "Zero-Clause BSD" in text


@pytest.mark.parametrize(
    ("most", "asks", "says"),
    [
        (5, None, "It has 3 replicas and may have 5."),
        (5, 5, "It has 3 replicas and may have 5."),
        (5, 24, "It has 3 replicas and may have 5; its autoscaler may ask for 24."),
        (3, 24, "It has 3 replicas and may have no more; its autoscaler may ask for 24."),
        (None, 24, "It has 3 replicas, and no quota bounds it."),
    ],
)
def test_what_its_autoscaler_may_ask_for_is_told_where_not_all_of_it_fits(most: Any, asks: Any, says: str):
    room = {"replicas": most, "observedReplicas": 3, "mayAskFor": asks, "auditReplicas": None, "certain": True}
    assert workload._room(room | {"bound": None}).sentence == says
