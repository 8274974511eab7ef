"""Policies at named steps: what they are asked, and what comes of what they say (docs/policies.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Growth, Refusal, Request, Requester, Unknown, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.policies import Enlisted, Fate, GrowthPolicy, Limit, NotYet, Policies, Refused, UnknownError
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, quota, scale, workload

TEN = {"requests.cpu": "10"}
WEB = WorkloadRef("apps", "deployments", "team-a", "web")


class Says(GrowthPolicy):
    """Says the same of everything, and keeps what it is asked and told."""

    def __init__(self, filter: Any = None, limit: Any = None, permit: Any = None) -> None:
        self._says = {"filter": filter, "limit": limit, "permit": permit}
        self.asked: list[tuple[str, Growth]] = []

    def _said(self, step: str, growth: Growth) -> Any:
        self.asked.append((step, growth))
        said = self._says[step]
        if isinstance(said, Exception):
            raise said
        return said(growth) if callable(said) else said

    def filter(self, growth: Growth) -> Refused | None:
        return self._said("filter", growth)

    def limit(self, growth: Growth) -> Limit | None:
        return self._said("limit", growth)

    def permit(self, growth: Growth) -> NotYet | None:
        return self._said("permit", growth)

    @property
    def growth(self) -> Growth:
        return self.asked[-1][1]


class Told(GrowthPolicy):
    """Keeps what it is told of grants."""

    def __init__(self, name: str, told: list[tuple[str, str, str]], fails: bool = False) -> None:
        self._name, self._told, self._fails = name, told, fails

    def _tell(self, what: str, growth: Growth) -> None:
        self._told.append((self._name, what, growth.id))
        if self._fails:
            raise RuntimeError("broken")

    def reserve(self, growth: Growth) -> None:
        self._tell("reserve", growth)

    def after(self, growth: Growth, fate: Fate) -> None:
        self._tell(fate, growth)


def asker(*policies: GrowthPolicy, objects: Any = (), settings: Policy | None = None, quotas: Any = None) -> Asker:
    return enlisted(*(Enlisted(f"p{at}", one) for at, one in enumerate(policies)), objects=objects, settings=settings,
                    quotas=quotas)  # fmt: skip


def enlisted(*found: Enlisted, objects: Any = (), settings: Policy | None = None, quotas: Any = None) -> Asker:
    made = gate(quotas or [quota("acme", TEN)], *(objects or [workload("web", 2)]), policy=settings)
    made.enlist(Policies(found))
    return Asker(made)


class TestFilter:
    def test_what_a_policy_forbids_is_refused_with_its_name_and_message(self) -> None:
        denied = asker(Says(filter=Refused("not on Fridays")))(scale("web", 3))
        assert (denied.verdict, denied.reason) == (Verdict.DENY, "policy-refused")
        assert denied.refusal is Refusal.FORBIDDEN_BY_POLICY
        assert denied.sentence == 'deployments.apps "web" is forbidden: policy p0: not on Fridays'
        assert [(row.policy, row.step, row.message) for row in denied.evidence.policies] == [
            ("p0", "filter", "not on Fridays")
        ]

    def test_all_that_forbid_are_named(self) -> None:
        denied = asker(Says(filter=Refused("one")), Says(), Says(filter=Refused("two")))(scale("web", 3))
        assert denied.sentence.endswith("is forbidden: policy p0: one; policy p2: two")

    def test_it_learns_what_is_asked(self) -> None:
        one = Says()
        ask = asker(one)
        ask.gate.epoch_s = 1_000.0
        who = Requester("jane", ("dev",))
        ask(scale("web", 3), by=who)
        growth = one.growth
        assert (growth.ref, growth.operation, growth.before, growth.to) == (WEB, "patch", 2, 3)
        assert growth.rises["requests.cpu"] == 10**9
        assert growth.requester == who
        assert growth.wall_s == growth.now_s + 1_000.0
        assert growth.observed.labels == "app=web"

    def test_its_refusal_comes_before_a_quotas(self) -> None:
        assert asker(Says(filter=Refused("no")))(scale("web", 99)).reason == "policy-refused"


class TestOnlyGrowth:
    @pytest.mark.parametrize("replicas", [0, 1, 2])
    def test_zero_and_less_and_as_many_pass(self, replicas: int) -> None:
        one = Says(filter=Refused("no"), limit=Limit(0), permit=NotYet("no", 1.0))
        assert asker(one)(scale("web", replicas)).verdict is Verdict.ALLOW
        assert one.asked == []

    def test_zero_passes_beside_a_write_that_pends(self) -> None:
        one = Says()
        ask = asker(one)
        ask(scale("web", 4))
        one._says["filter"] = Refused("no")
        body = {"spec": {"replicas": 0, "template": pod({"cpu": "2"})}}
        assert ask(patch(path("web"), body)).verdict is Verdict.ALLOW

    def test_what_no_quota_covers_is_not_asked_about(self) -> None:
        one = Says(filter=Refused("no"))
        other = quota("acme", TEN, workloads={"app": "other"})
        assert asker(one, quotas=[other])(scale("web", 3)).verdict is Verdict.ALLOW
        assert one.asked == []

    def test_a_count_that_no_limit_concerns_is_growth_too(self) -> None:
        one = Says(filter=Refused("no"))
        ask = asker(one, quotas=[quota("acme", {"requests.nvidia.com/gpu": "1"})])
        assert ask(scale("web", 3)).reason == "policy-refused"

    def test_a_dearer_template_is_growth(self) -> None:
        one = Says()
        ask = asker(one)
        ask(patch(path("web"), {"spec": {"template": pod({"cpu": "1", "memory": "1Gi"})}}, "strategic"))
        growth = one.growth
        assert (growth.before, growth.to) == (2, 2)
        assert set(growth.rises) == {"requests.memory"}
        assert len(growth.templates) == 1

    def test_what_a_controller_does_within_the_grant_of_its_owner_is_none(self) -> None:
        one = Says(filter=Refused("no"))
        replica_set = workload("web-1", 0, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
        ask = asker(one, objects=[workload("web", 2), replica_set])
        assert ask(scale("web-1", 2, resource="replicasets")).verdict is Verdict.ALLOW
        assert one.asked == []

    def test_a_count_that_its_family_has_room_for_is_growth(self) -> None:
        """A ReplicaSet that was given to it has more pods than it asks for itself."""
        given = workload("given", 6, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
        says = Says(limit=Limit(3, "three"))
        ask = asker(says, objects=[workload("web", 2), given])
        refused = ask(scale("web", 5))
        assert (refused.verdict, refused.reason, refused.evidence.fits) == (Verdict.DENY, "policy-refused", 3)
        assert (says.growth.before, says.growth.to, says.growth.rises["pods"]) == (2, 5, 3 * 10**9)
        assert ask(scale("web", 2)).verdict is Verdict.ALLOW

    def test_growing_back_within_a_grant_from_before_is_growth(self) -> None:
        one = Says()
        ask = asker(one)
        assert ask(scale("web", 6)).verdict is Verdict.ALLOW
        one._says["filter"] = Refused("no")
        assert ask(scale("web", 5)).reason == "policy-refused"

    def test_a_count_of_unknown_cost_is_growth(self) -> None:
        one = Says(filter=Refused("no"))
        settings = Policy(allows={Unknown.FOOTPRINT})
        ask = asker(one, objects=[workload("web", 2, {"cpu": "odd"})], settings=settings)
        assert ask(scale("web", 3)).reason == "policy-refused"
        assert ask(scale("web", 2)).verdict is Verdict.ALLOW

    def test_a_create_grows_from_nothing_and_shows_what_it_makes(self) -> None:
        one = Says()
        ask = asker(one)
        ask(create(workload("new", 3)))
        growth = one.growth
        assert (growth.operation, growth.before, growth.to) == ("create", 0, 3)
        assert growth.observed.labels == "app=new"

    def test_of_an_object_that_a_pending_create_makes_that_is_shown(self) -> None:
        one = Says()
        ask = asker(one)
        ask(create(workload("new", 1)))
        ask(scale("new", 2))
        assert (one.growth.before, one.growth.to) == (0, 2)
        assert one.growth.observed.labels == "app=new"


class TestLimit:
    def test_the_smallest_limit_holds(self) -> None:
        ask = asker(Says(limit=Limit(5, "five")), Says(limit=Limit(4, "four")), Says(limit=Limit(99)))
        denied = ask(scale("web", 8))
        assert (denied.reason, denied.evidence.fits) == ("policy-refused", 4)
        assert denied.sentence.endswith("policy p0: five; policy p1: four; largest allowed replicas: 4")
        assert ask(scale("web", 4)).verdict is Verdict.ALLOW

    def test_a_quotas_room_may_be_the_smallest(self) -> None:
        ask = asker(Says(limit=Limit(11)), objects=[workload("web", 2), workload("other", 3)])
        assert ask(scale("web", 12)).evidence.fits == 7

    def test_it_is_never_below_what_is_there(self) -> None:
        assert asker(Says(limit=Limit(0)))(scale("web", 3)).evidence.fits == 2

    def test_it_concerns_counts_alone(self) -> None:
        one = Says(limit=Limit(0))
        body = {"spec": {"template": pod({"cpu": "2"})}}
        assert asker(one)(patch(path("web"), body, "strategic")).verdict is Verdict.ALLOW
        assert [step for step, _ in one.asked] == ["filter", "permit"]

    def test_one_that_audits_limits_nothing(self) -> None:
        ask = enlisted(Enlisted("a", Says(limit=Limit(3)), audits=True), Enlisted("b", Says(limit=Limit(4))))
        denied = ask(scale("web", 6))
        assert denied.evidence.fits == 4
        assert [(row.policy, row.audits) for row in denied.evidence.policies] == [("a", True), ("b", False)]


class TestPermit:
    def test_not_yet_is_a_refusal_that_says_when_to_ask_again(self) -> None:
        held = asker(Says(permit=NotYet("pool a is at 94 %", 30.0)))(scale("web", 3))
        assert (held.verdict, held.reason) == (Verdict.DENY, "policy-not-yet")
        assert held.refusal is Refusal.HELD_BY_POLICY
        assert held.sentence == (
            'deployments.apps "web" is forbidden: policy p0: pool a is at 94 %; ask again in about 30 s'
        )
        assert held.evidence.policies[0].again_s == 30.0

    def test_of_several_the_longest_time_is_said(self) -> None:
        ask = asker(Says(permit=NotYet("a", 20.0)), Says(permit=NotYet("b", 60.0)))
        assert ask(scale("web", 3)).sentence.endswith("ask again in about 60 s")

    def test_it_is_asked_only_if_all_else_has_room(self) -> None:
        one = Says(permit=NotYet("a", 1.0))
        assert asker(one)(scale("web", 11)).reason == "exceeded-quota"
        assert [step for step, _ in one.asked] == ["filter", "limit"]

    @pytest.mark.parametrize(("said", "kept"), [(-5.0, 0.0), (10.0**9, 24 * 3600.0)])
    def test_a_time_is_bounded(self, said: float, kept: float) -> None:
        held = asker(Says(permit=NotYet("a", said)))(scale("web", 3))
        assert held.evidence.policies[0].again_s == kept


class TestUnknown:
    @pytest.mark.parametrize(
        "says",
        [
            Says(filter=RuntimeError("gone")),
            Says(filter="yes"),
            Says(limit=RuntimeError("gone")),
            Says(limit=3),
            Says(limit=Limit(2.5)),  # type: ignore[arg-type]
            Says(limit=Limit(True)),
            Says(permit=RuntimeError("gone")),
            Says(permit=Refused("no")),
            Says(permit=NotYet("a", float("nan"))),
            Says(permit=NotYet("a", "soon")),  # type: ignore[arg-type]
        ],
    )
    def test_a_policy_that_fails_or_lies_is_an_unknown_with_a_setting(self, says: Says) -> None:
        refused = asker(says)(scale("web", 3))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "policy-unknown")
        assert refused.refusal is Refusal.UNKNOWN
        assert "the quota gate cannot tell what its policies say: policy p0: it " in refused.sentence
        allowed = asker(says, settings=Policy(allows={Unknown.POLICY}))(scale("web", 3))
        assert allowed.verdict is Verdict.ALLOW
        assert [row.result for row in allowed.evidence.policies] == ["unknown"]

    def test_a_quota_has_its_own_say(self) -> None:
        lenient = quota("acme", TEN, on_unknown={"unknownPolicy": "Allow"})
        assert asker(Says(filter=RuntimeError()), quotas=[lenient])(scale("web", 3)).verdict is Verdict.ALLOW

    def test_what_another_forbids_comes_first(self) -> None:
        denied = asker(Says(filter=RuntimeError()), Says(filter=Refused("no")))(scale("web", 3))
        assert denied.reason == "policy-refused"
        assert denied.sentence.endswith("is forbidden: policy p1: no")

    @pytest.mark.parametrize("step", ["limit", "permit"])
    def test_an_unknown_of_a_later_step_names_no_count_and_no_time(self, step: str) -> None:
        found = asker(Says(**{step: RuntimeError("gone")}))(scale("web", 3))
        assert "largest" not in found.sentence
        assert "again" not in found.sentence

    def test_messages_are_cut(self) -> None:
        denied = asker(Says(filter=Refused("x" * 5000)))(scale("web", 3))
        assert len(denied.evidence.policies[0].message) == 512


class TestAudit:
    def test_a_policy_that_audits_is_reported_and_passes(self) -> None:
        allowed = enlisted(Enlisted("a", Says(filter=Refused("no")), audits=True))(scale("web", 3))
        assert allowed.verdict is Verdict.ALLOW
        assert [(row.policy, row.message, row.audits) for row in allowed.evidence.policies] == [("a", "no", True)]

    def test_so_is_one_where_all_quotas_audit(self) -> None:
        found = asker(Says(filter=Refused("no")), quotas=[quota("acme", TEN, mode="Audit")])(scale("web", 3))
        assert (found.verdict, found.evidence.policies[0].audits) == (Verdict.ALLOW, True)

    def test_so_is_one_where_no_quota_binds_who_asks(self) -> None:
        bound = quota("acme", TEN, requesters={"except": {"users": ["jane"]}})
        ask = asker(Says(filter=Refused("no")), quotas=[bound])
        assert ask(scale("web", 3), by=Requester("jane")).verdict is Verdict.ALLOW
        assert ask(scale("web", 3), by=Requester("john")).reason == "policy-refused"

    def test_a_gate_that_audits_says_what_would_have_been(self) -> None:
        found = asker(Says(filter=Refused("no")), settings=Policy(mode="audit"))(scale("web", 3))
        assert (found.verdict, found.would, found.refusal) == (
            Verdict.ALLOW,
            Verdict.DENY,
            Refusal.FORBIDDEN_BY_POLICY,
        )


class TestReserve:
    def ends(self, end: Callable[[Asker, Decision], object]) -> list[tuple[str, str]]:
        told: list[tuple[str, str, str]] = []
        ask = asker(Told("a", told), Told("b", told))
        granted = ask(scale("web", 3))
        assert told == [("a", "reserve", granted.id), ("b", "reserve", granted.id)]
        del told[:]
        end(ask, granted)
        assert {one[2] for one in told} <= {granted.id}
        return [one[:2] for one in told]

    def test_what_the_api_server_refuses_is_told_to_all(self) -> None:
        found = self.ends(lambda ask, one: ask.gate.ledger.pending.settle(one.id, Event.REFUSED, 1.0))
        assert found == [("a", "refused"), ("b", "refused")]

    def test_the_end_is_told_once(self) -> None:
        def end_twice(ask: Asker, one: Decision) -> None:
            ask.gate.ledger.pending.settle(one.id, Event.NOT_FORWARDED, 1.0)
            ask.gate.policies.ended(one.id, Fate.LANDED)

        assert self.ends(end_twice) == [("a", "not-sent"), ("b", "not-sent")]

    def test_what_was_answered_has_landed(self) -> None:
        def land(ask: Asker, one: Decision) -> None:
            ask.gate.ledger.pending.settle(one.id, Event.ANSWERED_OK, 1.0)
            ask.gate.observe(*observe(workload("web", 3, version="2")))
            ask.gate.ledger.pending.read(WEB, 2.0)

        assert self.ends(land) == [("a", "landed"), ("b", "landed")]

    def test_what_another_gate_was_faster_with_is_withdrawn(self) -> None:
        assert self.ends(lambda ask, one: ask.gate.ledger.pending.forget(one.id))[0][1] == "withdrawn"

    def test_what_can_land_no_more_has_ended(self) -> None:
        assert self.ends(lambda ask, one: ask.gate.ledger.pending.consistent_read(500.0))[0][1] == "ended"

    def test_a_question_and_a_refusal_and_what_grows_nothing_are_no_grants(self) -> None:
        told: list[tuple[str, str, str]] = []
        ask = asker(Told("a", told))
        ask(scale("web", 3), charge=False)
        ask(scale("web", 11))
        ask(scale("web", 1))
        assert told == []

    def test_it_cannot_fail(self) -> None:
        told: list[tuple[str, str, str]] = []
        failed: list[tuple[str, str]] = []
        made = gate([quota("acme", TEN)], workload("web", 2))
        found = (Enlisted("a", Told("a", told, fails=True)), Enlisted("b", Told("b", told)))
        made.enlist(Policies(found, lambda name, step: failed.append((name, step))))
        granted = Asker(made)(scale("web", 3))
        made.ledger.pending.settle(granted.id, Event.REFUSED, 1.0)
        assert [one[:2] for one in told] == [
            ("a", "reserve"), ("b", "reserve"), ("a", "refused"), ("b", "refused"),
        ]  # fmt: skip
        assert failed == [("a", "reserve"), ("a", "after")]

    def test_nothing_is_kept_of_what_has_ended(self) -> None:
        ask = asker(Told("a", []))
        for count in range(3, 8):
            ask.gate.ledger.pending.settle(ask(scale("web", count)).id, Event.REFUSED, 1.0)
        assert ask.gate.policies._reserved == {}


def test_where_no_policy_wants_to_know_of_grants_none_are_kept() -> None:
    ask = asker(Says())
    ask(scale("web", 3))
    assert ask.gate.policies._reserved == {}


def test_a_policy_without_steps_of_its_own_is_not_called() -> None:
    class Silent(GrowthPolicy):
        """Nothing."""

    one = Silent()
    growth = Growth("d", WEB, "patch", 1, 2, {}, None, (), None, 0.0, 0.0)
    assert (one.filter(growth), one.limit(growth), one.permit(growth)) == (None, None, None)
    one.reserve(growth)
    one.turned_away(growth)
    assert one.keep({}) is None
    one.after(growth, Fate.ENDED)
    made = Policies([Enlisted("s", one)])
    assert [made.at(step) for step in ("filter", "limit", "permit", "reserve", "after")] == [()] * 5


def test_where_there_are_no_policies_nothing_is_worked_out_for_them() -> None:
    ask = Asker(gate([quota("acme", TEN)], workload("web", 2)))
    assert ask(scale("web", 3)).evidence.policies == ()
    assert ask.gate.policies._reserved == {}


class Keeps(GrowthPolicy):
    """Keeps the node selector of each template."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def keep(self, pod: Mapping[str, Any]) -> str | None:
        selector = pod["nodeSelector"]
        if selector is not None:
            return selector["pool"]
        return None

    def permit(self, growth: Growth) -> None:
        self.found.append(growth.kept)


