"""Plug-ins by entry point: found, missing, broken, slow (docs/policies.md)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from extauthz.cli.report import as_table
from extauthz.core.decision.gate import Gate
from extauthz.core.model import (
    NO_EVIDENCE,
    Decision,
    Evidence,
    Growth,
    Operation,
    PolicyAnswer,
    Refusal,
    Requester,
    Verdict,
    WorkloadRef,
)
from extauthz.core.policies import Enlisted, GrowthPolicy, Policies, Refused
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.policies import cel
from extauthz.inputs.policies.plugins import (
    AGAIN_S,
    GROUP,
    Host,
    LivePolicy,
    Missing,
    Patience,
    SlowPolicyError,
    enlisted,
)
from extauthz.inputs.sources import file as quota_file
from extauthz.serve.servers.api import rights, shown
from extauthz.serve.service.deciding import shortened
from extauthz.serve.service.loading import load
from extauthz.serve.service.setting_types import SettingsError
from extauthz.serve.service.settings import Settings
from extauthz.serve.service.sources import levels, notes, policies, policy_names, running
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


def test_the_policies_that_there_are_are_plug_ins_and_those_of_quotas():
    found = Policies([Enlisted("calm", LivePolicy())])
    many = quota("acme", {"pods": "1"}, policies=[{"name": "hours", "expression": "true"}])
    assert policy_names(found, QuotaTree.build([many])) == {"calm", "hours"}
    assert policy_names(found, QuotaTree.build([quota("acme", {"pods": "1"})])) == {"calm"}


# The policies of examples/quota-policies: what each refuses, and what it lets pass.


QUOTAS = Path(__file__).parents[3] / "examples" / "quota-policies" / "quota.yaml"
HPA = Requester("system:serviceaccount:kube-system:horizontal-pod-autoscaler")
BOTH = {"cpu": "1", "memory": "1Gi"}
APPROVED = {"annotations": {"policy.extauthz.dev/approved-up-to": "40"}}


def only(name: str, *objects: dict[str, Any]) -> Gate:
    """A gate with that one of the policies, which enforces."""
    (node,) = quota_file.load(QUOTAS).tree.nodes
    policies = tuple(replace(one, audits=False) for one in node.quota.policies if one.name == name)
    made = gate([], *objects)
    made.load_quotas(QuotaTree.build([replace(node.quota, policies=policies)]), 0.0)
    return made


def asked(name: str, before: int, to: int, by: Requester | None = None, at: str = "", **metadata: Any) -> Decision:
    made = only(name, workload("web", before, metadata.pop("requests", BOTH), **metadata))
    made.epoch_s = datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() if at else 0.0
    return Asker(made)(scale("web", to), by=by)


@pytest.mark.parametrize(("before", "to", "fits"), [(3, 6, None), (3, 7, 6), (0, 4, None), (0, 5, 4), (7, 1, None)])
def test_not_more_than_double(before: int, to: int, fits: int | None) -> None:
    found = asked("no-more-than-double", before, to)
    assert found.evidence.fits == fits
    assert (found.reason == "policy-refused") is (fits is not None)


@pytest.mark.parametrize(
    ("at", "grows"),
    [
        ("2026-07-01T05:59:59", False),  # a Wednesday; Berlin is two hours ahead of UTC
        ("2026-07-01T06:00:00", True),
        ("2026-07-01T15:59:59", True),
        ("2026-07-01T16:00:00", False),
        ("2026-07-04T10:00:00", False),  # a Saturday
        ("2026-12-02T07:30:00", True),  # winter: one hour
        ("2026-12-02T06:30:00", False),
    ],
)
def test_business_hours(at: str, grows: bool) -> None:
    assert (asked("business-hours", 2, 3, at=at).verdict is Verdict.ALLOW) is grows
    assert asked("business-hours", 2, 1, at=at).verdict is Verdict.ALLOW


def test_approval_above_20_by_an_annotation() -> None:
    assert asked("approval-above-20", 2, 20).verdict is Verdict.ALLOW
    refused = asked("approval-above-20", 2, 21)
    assert refused.refusal is Refusal.FORBIDDEN_BY_POLICY
    assert refused.sentence == (
        'deployments.apps "web" is forbidden: policy approval-above-20 of workspace quota acme: more than 20 replicas '
        "need the annotation policy.extauthz.dev/approved-up-to"
    )
    assert asked("approval-above-20", 2, 40, **APPROVED).verdict is Verdict.ALLOW
    assert asked("approval-above-20", 2, 41, **APPROVED).reason == "policy-refused"
    odd = {"annotations": {"policy.extauthz.dev/approved-up-to": "many"}}
    assert asked("approval-above-20", 2, 21, **odd).reason == "policy-unknown"


def test_only_autoscalers() -> None:
    assert asked("only-autoscalers", 2, 3, by=HPA).verdict is Verdict.ALLOW
    assert asked("only-autoscalers", 2, 3, by=Requester("jane")).reason == "policy-refused"
    assert asked("only-autoscalers", 2, 3).reason == "policy-refused"
    assert asked("only-autoscalers", 3, 2, by=Requester("jane")).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("requests", "grows"), [(BOTH, True), ({"cpu": "1"}, False), ({}, False)])
def test_nothing_without_requests(requests: dict[str, str], grows: bool) -> None:
    made = only("nothing-without-requests", workload("web", 2, requests))
    (node,) = made.ledger.coverage.tree.nodes
    made.load_quotas(QuotaTree.build([replace(node.quota, hard={"pods": 10**12})]), 0.0)
    assert (Asker(made)(scale("web", 3)).verdict is Verdict.ALLOW) is grows


def test_all_of_them_at_once() -> None:
    (node,) = quota_file.load(QUOTAS).tree.nodes
    made = gate([], workload("web", 15, BOTH))
    made.load_quotas(QuotaTree.build([node.quota]), 0.0)
    found = Asker(made)(scale("web", 31), by=Requester("jane"))
    assert found.reason == "policy-refused"
    assert [(row.policy, row.audits) for row in found.evidence.policies] == [
        ("business-hours", True),
        ("approval-above-20", False),
        ("only-autoscalers", True),
    ]


def test_where_one_of_several_fails_only_that_one_is_unknown() -> None:
    policies = [
        {"name": "good", "expression": "write.to < 9 // small"},
        {"name": "bad", "expression": "workload.labels['no'] == 'such'"},
    ]
    found = quota("acme", {"pods": "9"}, policies=policies, compiler=cel.compiler())
    refused = Asker(gate([found], workload("web", 2)))(scale("web", 3))
    assert [(row.policy, row.result) for row in refused.evidence.policies] == [("bad", "unknown")]


def test_policies_that_are_too_deep_together_are_asked_one_by_one() -> None:
    text = "(" * 32 + "write.to < 9" + ")" * 32
    policies = [{"name": f"p{at}", "expression": text} for at in range(2)]
    assert cel.compiled(text).joined([cel.compiled(text)]) is None
    found = quota("acme", {"pods": "9"}, policies=policies, compiler=cel.compiler())
    assert Asker(gate([found], workload("web", 2)))(scale("web", 3)).verdict is Verdict.ALLOW
