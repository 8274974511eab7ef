"""``examples/sharing``: what guarantees and overrides do, as the commands tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from extauthz.cli import main

HERE = Path(__file__).parents[2] / "examples/sharing"
GPU = "requests.nvidia.com/gpu"


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.chdir(HERE)
    monkeypatch.setenv("COLUMNS", "400")

    def asked(line: str, quotas: str = "q.yaml") -> tuple[int, str]:
        code = main([*line.split(), "--quotas", quotas, "--state", "s.yaml"])
        shown = capsys.readouterr()
        return code, " ".join((shown.out + shown.err).split())

    return asked


def test_what_is_kept_is_refused_to_others(run):
    code, shown = run("check deploy/b -n b --replicas 5")
    assert code == 1
    assert f"kept for guarantees: {GPU}=4" in shown
    assert "largest allowed replicas: 4" in shown
    assert "requested used reserved kept hard lab requests.nvidia.com/gpu 1 4 0 4 8" in shown


def test_it_is_granted_to_whom_it_is_kept_for(run):
    code, shown = run("check deploy/a -n a --replicas 4")
    assert (code, "kept" in shown) == (0, False)
    code, shown = run("check deploy/a -n a")
    assert code == 0
    assert "a/a has 0 replicas and may have 4: 4 more, 4 of them within its guarantee." in shown
    assert shown.endswith(f"quota resource requested used reserved hard lab {GPU} 5 4 0 8")


def test_top_shows_what_is_kept_and_guaranteed(run):
    code, shown = run("top")
    assert code == 0
    assert shown == (
        f"QUOTA WORKLOADS RESOURCE USED RESERVED KEPT HARD GUARANTEED lab 2 {GPU} 4 0 4 8 0 a 1 {GPU} 0 0 0 8 4 "
        f"b 1 {GPU} 4 0 0 8 0"
    )


def test_bad_guarantees_are_told_with_line_field_and_cure(run):
    code, shown = run("check deploy/b -n b --replicas 5", "bad.yaml")
    assert code == 65
    assert (
        f"bad.yaml:9: spec.guaranteed[{GPU}]: 9 is above spec.hard, which is 8; lower it, or raise spec.hard" in shown
    )
    assert "bad.yaml:10: spec.guaranteed[requests.cpu]: spec.hard does not limit it; write a limit" in shown


NOW = "check deploy/b -n b --replicas 9 --now "


@pytest.mark.parametrize(
    ("now", "code"),
    [
        ("2027-01-31T12:00:00Z", 1),
        ("2027-02-01T12:00:00Z", 0),
        ("2027-03-01T00:00:00Z", 1),
        ("2027-02-28T23:59:56Z", 1),
    ],
    ids=["before", "within", "after", "at the edge"],
)
def test_an_override_holds_between_its_times(run, now, code):
    assert run(NOW + now, "launch.yaml")[0] == code


def test_top_and_check_look_at_that_time_too(run):
    _, shown = run("top --now 2027-02-01T12:00:00Z", "launch.yaml")
    assert f"lab 2 {GPU} 4 0 0 12 0 a 1 {GPU} 0 0 0 8 0 b 1 {GPU} 4 0 0 10 0" in shown
    code, shown = run("check deploy/b -n b --now 2027-02-01T12:00:00Z", "launch.yaml")
    assert (code, "may have 10" in shown) == (0, True)


def test_a_time_without_a_zone_is_told_with_the_cure(run, capsys):
    with pytest.raises(SystemExit) as ended:
        run(NOW + "2027-02-01T12:00:00", "launch.yaml")
    assert ended.value.code == 64
    assert "no time of RFC 3339; write for example 2027-02-01T12:00:00Z, with a zone" in capsys.readouterr().err


def test_the_override_in_force_is_told_with_its_end_and_the_next_with_its_begin(run):
    _, shown = run("top -o json --now 2027-02-01T12:00:00Z", "launch.yaml")
    assert (
        '"override": { "name": "launch", "reason": "rented for the launch", "until": "2027-03-01T00:00:00Z" }' in shown
    )
    _, shown = run("top -o json --now 2027-01-01T12:00:00Z", "launch.yaml")
    assert (
        '"nextOverride": { "name": "launch", "reason": "rented for the launch", "from": "2027-02-01T00:00:00Z" }'
        in shown
    )
