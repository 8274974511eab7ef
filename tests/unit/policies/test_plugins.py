"""Plug-ins by entry point: found, missing, broken, slow (docs/policies.md)."""

from __future__ import annotations

import asyncio
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from extauthz.cli.report import as_table
from extauthz.core.model import (
    NO_EVIDENCE,
    Decision,
    Evidence,
    Growth,
    Operation,
    PolicyAnswer,
    Verdict,
    WorkloadRef,
)
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies, Refused, UnknownError
from extauthz.inputs.policies.plugins import (
    AGAIN_S,
    GROUP,
    Host,
    LivePolicy,
    Missing,
    Patience,
    enlisted,
)
from extauthz.serve.servers.api import shown
from extauthz.serve.service.deciding import shortened
from extauthz.serve.service.loading import load
from extauthz.serve.service.setting_types import SettingsError
from extauthz.serve.service.settings import Settings
from extauthz.serve.service.sources import levels, notes, policies, running
from extauthz.tell.observe.log import decision_fields
from extauthz.testing import Asker, gate, quota, scale, workload

GROWTH = Growth("d", WorkloadRef("apps", "deployments", "a", "web"), "patch", 1, 2, {}, None, (), None, 0.0, 0.0)


class Good(GrowthPolicy):
    def filter(self, growth: Growth) -> Refused | None:
        return Refused("no")


def broken() -> GrowthPolicy:
    raise RuntimeError("no key")


def odd() -> object:
    return 7


def points() -> list[EntryPoint]:
    here = "tests.unit.policies.test_plugins"
    return [EntryPoint(name, f"{here}:{value}", GROUP) for name, value in
            {"good": "Good", "broken": "broken", "odd": "odd", "gone": "gone"}.items()]  # fmt: skip


def test_the_named_are_made_in_their_order_and_may_only_audit() -> None:
    found = enlisted(["good=Audit", "good"], points)
    assert [(one.name, type(one.policy), one.audits) for one in found] == [("good", Good, True), ("good", Good, False)]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nobody", "no installed package has an entry point nobody of extauthz.policies"),
        ("broken", "tests.unit.policies.test_plugins:broken failed: RuntimeError: no key"),
        ("gone", "tests.unit.policies.test_plugins:gone failed: AttributeError: "),
        ("odd", "tests.unit.policies.test_plugins:odd gave int, which is no GrowthPolicy"),
    ],
)
def test_one_that_is_missing_is_an_unknown_at_each_growth(name: str, why: str) -> None:
    (one,) = enlisted([name], points)
    assert isinstance(one.policy, Missing)
    assert one.policy.why.startswith(why)
    made = gate([quota("acme", {"pods": "9"})], workload("web", 1))
    made.enlist(Policies([one]))
    ask = Asker(made)
    refused = ask(scale("web", 2))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "policy-unknown")
    assert why in refused.sentence
    assert ask(scale("web", 1)).verdict is Verdict.ALLOW


