"""Plug-ins by entry point: found, missing, broken, slow (docs/policies.md)."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from extauthz.cli.report import as_table
from extauthz.core.model import NO_EVIDENCE, Decision, Evidence, Growth, Operation, PolicyAnswer, Verdict, WorkloadRef
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies, Refused
from extauthz.observe.log import decision_fields
from extauthz.policies.plugins import GROUP, Missing, Patience, SlowPolicyError, enlisted
from extauthz.servers.api import rights, shown
from extauthz.service.deciding import shortened
from extauthz.testing.builders import Asker, gate, quota, scale, workload

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
        with pytest.raises(SlowPolicyError, match=r"it took 60 ms, and may take 50"):
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
    with pytest.raises(SlowPolicyError, match=r"not asked for 10 s"):
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
    with pytest.raises(SlowPolicyError):
        patience.ask(one, "filter", GROWTH)


def test_one_that_is_slow_holds_up_no_other() -> None:
    clock = Clock()
    slow, quick, patience = Slow(clock), Slow(clock), Patience(0.05, clock)
    slow.takes_s = 0.06
    slow_times(patience, Enlisted("slow", slow), 3)
    assert patience.ask(Enlisted("quick", quick), "filter", GROWTH) == Refused("no")


REF = WorkloadRef("apps", "deployments", "team-a", "web")
ROWS = (
    PolicyAnswer("hours", "acme", "filter", "refused", "later"),
    PolicyAnswer("steps", "corp", "limit", "refused", "less", audits=True, replicas=4),
    PolicyAnswer("calm", "", "permit", "unknown", "it failed: gone"),
)
SENTENCE = 'deployments.apps "web" is forbidden: policy hours of workspace quota acme: later'
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
        {"policy": "hours", "step": "filter", "result": "refused", "message": "later", "quota": "acme"},
        {
            "policy": "steps",
            "step": "limit",
            "result": "refused",
            "message": "less",
            "quota": "corp",
            "replicas": 4,
            "audit": True,
        },
        {"policy": "calm", "step": "permit", "result": "unknown", "message": "it failed: gone"},
    ]
    assert "policies" not in decision_fields(DENIED._replace(evidence=NO_EVIDENCE), "", 0.0)


def test_the_api_hides_those_of_quotas_that_who_asks_may_not_see() -> None:
    found = shown.decision(DENIED)
    assert rights.named(found) == {"acme", "corp"}
    assert shown.refusing(DENIED) == {"acme", "corp"}
    assert rights.over(found, {"acme", "corp"}) == found
    covered = rights.over(found, {"corp"})
    assert covered["sentence"] == rights.SENTENCE
    assert [(row["policy"], row["quota"], row["message"]) for row in covered["policies"]] == [
        (None, None, None),
        ("steps", "corp", "less"),
        ("calm", None, "it failed: gone"),
    ]


def test_check_prints_who_is_against_it() -> None:
    text = as_table(shown.decision(DENIED))
    assert "policies against it:\n  policy  quota  step    message\n  hours   acme   filter  later\n" in text
    assert "  calm    -      permit  not known: it failed: gone\n" in text
    assert (
        "policies against it, but only audited:\n  policy  quota  step   message\n  steps   corp   limit  less" in text
    )


def test_clients_that_learn_nothing_learn_that_it_was_a_policy() -> None:
    assert shortened(DENIED).sentence == 'deployments.apps "web" is forbidden by a policy (decision d1)'
    held = DENIED._replace(reason="policy-not-yet")
    assert shortened(held).sentence == 'deployments.apps "web" is forbidden by a policy (decision d1)'
    passed = DENIED._replace(verdict=Verdict.ALLOW, would=Verdict.DENY)
    assert shortened(passed).sentence == SENTENCE