def on(pool: str | None, name: str = "web", replicas: int = 2, **kind: Any) -> Any:
    tree = workload(name, replicas, **kind)
    tree["spec"]["template"]["spec"]["nodeSelector"] = {"pool": pool} if pool else None
    return tree


class TestKept:
    """What a policy keeps of pod templates, as it finds it in growth."""

    def asker(self) -> tuple[Keeps, Asker]:
        keeps, made = Keeps(), gate([quota("acme", TEN)])
        made.enlist(Policies([Enlisted("k", keeps)], self.failed))
        ref, observed = observe(on("a"))
        observed.kept = made.policies.kept(on("a"), ("spec", "template"))
        made.observe(ref, observed)
        return keeps, Asker(made)

    def failed(self, name: str, step: str) -> None:
        assert (name, step) == ("k", "keep")

    def test_of_a_count_it_is_that_of_the_observed_object(self) -> None:
        keeps, ask = self.asker()
        ask(scale("web", 3))
        assert keeps.found == [{"k": "a"}]

    def test_of_what_a_write_brings_nothing_is_kept(self) -> None:
        keeps, ask = self.asker()
        ask(create(on("b", "new", 1)))
        ask(create(on(None, "bare", 1)))
        ask(patch(path("applied"), on("c", "applied", 1), "apply"))
        body = json.dumps(on("d", replicas=4)).encode()
        ask(Request("PUT", path("web"), {"content-type": "application/json"}, body))
        body = json.dumps(on("d", replicas=4, requests={"cpu": "1100m"})).encode()
        ask(Request("PUT", path("web"), {"content-type": "application/json"}, body))
        assert keeps.found == [None, None, None, {"k": "a"}, None]

    def test_what_fails_and_what_has_no_template_is_not_known(self) -> None:
        _, ask = self.asker()
        kept = ask.gate.policies.kept
        assert kept(workload("web", 1), ("spec", "template")) == {}
        assert kept({"spec": {"template": {"spec": []}}}, ("spec", "template")) is None
        assert kept({}, ("spec", "job", "template")) is None
        assert Policies().kept(on("a"), ("spec", "template")) is None