def test_nothing_is_looked_for_where_none_is_named() -> None:
    def looked() -> list[EntryPoint]:
        raise AssertionError("looked")

    assert enlisted([], looked) == []


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Slow(GrowthPolicy):
    """Takes as long as it is told."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.takes_s, self.fails, self.asked = clock, 0.0, False, 0

    def filter(self, growth: Growth) -> Refused | None:
        self.asked += 1
        self.clock.now_s += self.takes_s
        if self.fails:
            raise RuntimeError("gone")
        return Refused("no")


def slow_times(patience: Patience, one: Enlisted, times: int) -> None:
    for _ in range(times):
        with pytest.raises(UnknownError, match=r"it took 60 ms, and may take 50"):
            patience.ask(one, "filter", GROWTH)


def test_a_late_answer_is_not_used() -> None:
    clock = Clock()
    slow = Slow(clock)
    one, patience = Enlisted("slow", slow), Patience(0.05, clock)
    assert patience.ask(one, "filter", GROWTH) == Refused("no")
    slow.takes_s = 0.06
    slow_times(patience, one, 2)
    slow.takes_s = 0.0
    assert patience.ask(one, "filter", GROWTH) == Refused("no")


def test_who_is_late_three_times_in_a_row_is_left_alone_for_a_while() -> None:
    clock = Clock()
    slow = Slow(clock)
    one, patience = Enlisted("slow", slow), Patience(0.05, clock)
    slow.takes_s = 0.06
    slow_times(patience, one, 2)
    slow.takes_s = 0.0
    patience.ask(one, "filter", GROWTH)
    slow.takes_s = 0.06
    slow_times(patience, one, 3)
    slow.takes_s, asked = 0.0, slow.asked
    clock.now_s += 9.9
    with pytest.raises(UnknownError, match=r"not asked for 10 s"):
        patience.ask(one, "filter", GROWTH)
    assert slow.asked == asked
    clock.now_s += 0.2
    assert patience.ask(one, "filter", GROWTH) == Refused("no")


def test_one_that_fails_slowly_is_left_alone_too() -> None:
    clock = Clock()
    slow = Slow(clock)
    slow.takes_s, slow.fails = 1.0, True
    one, patience = Enlisted("slow", slow), Patience(0.05, clock)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            patience.ask(one, "filter", GROWTH)
    with pytest.raises(UnknownError):
        patience.ask(one, "filter", GROWTH)


def test_one_that_is_slow_holds_up_no_other() -> None:
    clock = Clock()
    slow, quick, patience = Slow(clock), Slow(clock), Patience(0.05, clock)
    slow.takes_s = 0.06
    slow_times(patience, Enlisted("slow", slow), 3)
    assert patience.ask(Enlisted("quick", quick), "filter", GROWTH) == Refused("no")


REF = WorkloadRef("apps", "deployments", "team-a", "web")
ROWS = (
    PolicyAnswer("hours", "filter", "refused", "later"),
    PolicyAnswer("steps", "limit", "refused", "less", audits=True, replicas=4),
    PolicyAnswer("calm", "permit", "unknown", "it failed: gone"),
)
SENTENCE = 'deployments.apps "web" is forbidden: policy hours: later'
DENIED = Decision(
    "d1",
    Verdict.DENY,
    "policy-refused",
    SENTENCE,
    REF,
    Operation.PATCH,
    True,
    False,
    9,
    3,
    evidence=Evidence(policies=ROWS),
)


def test_the_log_has_a_row_for_each() -> None:
    fields = decision_fields(DENIED, "", 0.0)
    assert fields["refusal"] == "ForbiddenByPolicy"
    assert fields["policies"] == [
        {"policy": "hours", "step": "filter", "result": "refused", "message": "later"},
        {"policy": "steps", "step": "limit", "result": "refused", "message": "less", "replicas": 4, "audit": True},
        {"policy": "calm", "step": "permit", "result": "unknown", "message": "it failed: gone"},
    ]
    assert "policies" not in decision_fields(DENIED._replace(evidence=NO_EVIDENCE), "", 0.0)


def test_check_prints_who_is_against_it() -> None:
    text = as_table(shown.decision(DENIED))
    assert "policies against it:\n  policy  step    message\n  hours   filter  later\n" in text
    assert "  calm    permit  not known: it failed: gone\n" in text
    assert "policies against it, but only audited:\n  policy  step   message\n  steps   limit  less" in text


def test_clients_that_learn_nothing_learn_that_it_was_a_policy() -> None:
    assert shortened(DENIED).sentence == 'deployments.apps "web" is forbidden by a policy (decision d1)'
    held = DENIED._replace(reason="policy-not-yet")
    assert shortened(held).sentence == 'deployments.apps "web" is forbidden by a policy (decision d1)'
    passed = DENIED._replace(verdict=Verdict.ALLOW, would=Verdict.DENY)
    assert shortened(passed).sentence == SENTENCE


# Policies as the settings name them, in a gate that is assembled; and the second look of gates that share a ledger.


class Lines:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.failed: list[tuple[str, str]] = []

    def event(self, level: str, event: str, **fields: Any) -> None:
        self.events.append((level, event, fields))

    def policy_failed(self, policy: str, step: str) -> None:
        self.failed.append((policy, step))


@pytest.mark.parametrize(
    ("text", "names"), [("a, b=Audit c", ("a", "b=Audit", "c")), (["a", "b"], ("a", "b")), ("", ())]
)
def test_names_come_as_a_list_or_a_text(text: Any, names: tuple[str, ...]) -> None:
    assert load({"policies": text}, {}, None).policies == names


@pytest.mark.parametrize("text", ["a=Enforce", "a/b", "a a", "a a=Audit", 5, "-a"])
def test_what_is_no_list_of_names_is_refused(text: Any) -> None:
    with pytest.raises(SettingsError, match=r"^--policies: "):
        load({"policies": text}, {}, None)


def test_one_that_is_missing_is_logged_and_noted() -> None:
    lines: Any = Lines()
    found = policies(Settings(policies=("nobody",)), lines, lines, lambda: 0.0)
    assert [(level, event, fields["policy"]) for level, event, fields in lines.events] == [
        ("error", "policy-missing", "nobody")
    ]
    assert notes(found) == ["policy nobody: no installed package has an entry point nobody of extauthz.policies"]
    assert notes(Policies()) == []


class Ordering(GrowthPolicy):
    def rank(self, growth: Growth) -> int:
        return 1


def test_without_a_rank_of_its_own_a_policy_puts_nobody_first() -> None:
    growth: Any = None
    assert Broken().rank(growth) == 0


def test_two_that_give_ranks_are_an_error_with_its_cure() -> None:
    lines: Any = Lines()
    both = [Enlisted("one", Ordering()), Enlisted("other", Ordering())]
    with pytest.raises(SettingsError, match=r"^--policies: one, other: each gives ranks"):
        policies(Settings(), lines, lines, lambda: 0.0, both)
    assert len(policies(Settings(), lines, lines, lambda: 0.0, both[:1]).all) == 1


class Broken(GrowthPolicy):
    def reserve(self, growth: Growth) -> None:
        raise RuntimeError("gone")


def test_those_beside_the_settings_come_first_and_their_failures_are_counted() -> None:
    lines: Any = Lines()
    found = policies(Settings(policies=("nobody",)), lines, lines, lambda: 0.0, [Enlisted("broken", Broken())])
    assert [one.name for one in found.all] == ["broken", "nobody"]
    found.reserve(Growth("d", None, "patch", 1, 2, {}, None, (), None, 0.0, 0.0))  # type: ignore[arg-type]
    assert lines.failed == [("broken", "reserve")]


class Lives(LivePolicy):
    """Runs, fails, runs again, and ends."""

    def __init__(self) -> None:
        self.runs: list[Host] = []

    async def run(self, host: Host) -> None:
        self.runs.append(host)
        if len(self.runs) < 3:
            raise RuntimeError("no nodes")

    def notes(self) -> list[str]:
        return ["it looks", "and looks"]

    def levels(self) -> dict[tuple[str, str], float]:
        return {("used", "a"): 0.5}


class Fails(LivePolicy):
    def notes(self) -> list[str]:
        raise RuntimeError("no")

    def levels(self) -> dict[tuple[str, str], float]:
        raise RuntimeError("no")


async def test_one_that_runs_beside_the_gate_begins_anew_where_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", nap)
    lines, lives = Lines(), Lives()
    host = Host(None, lambda: 1.0, lambda: 2.0, lines.event)
    (one, plain) = running(Policies([Enlisted("l", lives), Enlisted("p", Broken()), Enlisted("q", LivePolicy())]), host)
    await one
    await plain
    assert lives.runs == [host] * 3
    assert naps == [AGAIN_S] * 2
    failed = ("error", "policy-failed", {"policy": "l", "why": "RuntimeError: no nodes"})
    assert lines.events == [failed] * 2


def test_what_those_that_run_tell_has_their_names_and_one_that_fails_takes_nobody_along() -> None:
    found = Policies([Enlisted("f", Fails()), Enlisted("l", Lives()), Enlisted("q", LivePolicy())])
    assert notes(found) == ["policy f: its notes fail: RuntimeError: no", "policy l: it looks", "policy l: and looks"]
    assert levels(found) == {("l", "used", "a"): 0.5}


class ChangesItsMind(GrowthPolicy):
    """Lets the first look pass."""

    def __init__(self) -> None:
        self.looks = 0

    def filter(self, growth: Growth) -> Refused | None:
        self.looks += 1
        return Refused("not any more") if self.looks > 1 else None


def test_the_second_look_asks_again() -> None:
    """As gates do that share a ledger: a question first, and the decision once its turn to be written comes."""
    made = gate([quota("acme", {"pods": "9"})], workload("web", 1))
    made.enlist(Policies([Enlisted("mind", ChangesItsMind())]))
    ask = Asker(made)
    assert ask(scale("web", 2), charge=False).verdict is Verdict.ALLOW
    assert ask(scale("web", 2)).reason == "policy-refused"
    assert made.ledger.pending_writes == 0
