"""``examples/record``, recorded from real autoscalers: the commands of its README, and of one that is cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from extauthz.cli import main

RECORD = Path(__file__).parents[2] / "examples" / "record"


def replay(*words: str, record: Path = RECORD) -> int:
    return main(["replay", "--record", str(record), *words])


def test_it_replays_to_its_own_answers(capsys: pytest.CaptureFixture[str]):
    assert replay() == 0
    assert capsys.readouterr().out.splitlines()[-1] == "223 asks: 223 the same; no gaps"


def test_the_peak_denies_nothing_and_less_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert replay("--suggest", "100") == 0
    text = capsys.readouterr().out
    peak, smaller = tmp_path / "peak.yaml", tmp_path / "smaller.yaml"
    peak.write_text(text)
    assert replay("--quotas", str(peak), "--max-denied-minutes", "0") == 0
    quotas = list(yaml.safe_load_all(text))
    for one in quotas:
        one["spec"]["hard"]["requests.cpu"] = "1"
    smaller.write_text(yaml.safe_dump_all(quotas))
    assert replay("--quotas", str(smaller), "--max-denied-minutes", "0") == 1


def test_what_was_wanted_does_not_depend_on_the_quotas_of_the_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def wanted(*words: str) -> dict[tuple[str, str], tuple[str, str]]:
        assert replay("-o", "json", *words) == 0
        rows = json.loads(capsys.readouterr().out)["quotas"]
        return {(row["quota"], row["resource"]): (row["p50"], row["peak"]) for row in rows}

    assert replay("--suggest", "100") == 0
    quotas = list(yaml.safe_load_all(capsys.readouterr().out))
    for one in quotas:
        one["spec"]["hard"]["requests.cpu"] = "5"
    smaller = tmp_path / "smaller.yaml"
    smaller.write_text(yaml.safe_dump_all(quotas))
    assert wanted("--quotas", str(smaller)) == wanted()


def test_cut_it_reads_with_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (path,) = RECORD.glob("*.jsonl.gz")
    (tmp_path / "A.jsonl.gz").write_bytes(path.read_bytes()[:20_000])
    assert replay(record=tmp_path) == 0
    assert capsys.readouterr().err.count("\n") == 1
