"""The two ways in which rows are printed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from extauthz.tools.doctor import canary, chain, table, trust, upstream_health, webhook
from extauthz.tools.doctor.table import Row, all_skipped, fail, ok, skipped, warn

WELL, ODD, ILL, NOT = ok("a", "fine"), warn("b", "odd", "mend"), fail("c", "broken", "mend"), skipped("d", "why", "--x")


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [([WELL], "ok"), ([WELL, NOT], "skipped"), ([NOT, ODD], "warn"), ([ODD, ILL, NOT], "fail"), ([], "skipped")],
    ids=["ok", "skipped", "warn", "fail", "nothing"],
)
def test_the_whole_is_as_bad_as_its_worst_and_never_ok_with_something_skipped(rows, verdict: str):
    assert json.loads(table.as_json(rows))["verdict"] == verdict


def test_checks_with_the_same_result_are_one_row_with_their_count_and_names_and_each_by_itself_in_json(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    rows = [
        skipped("b", "none is there", "--x"),
        WELL,
        skipped("c", "none is there", "--x"),
        skipped("d", "why", "--x"),
    ]
    lines = table.as_table(rows).splitlines()
    assert lines == [
        "b  skipped  none is there (2 checks: b, c)",
        "            → --x",
        "a  ok       fine",
        "d  skipped  why",
        "            → --x",
        "",
        "1 ok, 3 skipped",
    ]
    assert [each["name"] for each in json.loads(table.as_json(rows))["checks"]] == ["b", "a", "c", "d"]


@pytest.mark.parametrize(
    ("rows", "fails", "fails_strictly"),
    [([WELL, NOT], False, False), ([WELL, ODD], False, True), ([ILL], True, True)],
    ids=["skipped", "warning", "failure"],
)
def test_a_warning_is_a_failure_only_if_that_is_asked_for(rows, fails: bool, fails_strictly: bool):
    assert (table.failed(rows), table.failed(rows, strict=True)) == (fails, fails_strictly)


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


NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENVOYS = all_skipped(table.ENVOYS, "not told which proxy", "--admin")
ASKED = ok("webhook", "it asks")


def test_checks_of_an_envoy_are_left_out_where_the_webhook_asks_and_no_envoy_was_named():
    said = table.as_table([*ENVOYS, ASKED])
    assert "chain" not in said
    assert said.endswith("1 ok; 16 checks of an Envoy are left out (--admin, or --config-dump)\n")
    assert len(json.loads(table.as_json([*ENVOYS, ASKED]))["checks"]) == 17


@pytest.mark.parametrize(
    "rows",
    [[*ENVOYS, skipped("webhook", "none", "")], [ok("chain", "asks"), *ENVOYS[2:], ASKED]],
    ids=["no-webhook", "an-envoy"],
)
def test_they_stay_where_an_envoy_may_be_or_was_looked_at(rows: list[Row]):
    assert table.shown(rows) == rows


def test_the_names_of_these_checks_are_those_that_they_have():
    of_trust = (trust.trusted(None).name, trust.validity(None, None, NOW).name, trust.token(None, None).name)
    found = (*chain.NAMES, *chain.PATH_NAMES, *of_trust, canary.NAME, *upstream_health.UPSTREAM_NAMES)
    assert (found, webhook.NAMES[0]) == (table.ENVOYS, table.WEBHOOKS_ROW)