class Held(GrowthPolicy):
    """Holds all growth, and keeps whom it has turned away."""

    def __init__(self) -> None:
        self.turned: list[tuple[str, int]] = []

    def permit(self, growth: Growth) -> NotYet:
        return NotYet("later", 30)

    def turned_away(self, growth: Growth) -> None:
        self.turned.append((growth.ref.name, growth.to))


class TestTurnedAway:
    """Whoever holds a write is told once it is refused by its word."""

    def told(
        self, request: Request, *more: Enlisted, settings: Policy | None = None, audits: bool = False
    ) -> list[Any]:
        held = Held()
        ask = enlisted(Enlisted("held", held, audits), *more, settings=settings)
        decision = ask(request)
        ask.gate.policies.decided(decision, getattr(decision.todo, "growth", None))
        return held.turned

    def test_of_a_write_that_it_has_held(self) -> None:
        assert self.told(scale("web", 4)) == [("web", 4)]

    def test_of_no_question_and_of_nothing_that_passes(self) -> None:
        request = scale("web", 4)
        assert self.told(request._replace(target=f"{request.target}?dryRun=All")) == []
        assert self.told(scale("web", 1)) == []
        assert self.told(request, settings=Policy(mode="audit", window_s=90.0)) == []

    def test_of_nothing_that_another_one_has_refused(self) -> None:
        assert self.told(scale("web", 4), Enlisted("other", Held()), audits=True) == []
        assert self.told(scale("web", 4), Enlisted("never", Says(filter=Refused("no")))) == []


