"""Overrides in force: a gate takes other amounts when their time has come, without being told of any change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extauthz.core.decision.policy import Policy
from extauthz.core.model import Unknown, Verdict
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


FAR = "its clock is at least 6.0 s ahead of the API server's"


def with_clock_off(*quotas: Any, setting: str = "deny") -> Asker:
    ask = Asker(gate([], workload("web", 1), policy=Policy(window_s=90.0, on_stale=setting)))
    ask.gate.load_quotas(QuotaTree.build(quotas), 0.0)
    ask.gate.clock_why = FAR
    return ask


def test_while_the_clock_is_too_far_off_growth_under_overrides_is_unknown():
    timed = replace(quota("acme", {"pods": "4"}), overrides=(LAUNCH,))
    ask = with_clock_off(timed)
    said = ask(scale("web", 2))
    assert (said.verdict, said.reason) == (Verdict.UNAVAILABLE, "stale")
    assert said.sentence.endswith(f"cannot tell which amounts hold now: {FAR}")
    assert ask(scale("web", 1)).verdict is Verdict.ALLOW, "no growth"
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    allowed = with_clock_off(timed, setting="allow")(scale("web", 2))
    assert (allowed.verdict, allowed.reason) == (Verdict.ALLOW, "stale")
    assert with_clock_off(timed, setting="allow")(scale("web", 5)).verdict is Verdict.DENY
    own = replace(timed, on_unknown={Unknown.STALE: "allow"})
    assert with_clock_off(own)(scale("web", 2)).verdict is Verdict.ALLOW
    plain = quota("plain", {"requests.cpu": "9"}, namespaces={"workspace": "acme"})
    both = with_clock_off(own, plain)(scale("web", 2))
    assert both.verdict is Verdict.ALLOW, "what the others say about it is no matter"
    ask.gate.clock_why = None
    assert ask(scale("web", 2)).reason == "fits"


def test_quotas_whose_amounts_do_not_change_with_the_time_go_on():
    ask = with_clock_off(quota("acme", {"pods": "4"}), replace(quota("other", {"pods": "4"}), overrides=(LAUNCH,)))
    assert ask(scale("web", 2)).reason == "fits"


def test_what_is_kept_for_a_sibling_changes_with_the_time_of_its_override():
    """However deep it is."""
    root = quota("root", {"pods": "9"}, namespaces={"workspace": "nobody"})
    acme = quota("acme", {"pods": "9"}, parent="root")
    middle = replace(quota("middle", {"pods": "9"}, parent="root"), overrides=(LAUNCH,))
    low = replace(quota("low", {"pods": "9"}, parent="middle"), overrides=(LAUNCH._replace(guaranteed={"pods": NANO}),))
    plain = quota("low", {"pods": "9"}, parent="middle")
    assert with_clock_off(root, acme, middle, low)(scale("web", 2)).reason == "stale"
    assert with_clock_off(root, acme, middle, plain)(scale("web", 2)).reason == "fits"


def test_housekeeping_shows_them_where_nobody_asks():
    ask = asker()
    ask.gate.turn(1500.0)
    assert [row.hard // NANO for row in ask.gate.usage()] == [6]
    tree = ask.gate.ledger.coverage.tree
    ask.gate.turn(1501.0)
    assert ask.gate.ledger.coverage.tree is tree, "nothing has changed"
