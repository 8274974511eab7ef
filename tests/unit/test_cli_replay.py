"""``extauthz replay``: its texts, exit codes, and what it writes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from extauthz.cli import main
from extauthz.core import quantities
from extauthz.core.ledger.accounts import Account
from extauthz.testing import quota, scale, workload
from extauthz.tools.replay.measures import Course
from extauthz.tools.replay.page import clock, ticks, unit
from tests.support.recording import Recorded

QUOTA = """\
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec: {namespaceSelector: {matchLabels: {workspace: acme}}, hard: {pods: "4"}, mode: Enforce}
"""


HPA = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


@pytest.fixture
def record(tmp_path: Path) -> str:
    """Ten minutes with four pods of ``web`` and one of ``batch`` under a limit of five."""
    folder = tmp_path / "record"
    gate = Recorded(
        folder, [quota("acme", {"pods": "5", "requests.cpu": "9"})], workload("web", 2), workload("batch", 1)
    )
    gate.ask(scale("web", 4)._replace(requester=HPA))
    gate.observe(workload("web", 4, version="2"))
    gate.later(600)
    gate.ask(scale("web", 4))
    gate.close()
    return str(folder)


@pytest.fixture
def smaller(tmp_path: Path) -> str:
    path = tmp_path / "smaller.yaml"
    path.write_text(QUOTA)
    return str(path)


def test_under_its_own_quotas_all_is_the_same(record: str, capsys: pytest.CaptureFixture[str]):
    assert main(["replay", "--record", record]) == 0
    *rows, summary = capsys.readouterr().out.splitlines()
    assert summary == "2 asks: 2 the same; 0 replica-minutes denied; no gaps"
    assert rows[-1] == "PEAK is replayed: it refuses nothing, one pod less refuses in 2 of 2 rows"
    assert rows[0].split()[:4] == ["QUOTA", "RESOURCE", "HARD", "P50"]
    assert rows[1].split() == ["acme", "pods", "5", "5", "5", "5", "5", "0", "0", "0", "-"]


def test_a_smaller_quota_is_told_and_may_fail_a_pipeline(record: str, smaller: str, capsys: pytest.CaptureFixture[str]):
    assert main(["replay", "--record", record, "--quotas", smaller]) == 0
    *rows, summary = capsys.readouterr().out.splitlines()
    assert rows[1].split() == ["acme", "pods", "4", *"5555", "2", "(+2)", "1", "20", "10m"]
    assert summary == "2 asks: 0 the same, 2 granted then and refused now; 20 replica-minutes denied; no gaps"
    assert main(["replay", "--record", record, "--quotas", smaller, "--max-denied-minutes", "19.9"]) == 1
    assert "20 replica-minutes are denied, more than --max-denied-minutes 19.9" in capsys.readouterr().err
    assert main(["replay", "--record", record, "--quotas", smaller, "--max-denied-minutes", "20"]) == 0


def test_what_is_suggested_is_a_patch_of_the_limits_alone_and_refuses_nothing(
    record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["replay", "--record", record, "--suggest", "100"]) == 0
    text = capsys.readouterr().out
    *command, patch = shlex.split(text)
    assert command == ["kubectl", "patch", "workspacequotas.extauthz.dev", "acme", "--type", "merge", "-p"]
    assert json.loads(patch) == {"spec": {"hard": {"pods": "5", "requests.cpu": "5"}}}
    patches = tmp_path / "patches.sh"
    patches.write_text(text)
    assert main(["replay", "--record", record, "--quotas", str(patches), "--max-denied-minutes", "0"]) == 0
    patches.write_text(text.replace("acme", "other"))
    assert main(["replay", "--record", record, "--quotas", str(patches)]) == 65
    assert "line 1: the record has no quota other" in capsys.readouterr().err


def test_each_refused_want_is_told_with_its_workload(record: str, smaller: str, capsys: pytest.CaptureFixture[str]):
    assert main(["replay", "--record", record, "--quotas", smaller]) == 0
    who = "deployments.apps/team-a/web  kube-system/horizontal-pod-autoscaler"
    told = f"{who}  2  4  2027-01-15T08:00:00Z  10m  20  acme pods"
    assert told.split() in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert main(["replay", "--record", record, "--quotas", smaller, "-o", "json"]) == 0
    (want,) = json.loads(capsys.readouterr().out)["wants"]
    assert (want["workload"], want["asker"]) == ("deployments.apps/team-a/web", "kube-system/horizontal-pod-autoscaler")
    assert (want["had"], want["to"], want["seconds"], want["denied_minutes"]) == (2, 4, 600.0, 20.0)


def test_json_has_every_field_that_its_page_names(record: str, smaller: str, capsys: pytest.CaptureFixture[str]):
    assert main(["replay", "--record", record, "--quotas", smaller, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    page = (Path(__file__).parents[2] / "docs/internals/record.md").read_text().partition("## `-o json`")[2]
    assert all(f"`{name}`" in page for name in (*found, *found["quotas"][0], *found["wants"][0]))
    assert (found["denied_minutes"], found["quotas"][0]["longest_s"]) == (20.0, 600.0)


def test_the_page_is_one_file_that_draws_each_limit_and_says_whose_growth_is_refused(
    record: str, smaller: str, tmp_path: Path
):
    page = tmp_path / "page.html"
    assert main(["replay", "--record", record, "--quotas", smaller, "--html", str(page)]) == 0
    text = page.read_text()
    assert [text.count(f'<polyline class="{name}-line"') for name in ("wanted", "granted", "limit")] == [1, 1, 1]
    assert '<text class="tick" x="4" y="14">pods</text>' in text
    assert [f">{number}</text>" in text for number in (0, 2, 4, 6, 8)] == [True, True, True, True, False]
    assert ">time (UTC)</text>" in text
    assert '<th scope="row">08:00:00</th><td>5</td><td>3</td><td>4</td>' in text
    assert "acme: pods over time; PEAK 5, limit 4" in text
    assert '<th scope="row">deployments.apps/team-a/web</th><td>kube-system/horizontal-pod-autoscaler</td>' in text
    assert "http" not in text
    assert "<script" not in text


@pytest.mark.parametrize(
    ("highest", "key", "told"),
    [
        (3 * 10**8, "requests.cpu", ["0", "100m", "200m", "300m"]),
        (16_500 * 10**6, "limits.cpu", ["0", "5", "10", "15", "20"]),
        (24 * 2**30 * 10**9, "requests.memory", ["0", "8Gi", "16Gi", "24Gi"]),
        (3 * 10**9, "requests.nvidia.com/gpu", ["0", "1", "2", "3"]),
        (1, "pods", ["0", "1"]),
    ],
)
def test_an_axis_has_round_amounts(highest: int, key: str, told: list[str]):
    assert [quantities.format(amount, key) for amount in ticks(highest, key)] == told


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("requests.cpu", "CPUs"),
        ("limits.memory", "bytes"),
        ("requests.storage", "bytes"),
        ("pods", "pods"),
        ("count/jobs.batch", "objects"),
        ("requests.nvidia.com/gpu", "devices"),
    ],
)
def test_an_axis_has_a_unit(key: str, told: str):
    assert unit(key) == told


def test_an_axis_of_time_has_days_where_it_is_longer_than_one():
    assert [clock(1_800_000_000.0, whole_s) for whole_s in (86_400.0, 86_401.0)] == ["08:00:00", "01-15 08:00"]


def test_what_lasts_for_less_than_a_second_is_not_drawn():
    course = Course(100.0)
    for at_s, value in ((100.0, 4), (103.0, 9), (103.4, 4), (105.0, 6), (106.0, 5)):
        course.set(at_s, value)
    course.reach(108.0)
    assert course.highest == [4, 4, 4, 4, 4, 6, 6, 5, 5]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        pytest.param(["--record", "nowhere"], 65, "there is no file of a record", id="no record"),
        pytest.param(["--quotas", "nowhere"], 65, "cannot be read", id="no quotas"),
        pytest.param(["--since", "monday"], 64, "write for example 2027-02-01T12:00:00Z", id="time"),
        pytest.param(["--since", "2028-01-15T08:05:00Z"], 65, "nothing of the record is in that time", id="after it"),
        pytest.param(["--until", "2026-01-15T08:05:00Z"], 65, "it is from 2027-01-15T08:00:00Z to", id="before it"),
        pytest.param(["--suggest", "0"], 64, "write for example 99", id="percentage"),
        pytest.param(["--max-denied-minutes", "x"], 64, "write for example 0", id="minutes"),
        pytest.param(
            ["--since", "2027-02-01T12:00:00Z", "--until", "2027-01-01T12:00:00Z"], 65, "write a later time", id="order"
        ),
    ],
)
def test_bad_input_is_told_with_its_cure(
    record: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
):
    try:
        found: object = main(["replay", "--record", record, *words])
    except SystemExit as end:
        found = end.code
    assert found == code
    assert told in capsys.readouterr().err


def test_a_grant_above_a_limit_exits_70(
    record: str, smaller: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(Account, "available", lambda *_: 10**15)
    assert main(["replay", "--record", record, "--quotas", smaller]) == 70
    assert "above its limit" in capsys.readouterr().err
