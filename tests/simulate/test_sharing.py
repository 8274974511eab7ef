"""``extauthz simulate sharing``: one full house, first come and with turns."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from extauthz.cli import main, simulate
from extauthz.core.ledger.line import Turns
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.record.reading import Record
from extauthz.tools.replay.run import Replay, Result
from tests.worlds import sharing
from tests.worlds.plan import FAULTS, draw
from tests.worlds.running import run
from tests.worlds.sharing import HOUSE, House, Outcome, Row, fair, outcome

SEEDS, HALF_AN_HOUR_S = range(4), 1800.0


def late(found: Outcome) -> list[str]:
    return [row.name for row in found.rows if row.beyond_s > 2 * row.interval_s]


def test_with_turns_nobody_waits_for_two_of_its_intervals_beyond_its_turn():
    first_come, share = (outcome(SEEDS, turns=turns, until_s=HALF_AN_HOUR_S) for turns in (False, True))
    assert late(share) == []
    assert "HPA of 8 GPUs" in late(first_come), "the slow and large one starves"
    assert share.jain > first_come.jain
    assert share.used > first_come.used - 0.1


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(19, id="who-comes-back-has-not-gone-to-the-end"),
        pytest.param(27, id="who-asked-once-is-waited-for"),
    ],
)
def test_a_turn_comes_after_those_that_come_first(seed: int):
    """What is measured knew two turns that nobody had."""
    assert late(outcome([seed], turns=True)) == []


def test_it_is_seen_when_nothing_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Turns, "holding", lambda self, *of: [])
    assert late(outcome(SEEDS, turns=True, until_s=HALF_AN_HOUR_S))


def test_a_world_follows_from_its_seed():
    found = []
    for _ in range(2):
        house = House(5, turns=True)
        house.run(120.0)
        found.append([(one.has, one.wants, one.waits) for one in house.clients])
    assert found[0] == found[1]
    assert 0 <= house.free <= HOUSE


@pytest.mark.parametrize(
    ("wants", "shares"),
    [([8, 8, 8, 8], [8, 8, 8, 8]), ([24, 24, 24, 24], [16, 16, 16, 16]), ([8, 0, 24, 60], [8, 0, 24, 32])],
)
def test_a_fair_share_is_what_one_wants_or_what_all_others_leave(wants: list[int], shares: list[int]):
    clients = [one for one in House(0, turns=False).clients if one.size == 1]
    for client, wanted in zip(clients, wants, strict=True):
        client.wants = wanted
    assert fair(clients) == shares


def even(turns: bool, beyond_s: float, jain: float) -> Outcome:
    rows = (Row("HPA of 8 GPUs", 15.0, 60.0, 300.0, beyond_s), Row("KPA of 1 GPU", 2.0, 5.0, 30.0, 1.0))
    return Outcome(turns, rows, jain, 0.9)


@pytest.mark.parametrize(
    ("beyond_s", "jain", "code"),
    [(30.0, 0.95, 0), (31.0, 0.95, 1), (30.0, 0.94, 1)],
    ids=["even", "late", "uneven"],
)
def test_the_command_prints_a_table_and_a_chart(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    beyond_s: float,
    jain: float,
    code: int,
):
    monkeypatch.setattr(
        sharing, "outcome", lambda seeds, *, turns: even(turns, beyond_s if turns else 240.0, jain if turns else 0.8)
    )
    drawn = tmp_path / "sharing.svg"
    assert main(["simulate", "sharing", "--seeds", "2", "--svg", str(drawn)]) == code
    printed = capsys.readouterr().out
    assert "FirstCome  HPA of 8 GPUs  15 s      60 s      300 s  240 s            0.800  90%" in printed
    assert "HPA of 8 GPUs  FirstCome ████████████████████████████████████████████████ 240 s" in printed
    assert drawn.read_text().startswith("<svg ")
    assert drawn.read_text().count("<rect") == 4


def test_bad_usage_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert main(["simulate", "sharing", "--seeds", "0"]) == 64
    assert "--seeds: must be 1 or more" in capsys.readouterr().err
    monkeypatch.setattr(sharing, "outcome", lambda seeds, *, turns: even(turns, 1.0, 1.0))
    assert main(["simulate", "sharing", "--svg", str(tmp_path / "no" / "x.svg")]) == 64
    assert "No such file" in capsys.readouterr().err
    assert simulate.holds(even(True, 1.0, 1.0))


# Records of simulated worlds replay to the same answers, with exceptions that have a name.


ALL = frozenset(FAULTS)


@pytest.mark.parametrize(
    ("ledger", "gates", "exceptions", "named"),
    [
        pytest.param("memory", 1, 0.003, {"object", "family"}, id="one gate"),
        pytest.param("kubernetes", 3, 0.05, {"several gates"}, id="three gates"),
    ],
)
def test_records_replay_to_the_same_answers(
    tmp_path: Path, ledger: str, gates: int, exceptions: float, named: set[str]
):
    asks, differ, names = 0, 0, Counter[str]()
    for seed in range(3000, 3050):
        folder = tmp_path / str(seed)
        run(draw(seed, 30, ALL, ledger, gates), folder)
        if not folder.exists():
            continue  # no gate has served
        found = Replay(Record(folder), None).run()
        assert found.asks == found.same + found.refused_now + found.granted_now
        assert found.exceptions.total() == found.asks - found.same
        asks, differ = asks + found.asks, differ + found.exceptions.total()
        names.update(found.exceptions)
    assert asks > 500
    assert differ <= exceptions * asks, names
    assert names.keys() <= set(named)


def test_a_limit_of_the_peak_refuses_nothing(tmp_path: Path):
    """Of whatever was asked without faults: what a run without limits comes to is enough."""
    first, asks, tight = random.SystemRandom().randrange(10**6, 10**9), 0, 0
    print(f"records from seed {first}")
    for seed in range(first, first + 30):
        folder = tmp_path / str(seed)
        run(draw(seed, 30, frozenset(), "memory", 1), folder)
        found = Replay(Record(folder), None).run()
        tree = _at_the_peak(found)
        at_peak = Replay(Record(folder), tree).run()
        assert [row for row, refused in at_peak.refused.items() if refused.asks] == [], seed
        below = [replace(node.quota, hard={key: most - 1 for key, most in node.hard.items()}) for node in tree.nodes]
        tight += bool(Replay(Record(folder), QuotaTree.build(below)).run().refused)
        asks += at_peak.asks
    assert asks > 300
    assert tight > 20, "less is too little, where growth was asked for"


def _at_the_peak(found: Result) -> QuotaTree:
    def peak(quota: str, key: str) -> int:
        return found.wanted[quota, key].peak if (quota, key) in found.wanted else 0

    quotas = [node.quota for node in found.tree.nodes]
    return QuotaTree.build(replace(one, hard={key: peak(one.name, key) for key in one.hard}) for one in quotas)
