"""The words for a refusal: never fits, waiting for room, misconfigured, unknown (docs/status.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from extauthz.core.decision import weighing
from extauthz.core.decision.bounds import Bounds
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Refusal, Shortage, Verdict, WorkloadRef
from extauthz.testing.builders import Asker, gate, quota, scale, workload

TABLE = (Path(__file__).parents[3] / "docs" / "status.md").read_text()
TEN = {"requests.cpu": "10"}


def test_what_asks_for_more_than_the_limit_by_itself_never_fits() -> None:
    """Eleven of one CPU each, where ten are the limit: nobody else's use matters."""
    ask = Asker(gate([quota("acme", TEN)], workload("web", 2)))
    assert ask(scale("web", 11)).refusal is Refusal.EXCEEDS_HARD


def test_what_has_no_room_only_for_what_others_use_waits() -> None:
    ask = Asker(gate([quota("acme", TEN)], workload("web", 2), workload("other", 1)))
    assert ask(scale("web", 10)).refusal is Refusal.WAITING_FOR_ROOM


def test_what_takes_nothing_of_a_limit_of_zero_is_not_kept_out_by_it() -> None:
    """It waits for others of its family."""
    short = Shortage("acme", ("acme",), "requests.cpu", 1, 0, 0, 0)
    assert weighing.never_fits({"requests.cpu": 1}, (short,))
    assert not weighing.never_fits({}, (short,))


def test_own_growth_that_is_less_than_the_limit_does_not_fit_where_the_whole_is_more() -> None:
    """It has nine and asks for two more: the growth would fit, the workload never does."""
    ask = Asker(gate([quota("acme", TEN)], workload("web", 9)))
    denied = ask(scale("web", 11))
    assert denied.evidence.shortages[0].requested < denied.evidence.shortages[0].hard
    assert denied.refusal is Refusal.EXCEEDS_HARD


def test_a_limit_above_the_tightest_counts_too() -> None:
    tree = [quota("acme", {"requests.cpu": "3"}, parent="corp"), quota("corp", TEN, namespaces={})]
    ask = Asker(gate(tree, workload("web", 1)))
    assert ask(scale("web", 4)).refusal is Refusal.EXCEEDS_HARD


def test_one_limit_that_it_is_above_by_itself_is_enough() -> None:
    """Eleven are more than ten; the parent's twelve would do, but for the two of others."""
    tree = [quota("acme", TEN, parent="corp"), quota("corp", {"requests.cpu": "12"}, namespaces={})]
    ask = Asker(gate(tree, workload("web", 1), workload("other", 2)))
    denied = ask(scale("web", 11))
    assert {row.quota for row in denied.evidence.shortages} == {"acme", "corp"}
    assert denied.refusal is Refusal.EXCEEDS_HARD


def test_a_quota_that_cannot_be_read_has_to_be_mended() -> None:
    ask = Asker(gate([replace(quota("acme", {}), illegible=True)], workload("web", 1)))
    found = ask(scale("web", 2))
    assert (found.reason, found.refusal) == ("illegible-quota", Refusal.MISCONFIGURED)


def test_what_is_allowed_is_no_refusal() -> None:
    ask = Asker(gate([quota("acme", TEN)], workload("web", 2)))
    assert ask(scale("web", 10)).refusal is None


def test_a_refusal_that_only_would_be_has_its_word_too() -> None:
    ask = Asker(gate([quota("acme", TEN)], workload("web", 2), policy=Policy(mode="audit")))
    found = ask(scale("web", 11))
    assert (found.verdict, found.refusal) == (Verdict.ALLOW, Refusal.EXCEEDS_HARD)


def test_pods_that_state_nothing_have_to_be_mended() -> None:
    ask = Asker(gate([quota("acme", TEN)], workload("web", 1, {})))
    found = ask(scale("web", 2))
    assert (found.reason, found.refusal) == ("must-specify", Refusal.MISCONFIGURED)


def test_what_the_gate_does_not_know_is_unknown() -> None:
    ask = Asker(gate([quota("acme", TEN)]))
    found = ask(scale("web", 2))
    assert (found.reason, found.refusal) == ("unknown-workload", Refusal.UNKNOWN)


def test_more_than_the_platform_allows_never_fits() -> None:
    made = gate([quota("acme", TEN)], workload("web", 1))
    made.bounds = Bounds(10.0, 10.0)
    made.bounds.answered(WorkloadRef("apps", "deployments", "team-a", "web"), 5, 0.0)
    found = Asker(made)(scale("web", 6))
    assert (found.reason, found.refusal) == ("exceeded-max-scale", Refusal.EXCEEDS_HARD)


@pytest.mark.parametrize("word", Refusal)
def test_each_word_is_documented(word: Refusal) -> None:
    assert f"| `{word}` |" in TABLE
