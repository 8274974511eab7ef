"""The demo: runs, ends by itself, shows what it says, and would notice if it were not so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import pytest

from extauthz.demo.cluster import Response, find
from extauthz.demo.scenes import Outcome, complaints, scenes

ROOT = Path(__file__).parents[2]
ALLOWED = Response(200, "HTTP/2", {}, {"verdict": "allow", "sentence": "fits every quota"})


def test_the_demo_ends_with_0_and_fits_into_100_columns_without_colour(authority):
    environment = {**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "extauthz.cli", "demo"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr == ""
    assert "\x1b" not in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 100
    for outcome in Outcome:
        assert outcome in run.stdout
    table = run.stdout[run.stdout.index("what happened") :].split("\n\n")[0]
    shown = (ROOT / "tests" / "data" / "demo.txt").read_text()
    assert table in shown, "tests/data/demo.txt shows another run: paste the table anew"


def test_the_readme_shows_rows_of_the_demo_as_they_are():
    readme, shown = (ROOT / "README.md").read_text(), (ROOT / "tests" / "data" / "demo.txt").read_text()
    excerpt = readme[readme.index("#   who asked") :].split("\n```")[0].splitlines()
    assert len(excerpt) == 11
    assert set(excerpt) <= set(shown.splitlines())


def heeds_ctrl_c() -> None:
    """What a shell starts in the background has SIGINT ignored, and so have these tests then."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def closing_by_force(run: subprocess.Popen[str]) -> Iterator[None]:
    """Where the test fails it must not wait for ever."""
    try:
        yield
    finally:
        if run.poll() is None:
            run.kill()


def test_with_keep_the_page_stays_open_and_tells_who_is_refused_until_ctrl_c(authority):
    environment = {**os.environ, "KEEP": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "extauthz.cli", "demo"]
    with (
        subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=environment, preexec_fn=heeds_ctrl_c) as run,
        closing_by_force(run),
    ):
        assert run.stdout is not None
        lines = iter(run.stdout.readline, "")
        address = next(line for line in lines if line.startswith("the page: ")).split()[2]
        with urllib.request.urlopen(address, timeout=10) as answer:
            page = answer.read().decode()
        assert "acme" in page
        assert "asks 6 more" in page
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert (run.returncode, errors) == (0, "")


def test_its_requests_are_the_recorded_ones():
    recorded = (ROOT / "tests" / "data" / "recorded.jsonl").read_text().splitlines()
    shown = (ROOT / "extauthz" / "demo" / "recorded.jsonl").read_text().splitlines()
    assert set(shown) <= set(recorded)


def test_a_recording_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="not enough values"):
        find("kubectl", "no such path")


@pytest.mark.parametrize(
    ("answer", "held", "complaint"),
    [
        (ALLOWED, 3, None),
        (ALLOWED, 4, "holds 4"),
        (Response(403, "HTTP/2", {"kind": "Status"}, {"verdict": "deny"}), 3, "expected: allowed, came: denied"),
        (Response(403, "HTTP/2", {}, {"verdict": "deny"}), 3, "no metav1.Status"),
        (Response(200, "HTTP/2", {}, {}), 3, "came: not asked"),
    ],
)
def test_a_scene_that_goes_otherwise_is_noticed(answer: Response, held: int, complaint: str | None):
    found = complaints(scenes()[0], answer, held)
    assert found == [] if complaint is None else any(complaint in one for one in found)


def test_an_outage_worded_as_a_denial_is_noticed():
    scene = next(scene for scene in scenes() if scene.outcome is Outcome.OUTAGE)
    answer = Response(503, "HTTP/2", {"kind": "Status", "message": "exceeded workspace quota"}, {})
    assert "an outage is worded as a denial" in complaints(replace(scene, says=""), answer, scene.holds)
