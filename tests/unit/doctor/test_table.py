"""The two ways in which rows are printed."""

from __future__ import annotations

import json

import pytest

from extauthz.doctor import table
from extauthz.doctor.rows import fail, ok, skipped, warn

WELL, ODD, ILL, NOT = ok("a", "fine"), warn("b", "odd", "mend"), fail("c", "broken", "mend"), skipped("d", "why", "--x")


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [([WELL], "ok"), ([WELL, NOT], "skipped"), ([NOT, ODD], "warn"), ([ODD, ILL, NOT], "fail"), ([], "skipped")],
    ids=["ok", "skipped", "warn", "fail", "nothing"],
)
def test_the_whole_is_as_bad_as_its_worst_and_never_ok_with_something_skipped(rows, verdict: str):
    assert json.loads(table.as_json(rows))["verdict"] == verdict


def test_what_others_wrote_cannot_move_the_cursor(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "\x1b" not in table.as_table([fail("a", "seen \x1b[2J here", "mend \x1b]0;x")])


def test_long_sentences_are_wrapped_below_each_other_and_the_cure_comes_last(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = table.as_table([fail("name", "word " * 20, "cure " * 20)]).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert lines[0].startswith("name  fail     word")
    assert sum("→" in line for line in lines) == 1
    assert lines[-1] == "1 fail"
