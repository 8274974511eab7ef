"""``make chaos`` in short: everything fails in turn, nothing goes over; and a gate with a defect is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import planted
from tests.chaos.run import run

pytestmark = pytest.mark.controlplane

CHAOS_S, AT_MOST_S = 45, 240
SEED = 5


def test_of_what_three_gates_grant_to_fifty_autoscalers_nothing_ever_goes_over(tmp_path: Path):
    report = run(tmp_path / "chaos", CHAOS_S, SEED, print)
    assert report.failures == [], report.text()
    assert report.webhook_connections, "the API server has asked no gate"
    assert report.faults, "nothing failed: then this test tests nothing"


def test_gates_that_answer_before_their_grant_is_written_are_found_out(tmp_path: Path):
    report = run(tmp_path / "chaos", AT_MOST_S, SEED, print, planted.command("answer-early"), calm=True, hunts=True)
    assert report.judge.in_excess, report.text()
