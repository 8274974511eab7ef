"""Expressions of quotas in a decision: what they may use, and what comes of what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from extauthz.core.decision.expressions import VARIABLES
from extauthz.core.decision.policy import Policy
from extauthz.core.model import Growth, Requester, Verdict, WorkloadRef
from extauthz.core.quota.policies import Compile
from extauthz.testing import Asker, create, gate, patch, path, pod, quota, scale, workload

TEN = {"requests.cpu": "10", "pods": "10"}


class Gives:
    """An expression of a test: ``gives`` is what it gives of the values."""

    def __init__(self, gives: Callable[[Mapping[str, Any]], object], limits: bool = False, needs: Any = None) -> None:
        self._gives = gives
        self.limits = limits
        self.cost = 1
        self.needs = frozenset(VARIABLES if needs is None else needs)
        self.boundings = 0

    def bound(self, values: Mapping[str, object]) -> object:
        self.boundings += 1
        return dict(values)

    def joined(self, others: object) -> None:
        return None

    def run(self, bound: Any) -> object:
        return self._gives(bound)


def of(**programs: Gives) -> tuple[list[dict[str, str]], Compile]:
    return [{"name": name, "expression": name, "message": f"{name}!"} for name in programs], programs.__getitem__


def asker(*objects: Any, settings: Policy | None = None, more: Any = None, **programs: Gives) -> Asker:
    policies, compiler = of(**programs)
    found = quota("acme", TEN, policies=policies, compiler=compiler, **(more or {}))
    return Asker(gate([found], *(objects or [workload("web", 2)]), policy=settings))


def seen(ask: Callable[[Gives], Any]) -> dict[str, Any]:
    """What an expression may use."""
    kept: dict[str, Any] = {}
    ask(Gives(lambda values: bool(kept.update(values)) or True))
    return kept


class TestValues:
    def test_of_a_count(self) -> None:
        made = workload("web", 2, annotations={"policy.extauthz.dev/a": "1", "else": "2"}, labels={"app": "web"})
        who = Requester("jane", ("dev",))

        def ask(one: Gives) -> None:
            asked = asker(made, workload("other", 3), p=one)
            asked.gate.epoch_s = 1_782_000_000.0
            asked(scale("web", 4), by=who)

        assert seen(ask) == {
            "write.from": 2,
            "write.to": 4,
            "write.operation": "patch",
            "workload.kind": "Deployment",
            "workload.namespace": "team-a",
            "workload.name": "web",
            "workload.labels": {"app": "web"},
            "workload.annotations": {"policy.extauthz.dev/a": "1"},
            "workload.replicas": 2,
            "workload.unspecified": ["limits.cpu", "limits.memory", "requests.memory"],
            "quota.name": "acme",
            "quota.used": {"requests.cpu": 5.0, "pods": 5.0},
            "quota.hard": {"requests.cpu": 10.0, "pods": 10.0},
            "requester.known": True,
            "requester.user": "jane",
            "requester.groups": ["dev"],
            "now": datetime.fromtimestamp(1_782_000_000.0, UTC),
        }

    def test_what_is_reserved_counts_as_used(self) -> None:
        def ask(one: Gives) -> None:
            asked = asker(workload("web", 2), workload("other", 1), p=one)
            asked(scale("other", 4))
            asked(scale("web", 3))

        assert seen(ask)["quota.used"]["requests.cpu"] == 6.0

    def test_who_is_not_known_has_no_name(self) -> None:
        found = seen(lambda one: asker(p=one)(scale("web", 3)))
        assert found["requester.known"] is False
        assert not {"requester.user", "requester.groups"} & set(found)

    @pytest.mark.parametrize(
        ("who", "missing"),
        [
            (Requester("jane", ("dev",) * 256), set()),
            (Requester("jane", ("dev",) * 257), {"requester.groups"}),
            (Requester("jane", ("g" * 1025,)), {"requester.groups"}),
            (Requester("jane", ("g" * 64,) * 256), set()),
            (Requester("jane", ("g" * 64,) * 255 + ("g" * 65,)), {"requester.groups"}),
            (Requester("j" * 1024, ("dev",)), set()),
            (Requester("j" * 1025, ("dev",)), {"requester.user"}),
        ],
        ids=["groups", "many-groups", "a-long-group", "long-groups", "longer-groups", "user", "a-long-user"],
    )
    def test_what_is_larger_than_expressions_are_paid_for_has_no_value(self, who, missing) -> None:
        found = seen(lambda one: asker(p=one)(scale("web", 3), by=who))
        assert {"requester.user", "requester.groups"} - set(found) == missing

    def test_nor_has_a_map_of_too_many_or_too_long_texts(self) -> None:
        long = {f"{n:03}" + "a" * 30: "b" * 32 for n in range(256)}
        for labels in ({f"l{n}": "" for n in range(257)}, {"a": "b" * 1025}, {"a" * 1025: "b"}, long):
            made = workload("web", 2, labels=labels)
            assert "workload.labels" not in seen(lambda one, made=made: asker(made, p=one)(scale("web", 3)))

    def test_of_a_template_and_a_create(self) -> None:
        dearer = {"spec": {"template": pod({"cpu": "2"}, {"cpu": "2"})}}
        found = seen(lambda one: asker(p=one)(patch(path("web"), dearer, "strategic")))
        assert (found["write.from"], found["write.to"]) == (2, 2)
        assert "limits.cpu" not in found["workload.unspecified"]
        found = seen(lambda one: asker(p=one)(create(workload("new", 1, labels={"a": "b"}))))
        assert (found["write.from"], found["workload.labels"]) == (0, {"a": "b"})

    def test_a_pod_without_a_known_cost_says_nothing(self) -> None:
        settings = Policy(on_unknown_footprint="allow")
        found = seen(lambda one: asker(workload("web", 1, {"cpu": "odd"}), settings=settings, p=one)(scale("web", 2)))
        assert "workload.unspecified" not in found

    def test_of_an_object_that_is_not_known_there_is_nothing(self) -> None:
        ask = asker(p=Gives(lambda values: True))
        rollout = WorkloadRef("argoproj.io", "rollouts", "team-a", "web")
        growth = Growth("d", rollout, "patch", 0, 1, {}, None, (), None, 0.0, 0.0)
        ledger = ask.gate.ledger
        (node,) = ledger.coverage.tree.nodes
        found = {name: VARIABLES[name](ledger, growth, node) for name in VARIABLES if name.startswith("workload.")}
        assert found == {
            "workload.kind": "rollouts.argoproj.io",
            "workload.namespace": "team-a",
            "workload.name": "web",
            "workload.labels": {},
            "workload.annotations": {},
            "workload.replicas": 0,
            "workload.unspecified": None,
        }

    def test_they_are_made_once_for_all_expressions_of_a_quota_and_only_those_needed(self) -> None:
        first = Gives(lambda values: True, needs=["write.to"])
        second = Gives(lambda values: 9, limits=True, needs=["write.from"])
        asker(a=first, b=second)(scale("web", 3))
        assert first.boundings + second.boundings == 1
        kept: list[Any] = []
        asker(a=Gives(lambda values: bool(kept.append(values)) or True, needs=["now"]), b=second)(scale("web", 3))
        assert set(kept[0]) == {"now", "write.from"}


class Joined(Gives):
    """Asked for all at once, it says the same; it keeps how often."""

    asked = 0

    def joined(self, others: object) -> Any:
        def all_hold(values: Mapping[str, Any]) -> object:
            Joined.asked += 1
            return self._gives(values)

        return Gives(all_hold)


class TestWhatTheyGive:
    def test_where_all_hold_one_question_is_enough(self) -> None:
        def never(values: Mapping[str, Any]) -> object:
            raise AssertionError("asked by itself")

        assert asker(a=Joined(lambda values: True), b=Gives(never))(scale("web", 3)).evidence.policies == ()
        assert Joined.asked == 1

    def test_false_refuses_with_the_message(self) -> None:
        denied = asker(hours=Gives(lambda values: False))(scale("web", 3))
        assert (denied.verdict, denied.reason) == (Verdict.DENY, "policy-refused")
        assert denied.sentence.endswith("is forbidden: policy hours of workspace quota acme: hours!")
        assert (denied.evidence.policies[0].quota, denied.evidence.policies[0].step) == ("acme", "filter")

    def test_true_and_a_number_that_is_enough_pass(self) -> None:
        ask = asker(a=Gives(lambda values: True), b=Gives(lambda values: 3, limits=True))
        assert ask(scale("web", 3)).verdict is Verdict.ALLOW
        assert ask(scale("web", 4)).evidence.fits == 3

    @pytest.mark.parametrize(
        "program",
        [
            Gives(lambda values: 1),
            Gives(lambda values: "true"),
            Gives(lambda values: None),
            Gives(lambda values: True, limits=True),
            Gives(lambda values: 2.5, limits=True),
            Gives(lambda values: values["no such"]),
        ],
    )
    def test_what_fails_or_lies_about_its_type_is_an_unknown(self, program: Gives) -> None:
        refused = asker(p=program)(scale("web", 3))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "policy-unknown")
        assert "policy p of workspace quota acme: it " in refused.sentence
        lenient = {"on_unknown": {"unknownPolicy": "Allow"}}
        assert asker(p=program, more=lenient)(scale("web", 3)).verdict is Verdict.ALLOW

    def test_what_nobody_can_evaluate_is_an_unknown(self) -> None:
        found = quota("acme", TEN, policies=[{"name": "p", "expression": "true"}])
        refused = Asker(gate([found], workload("web", 2)))(scale("web", 3))
        assert refused.reason == "policy-unknown"
        assert refused.sentence.count("install extauthz[cel], with Python 3.14 or earlier") == 1
        assert len(refused.evidence.policies) == 1
        ask = Asker(gate([found], workload("web", 2), policy=Policy(on_unknown_policy="allow")))
        assert [row.step for row in ask(scale("web", 3)).evidence.policies] == ["filter"]

    def test_one_that_audits_is_reported(self) -> None:
        policies, compiler = of(p=Gives(lambda values: False))
        found = quota("acme", TEN, policies=[policies[0] | {"mode": "Audit"}], compiler=compiler)
        allowed = Asker(gate([found], workload("web", 2)))(scale("web", 3))
        assert (allowed.verdict, allowed.evidence.policies[0].audits) == (Verdict.ALLOW, True)

    def test_those_of_a_parent_hold_for_what_is_below_and_each_sees_its_own_quota(self) -> None:
        names: list[str] = []
        policies, compiler = of(p=Gives(lambda values: bool(names.append(values["quota.name"])) or True))
        top = quota("top", TEN, namespaces={"none": "such"}, policies=policies, compiler=compiler)
        acme = quota("acme", TEN, parent="top", namespaces={"workspace": "acme"}, policies=policies, compiler=compiler)
        Asker(gate([top, acme], workload("web", 2)))(scale("web", 3))
        assert names == ["top", "acme"]

    def test_those_of_a_quota_that_does_not_bind_who_asks_refuse_nothing(self) -> None:
        more = {"requesters": {"except": {"users": ["jane"]}}}
        ask = asker(p=Gives(lambda values: False), more=more)
        assert ask(scale("web", 3), by=Requester("jane")).verdict is Verdict.ALLOW
        assert ask(scale("web", 3), by=Requester("john")).verdict is Verdict.DENY
