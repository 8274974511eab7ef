"""A short run of the fuzzer with a seed of its own each time; ``make fuzz`` has the long one."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from . import __main__ as program
from . import frames, observed, rows
from .measure import Case, cost, floor_s, peak_bytes
from .shapes import KINDS

ROOT = Path(__file__).parents[2]

SHORTLY = {"FUZZ_OBJECTS": "10", "FUZZ_SECONDS": "5", "FUZZ_TRIES": str(3 * len(KINDS)), "FUZZ_SLACK": "3"}
"""Three times the budget: the caches of the processor are shared with what runs beside."""


def fuzz(**settings: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the objects of all tests before it, and a tracer, would cost time here."""
    command = [sys.executable, "-m", "tests.fuzz"]
    environment = os.environ | settings
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_no_body_that_is_drawn_costs_more_than_the_budget():
    done = fuzz(**SHORTLY)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_body_that_costs_more_than_the_budget_is_told():
    done = fuzz(FUZZ_OBJECTS="10", FUZZ_SECONDS="0.2", FUZZ_SLACK="0.000001", FUZZ_SEED="1")
    assert done.returncode == 1
    assert done.stdout.startswith("FUZZ_SEED=1 ")


@pytest.mark.parametrize("kind", KINDS)
def test_each_shape_makes_a_body_that_is_read_or_refused(kind):
    for shape in KINDS[kind][2]:
        for scale in (False, True):
            found = cost(Case(kind, shape, 3, scale))
            assert found.bytes > 0
            assert found.result


def test_frames_in_any_order_raise_nothing_and_leave_nothing():
    """``make fuzz`` feeds others each time; these are always the same."""
    runs = [frames.run(seed) for seed in range(150)]
    assert max(one.peak_bytes for one in runs) < frames.KEPT_BYTES
    assert sum(one.answered for one in runs) > 1_000, "calls were under way"
    assert 50 < sum(one.ended_by_fault for one in runs) < 150


@pytest.mark.parametrize("row", rows.ROWS)
def test_what_else_strangers_may_write_raises_nothing(row: str):
    """The same each time; ``make fuzz`` draws others."""
    found = [rows.tried(row, seed, floor_s()) for seed in range(2 if row == "connections" else 50)]
    assert not [one for one in found if one.error]


def test_whatever_a_cluster_shows_the_gate_lives_and_decides_others():
    """The same each time, and others each day; ``make fuzz`` shows a million."""
    found = [observed.run(1, 2_000), observed.run(1_000 * date.today().toordinal(), 1_000)]
    assert all(one.named > one.objects // 20 for one in found), "some could not be read"


def test_a_gate_that_an_object_ends_is_told_with_the_seed(monkeypatch: pytest.MonkeyPatch, capsys):
    def raising(*_: object) -> None:
        raise LookupError("planted")

    monkeypatch.setattr(observed.World, "check", raising)
    assert not program.watched(3, 5)
    assert "observed.run(3, 1000)" in capsys.readouterr().err


def test_a_row_that_raises_or_costs_too_much_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(rows.ROWS, "sources", lambda draw, floor_s: 1 / (draw.randrange(100) // 99))
    monkeypatch.setitem(rows.ROWS, "questions", lambda draw, floor_s: 1.1)
    assert not program.others("sources", 5, 1, 1.0, 3)
    assert not program.others("questions", 0.01, 1, 1.0, 1)
    assert program.others("questions", 0.01, 1, 1.0, 3)


def test_a_floor_and_a_peak_are_measured():
    assert floor_s() > 0
    assert peak_bytes(Case("review", "text", 10_000)) > 100_000
