"""The model behind a full house of ``make bench``: first come, and with turns."""

from __future__ import annotations

import pytest

from bench import full_house
from bench.full_house import HOUSE, House, Outcome, Row, fair, outcome
from extauthz.core.ledger.line import Lines

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
    monkeypatch.setattr(Lines, "holding", lambda self, *of: [])
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


@pytest.mark.parametrize(
    ("beyond_s", "jain", "missed"),
    [(30.0, 0.95, []), (31.0, 0.95, ["HPA of 8 GPUs"]), (30.0, 0.94, ["Jain's index"])],
    ids=["even", "late", "uneven"],
)
def test_the_benchmark_judges_waits_and_shares_and_tells_what_they_cost(
    monkeypatch: pytest.MonkeyPatch, beyond_s: float, jain: float, missed: list[str]
):
    def found(seeds: range, *, turns: bool) -> Outcome:
        rows = (Row("HPA of 8 GPUs", 15.0, 60.0, 300.0, beyond_s if turns else 240.0),)
        return Outcome(turns, rows, jain if turns else 0.8, 0.9)

    monkeypatch.setattr(full_house, "outcome", found)
    figures = full_house.measure(full_house.QUICK, lambda _: None)
    assert [any(name in one.name for one in figures if one.missed) for name in missed] == [True] * len(missed)
    assert sum(one.missed for one in figures) == len(missed)
    assert {one.name.partition(": ")[2] for one in figures if one.goal is None} == {
        "median wait, over one without",
        "GPUs in use, over one without",
    }
