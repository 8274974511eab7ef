"""Overrides in force: a gate takes other amounts when their time has come, without being told of any change."""

from __future__ import annotations

from dataclasses import replace

from extauthz.core.model import Verdict
from extauthz.core.quota.overrides import Override
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing.builders import Asker, gate, quota, scale, workload

NANO = 10**9
LAUNCH = Override("launch", 1000.0, 2000.0, {"pods": 6 * NANO}, {})


def asker(hard: str = "4") -> Asker:
    ask = Asker(gate([], workload("web", 1)))
    ask.gate.load_quotas(QuotaTree.build([replace(quota("acme", {"pods": hard}), overrides=(LAUNCH,))]), 0.0)
    return ask


def largest(ask: Asker, now_s: float) -> int | None:
    ask.now_s = now_s
    said = ask(scale("web", 99), charge=False)
    assert said.verdict is Verdict.DENY
    return said.evidence.fits


def test_a_decision_is_made_by_the_amounts_of_its_moment():
    ask = asker()
    assert [largest(ask, at_s) for at_s in (10.0, 1004.0, 1005.0, 1994.0, 1996.0, 2100.0)] == [4, 4, 6, 6, 4, 4]


def test_a_clock_that_goes_back_takes_them_back():
    ask = asker()
    assert (largest(ask, 1500.0), largest(ask, 900.0)) == (6, 4)


def test_what_was_granted_stays_when_the_override_ends_and_nothing_is_counted_anew():
    ask = asker()
    ask.now_s = 1500.0
    assert ask(scale("web", 6)).verdict is Verdict.ALLOW
    ask.now_s = 1999.0
    assert ask(scale("web", 7)).verdict is Verdict.DENY
    assert ask.gate.ledger.drift() == {}
    (row,) = ask.gate.usage()
    assert (row.used // NANO, row.reserved // NANO, row.hard // NANO) == (1, 5, 4)


def test_housekeeping_shows_them_where_nobody_asks():
    ask = asker()
    ask.gate.turn(1500.0)
    assert [row.hard // NANO for row in ask.gate.usage()] == [6]
    tree = ask.gate.ledger.coverage.tree
    ask.gate.turn(1501.0)
    assert ask.gate.ledger.coverage.tree is tree, "nothing has changed"
