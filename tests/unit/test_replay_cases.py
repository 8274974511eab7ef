"""Records and quotas with known right answers: tests/data/cases."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from extauthz.cli import main

CASES = Path(__file__).parents[1] / "data" / "cases"
EXAMPLE = Path(__file__).parents[2] / "examples" / "record"


def replay(record: Path, *words: str) -> int:
    return main(["replay", "--record", str(record), *words])


@pytest.mark.parametrize("quotas", ["peak", "peak-acme-17", "peak-shop-pods-21"])
def test_a_limit_below_what_stood_while_nobody_asked_refuses_nothing(quotas: str):
    assert replay(EXAMPLE, "--quotas", str(CASES / "admin-02" / f"{quotas}.yaml"), "--max-denied-minutes", "0") == 0


def test_the_peak_is_no_more_than_suffices(capsys: pytest.CaptureFixture[str]):
    assert replay(EXAMPLE, "-o", "json") == 0
    rows = {(row["quota"], row["resource"]): row for row in json.loads(capsys.readouterr().out)["quotas"]}
    assert rows["acme", "requests.cpu"]["peak"] == "16500m"
    assert rows["acme", "requests.memory"]["peak"] == "24Gi"
    assert rows["shop", "pods"]["peak"] == "21"
    assert {row["one_pod_less"] for row in rows.values()} == {"refuses"}


def test_what_is_suggested_names_no_field_but_hard(capsys: pytest.CaptureFixture[str]):
    """The quota of this record also has requesters and policies, which no record has."""
    assert replay(CASES / "admin-03" / "rec2", "--suggest", "100") == 0
    *_, patch = shlex.split(capsys.readouterr().out)
    assert list(json.loads(patch)) == ["spec"]
    assert list(json.loads(patch)["spec"]) == ["hard"]


def test_json_says_whose_growth_is_refused(capsys: pytest.CaptureFixture[str]):
    quotas = CASES / "admin-02" / "peak-acme-17.yaml"
    assert replay(EXAMPLE, "--until", "2026-11-27T04:20:00Z", "-o", "json") == 0
    wants = json.loads(capsys.readouterr().out)["wants"]
    assert {want["workload"] for want in wants} >= {"deployments.apps/shop-web/web", "deployments.apps/shop-api/api"}
    assert replay(EXAMPLE, "--quotas", str(quotas), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["wants"] == []