def test_a_policy_that_cannot_tell_says_why() -> None:
    unknown = asker(Says(permit=UnknownError("nobody says how much there is")))(scale("web", 3))
    assert (unknown.verdict, unknown.reason) == (Verdict.UNAVAILABLE, "policy-unknown")
    assert unknown.sentence.endswith("policy p0: nobody says how much there is")


def test_what_was_granted_and_may_still_land_is_not_held_at_a_second_entrance() -> None:
    """Whether it was a count or a whole object: what it leaves is the same."""
    says = Says()
    ask = asker(says)
    granted = ask(scale("web", 3))
    says._says["permit"] = NotYet("later", 30)
    body = json.dumps(workload("web", 3)).encode()
    assert ask(Request("PUT", path("web"), {"content-type": "application/json"}, body)).verdict is Verdict.ALLOW
    assert ask(scale("web", 4)).reason == "policy-not-yet"
    dearer = json.dumps(workload("web", 3, {"cpu": "2"})).encode()
    held = ask(Request("PUT", path("web"), {"content-type": "application/json"}, dearer))
    assert held.reason == "policy-not-yet"
    assert granted.pending_write is not None


def test_a_count_is_not_what_was_granted_with_a_cheaper_template() -> None:
    says = Says()
    ask = asker(says)
    cheaper = json.dumps(workload("web", 3, {"cpu": "500m"})).encode()
    assert ask(Request("PUT", path("web"), {"content-type": "application/json"}, cheaper)).verdict is Verdict.ALLOW
    says._says["permit"] = NotYet("later", 30)
    assert ask(scale("web", 3)).reason == "policy-not-yet"
