"""``examples/record``, recorded from real autoscalers: the commands of its README, and of one that is cut."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from extauthz.cli import main
from extauthz.tell.record.lines import Ask
from extauthz.tell.record.reading import Record
from extauthz.tools.replay.run import Replay

RECORD = Path(__file__).parents[2] / "examples" / "record"


def replay(*words: str, record: Path = RECORD) -> int:
    return main(["replay", "--record", str(record), *words])


def test_it_replays_to_its_own_answers(capsys: pytest.CaptureFixture[str]):
    assert replay() == 0
    assert capsys.readouterr().out.splitlines()[-1] == "223 asks: 223 the same; 72 replica-minutes denied; no gaps"


def test_what_was_wanted_does_not_depend_on_the_quotas_of_the_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def wanted(*words: str) -> dict[tuple[str, str], tuple[str, str]]:
        assert replay("-o", "json", *words) == 0
        rows = json.loads(capsys.readouterr().out)["quotas"]
        return {(row["quota"], row["resource"]): (row["p95"], row["peak"]) for row in rows}

    assert replay("--suggest", "100") == 0
    smaller = tmp_path / "smaller.yaml"
    smaller.write_text(re.sub('"requests.cpu":"[^"]*"', '"requests.cpu":"5"', capsys.readouterr().out))
    assert wanted("--quotas", str(smaller)) == wanted()


def test_nothing_is_drawn_above_its_limit_and_what_was_wanted_not_above_the_peak():
    found = Replay(Record(RECORD), None, draws=True).run()
    assert len(found.courses) == 7
    for row, courses in found.courses.items():
        assert all(granted <= hard for _, granted, hard in zip(*(one.highest for one in courses), strict=True)), row
        assert max(courses.wanted.highest) <= found.peak(row)


def test_cut_it_reads_with_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (path,) = RECORD.glob("*.jsonl.gz")
    (tmp_path / "A.jsonl.gz").write_bytes(path.read_bytes()[:20_000])
    assert replay(record=tmp_path) == 0
    assert capsys.readouterr().err.count("\n") == 1


def test_each_quota_refuses_as_many_asks_as_the_record_says():
    """A retry may be refused by another quota than the first ask, too."""
    found = Replay(Record(RECORD), None).run()
    said = Counter[str]()
    for ask in (event for event in Record(RECORD).events() if isinstance(event, Ask)):
        said.update({path.rpartition("/")[2]: ask.n for path in ask.by})
    assert {quota: row.asks for (quota, _), row in found.under.refused.items() if row.asks} == said
