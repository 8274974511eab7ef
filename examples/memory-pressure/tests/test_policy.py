"""The policy memory-pressure in a gate: who is held, who stands in line, and who goes when."""

from __future__ import annotations

import json
from typing import Any

import pytest
from memory_pressure.marks import NodeMemory
from memory_pressure.options import parse
from memory_pressure.policy import NAME, MemoryPressure

from extauthz import testing as builders
from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Held, Refusal, Request, Unknown, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.core.policies import Enlisted, Fate, Policies
from extauthz.inputs.cluster.object_readers import pod as read_pod
from extauthz.testing import Asker, create, gate, patch, path, pod, put_scale, quota, scale, workload

GI = {"memory": "1Gi"}
TEMPLATE = ("spec", "template")
A, B = {"pool": "a"}, {"pool": "b"}


def placed(name: str, replicas: int, pool: str = "", **kind: Any) -> dict[str, Any]:
    made = workload(name, replicas, GI, **kind)
    if pool:
        made["spec"]["template"]["spec"]["nodeSelector"] = {"pool": pool}
    return made


class House:
    """A gate with two pools of one node each, and a clock. Whoever is refused is told of to the policy, as the request
    path does."""

    def __init__(self, *objects: Any, settings: Policy | None = None, mode: str = "Enforce", step: int = 1) -> None:
        marks = {"upper": 90, "lower": 80, "patience": 2, "step": step}
        pools = [{"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, **marks} for name in "ab"]
        self.policy = MemoryPressure(parse({"everySeconds": 10, "pools": pools}))
        self.gate = gate([quota("acme", {"requests.memory": "100Gi"})], policy=settings)
        self.gate.enlist(Policies([Enlisted(NAME, self.policy, mode == "Audit")]))
        for tree in objects or (placed("web", 2, "a"), placed("api", 2, "a"), placed("job", 2, "b"), placed("any", 2)):
            ref, observed = observe(tree)
            observed.kept = self.gate.policies.kept(tree, TEMPLATE)
            self.gate.observe(ref, observed)
        self.ask = Asker(self.gate)
        self.use(50, 50)

    def use(self, a: int | None, b: int | None = 50, seconds: float = 0) -> None:
        """One round, after so many seconds."""
        self.ask.now_s += seconds
        self.policy.look([NodeMemory("n1", A, 100, a), NodeMemory("n2", B, 100, b)], self.ask.now_s)

    def __call__(self, request: Request) -> Decision:
        decision = self.ask(request)
        self.gate.policies.decided(decision, decision.todo.growth if isinstance(decision.todo, Held) else None)
        if decision.pending_write is not None:
            self.gate.ledger.pending.settle(decision.pending_write, Event.NOT_FORWARDED, self.ask.now_s)
        return decision

    def passes(self, *names: str) -> list[bool]:
        """Whether each may grow now. A question."""
        return [self.ask(scale(name, 4), charge=False).verdict is Verdict.ALLOW for name in names]

    def waiting(self) -> list[int]:
        return [one.waiting for one in self.policy.pools(self.ask.now_s)]


def test_growth_is_held_above_the_upper_mark_and_the_sentence_says_pool_use_and_marks() -> None:
    house = House()
    assert house.passes("web") == [True]
    house.use(93)
    held = house(scale("web", 4))
    assert (held.verdict, held.refusal) == (Verdict.DENY, Refusal.HELD_BY_POLICY)
    assert held.sentence == (
        'deployments.apps "web" is forbidden: policy memory-pressure: nodes of pool a use 93 % of their memory, growth '
        "waits from 90 % on until it is 80 %; ask again in about 20 s"
    )
    assert [(row.policy, row.step, row.again_s) for row in held.evidence.policies] == [(NAME, "permit", 20)]


def test_zero_and_less_and_what_costs_no_memory_pass() -> None:
    house = House(
        placed("web", 2, "a"),
        workload("thin", 2, {"cpu": "1"}),
        settings=Policy(allows={Unknown.UNSPECIFIED}, window_s=90),
    )
    house.use(99)
    for target in (scale("web", 0), scale("web", 1), scale("web", 2), scale("thin", 9)):
        assert house(target).verdict is Verdict.ALLOW
    assert house(scale("web", 3)).verdict is Verdict.DENY


def test_a_workload_counts_for_the_pools_that_its_selector_allows() -> None:
    house = House()
    house.use(93)
    assert house.passes("web", "job", "any") == [False, True, False]
    house.use(50, 93)
    assert house.passes("web", "job", "any") == [True, False, False]


def test_a_label_that_nodes_get_later_is_taken_note_of() -> None:
    house = House(placed("web", 2, "ssd"))
    nodes = [NodeMemory("n1", A | {"pool": "a", "disk": "ssd"}, 100, 50), NodeMemory("n2", B, 100, 93)]
    ref, observed = observe(placed("web", 2, version="2"))
    observed.kept = {NAME: '[{"matchLabels":{"disk":"ssd"}}]'}
    house.gate.observe(ref, observed)
    house.policy.look(nodes, 0)
    assert house.passes("web") == [True]
    house.policy.look([nodes[0], nodes[1]._replace(labels=B | {"disk": "ssd"})], 0)
    assert house.passes("web") == [False]


def test_another_set_of_nodes_is_taken_note_of() -> None:
    house = House()
    house.use(50, 93)
    assert house.passes("web") == [True]
    both = A | {"other": "x"}
    house.policy.look([NodeMemory("n1", both, 100, 50), NodeMemory("n2", B | {"pool": "b"}, 100, 93)], 0)
    assert house.passes("web") == [True]
    house.policy.look([NodeMemory("n1", {"pool": "b"}, 100, 95)], 0)
    assert house.passes("job", "web") == [False, True]


def test_to_be_asked_takes_no_place_in_line() -> None:
    house = House()
    house.use(93)
    assert house.passes("web") == [False]  # a question, as check is
    assert house(create_dry(house)).verdict is Verdict.DENY
    assert house.waiting() == [0, 0]
    house(scale("web", 4))
    assert house.waiting() == [1, 0]


def create_dry(house: House) -> Request:
    request = scale("web", 4)
    return request._replace(target=f"{request.target}?dryRun=All")


@pytest.mark.parametrize(("settings", "mode"), [(Policy(mode="audit"), "Enforce"), (None, "Audit")])
def test_where_nothing_is_refused_nobody_waits(settings: Policy | None, mode: str) -> None:
    house = House(settings=settings, mode=mode)
    house.use(93)
    passed = house(scale("web", 4))
    assert passed.verdict is Verdict.ALLOW
    assert [row.policy for row in passed.evidence.policies] == [NAME]
    assert house.waiting() == [0, 0]


def test_one_that_audits_is_not_told_what_another_has_refused() -> None:
    house = House(mode="Audit")
    strict = House().policy
    house.gate.enlist(Policies([Enlisted(NAME, house.policy, audits=True), Enlisted("strict", strict)]))
    nodes = [NodeMemory("n1", A, 100, 93), NodeMemory("n2", B, 100, 50)]
    for policy in (house.policy, strict):
        policy.look(nodes, 0)
    assert house(scale("web", 4)).verdict is Verdict.DENY
    assert [policy.pools(0)[0].waiting for policy in (house.policy, strict)] == [0, 1]


def test_who_could_go_in_one_pool_and_is_held_in_another_lets_the_next_one_go() -> None:
    house = House()
    house.use(93, 93)
    house(scale("any", 4))
    house(scale("web", 4))
    house.use(80, 93)
    house.use(80, 93)
    house.use(80, 93)
    assert house.passes("any", "web") == [False, False]
    house(scale("any", 4))
    assert house.passes("any", "web") == [False, True]


def reviewed(house: House, name: str, new: Any, old: Any, subresource: str = "") -> Decision:
    """The same write at the webhook, with a decision of its own."""
    body = json.dumps(builders.admission(new, old, subresource=subresource)).encode()
    review = admission.read(body)
    assert isinstance(review, admission.Review)
    return house.gate.decide(review.question.reading, name, house.ask.now_s)


@pytest.mark.parametrize("is_scale", [True, False])
def test_a_write_that_comes_by_two_entrances_takes_one_turn_and_is_not_held_at_the_second(is_scale: bool) -> None:
    house = House(step=2)
    house.use(93)
    for name in ("web", "any", "api"):
        house(scale(name, 4))
    house.use(80)
    house.use(80)
    if is_scale:
        granted = house.ask(put_scale("web", 4, "1"))
        old, new = (
            {"metadata": {"name": "web", "namespace": "team-a", "resourceVersion": "1"}, "spec": {"replicas": count}}
            for count in (2, 4)
        )
        again = reviewed(house, "again", new, old, "scale")
    else:
        granted = house.ask(patch(path("web"), {"spec": {"replicas": 4}}))
        again = reviewed(house, "again", placed("web", 4, "a"), placed("web", 2, "a"))
    assert (granted.verdict, again.verdict) == (Verdict.ALLOW, Verdict.ALLOW)
    assert house.passes("any", "api") == [True, False], "the second look has taken no turn of its own"
    for one in (granted, again):
        house.gate.ledger.pending.settle(one.id, Event.NOT_FORWARDED, house.ask.now_s)
    assert house.policy._going == {}
    assert not house.policy._together


def test_another_template_under_the_same_count_is_another_write() -> None:
    house = House()
    dearer = placed("web", 4, "a")
    dearer["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"memory": "2Gi"}
    body = json.dumps(dearer).encode()
    assert house.ask(Request("PUT", path("web"), {"content-type": "application/json"}, body)).pending_write
    house.use(93)
    assert house.passes("web") == [False]


def test_what_costs_no_memory_takes_no_turn_and_who_is_told_twice_takes_one() -> None:
    thin = workload("thin", 2, {"cpu": "1"})
    objects = (placed("web", 2, "a"), placed("api", 2, "a"), thin)
    house = House(*objects, settings=Policy(allows={Unknown.UNSPECIFIED}, window_s=90), step=2)
    house.use(93)
    for name in ("web", "api"):
        house(scale(name, 4))
    house.use(80)
    house.use(80)
    house.ask(scale("thin", 9))
    assert house.passes("web", "api") == [True, True]
    house.ask(scale("web", 4))
    (growth,) = (one for one in house.gate.policies._reserved.values() if one.ref.name == "web")
    house.policy.reserve(growth)
    assert house.passes("api") == [True]
    house.policy.after(growth, Fate.LANDED)
    assert not house.policy._together


def test_who_stands_further_back_is_told_a_later_time_before_its_place_is_lost() -> None:
    names = [f"w{number}" for number in range(4)]
    house = House(*(placed(name, 2, "a") for name in names))
    house.use(93)
    held = [house(scale(name, 4)) for name in names]
    assert [one.evidence.policies[0].again_s for one in held] == [20, 40, 60, 60]
    assert "until it is 80 %, 1 before it in line; ask again" in held[1].sentence


def test_what_was_granted_and_has_ended_is_held_again() -> None:
    house = House()
    granted = house.ask(scale("web", 4))
    house.use(93)
    assert house.passes("web") == [True], "the same may still land"
    assert house.ask(scale("web", 5), charge=False).verdict is Verdict.DENY
    assert granted.pending_write is not None
    house.gate.ledger.pending.settle(granted.pending_write, Event.NOT_FORWARDED, 0)
    assert house.passes("web") == [False]


class TestUnknown:
    def test_nothing_known_is_unknown_and_refused_as_unavailable(self) -> None:
        house = House()
        assert house.passes("web") == [True]
        house.ask.now_s = 121
        refused = house(scale("web", 4))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "policy-unknown")
        assert refused.sentence.endswith("policy memory-pressure: nobody says how much memory is used in pool a")
        assert house(scale("web", 1)).verdict is Verdict.ALLOW
        assert house.waiting() == [0, 0]
        assert [one.used for one in house.policy.pools(121)] == [None, None]

    def test_growth_of_other_pools_goes_on(self) -> None:
        house = House()
        house.use(None, 50, seconds=121)
        assert house.passes("web", "job", "any") == [False, True, False]

    def test_a_setting_lets_it_pass(self) -> None:
        assert House(settings=Policy(allows={Unknown.POLICY}, window_s=90)).passes("web") == [True]

    def test_before_the_first_look_nothing_is_known(self) -> None:
        house = House()
        house.policy = MemoryPressure(house.policy._options)
        house.gate.enlist(Policies([Enlisted(NAME, house.policy)]))
        assert "nobody says how much memory is used in pool a, b" in house(scale("web", 4)).sentence

    @pytest.mark.parametrize(("known", "used"), [(1, None), (2, 0.93), (3, 0.93)])
    def test_half_of_the_memory_of_a_pool_must_be_known(self, known: int, used: float | None) -> None:
        house = House()
        house.ask.now_s = 121
        nodes = [NodeMemory(f"n{number}", A, 100, 93 if number < known else None) for number in range(4)]
        house.policy.look(nodes, 121)
        assert house.policy.pools(121)[0].used == used

    def test_a_pool_without_nodes_is_empty_and_open(self) -> None:
        house = House()
        house.use(93)
        house(scale("web", 4))
        for seconds in (200, 210):
            house.policy.look([NodeMemory("n2", B, 100, 50)], seconds)
        house.ask.now_s = 210
        assert house.policy.pools(210)[0] == ("a", 0.0, False, 0)
        assert house.passes("web") == [True]


def test_what_is_not_there_yet_has_one_place_for_all() -> None:
    house = House()
    house.use(93)
    for number in range(9):
        assert house(create(placed(f"new-{number}", 1, "a"))).verdict is Verdict.DENY
    assert house.waiting() == [1, 0]
    house.use(80)
    house.use(80)
    assert house.passes("web") == [False]
    assert house.ask(create(placed("new-3", 1, "a"))).verdict is Verdict.ALLOW
    assert house(create(placed("new-4", 1, "a"))).verdict is Verdict.DENY


class TestPlacementOfAWrite:
    """Where the pods may land that a write makes."""

    def house(self) -> House:
        house = House()
        house.use(93)
        return house

    def test_a_create_counts_for_all_pools(self) -> None:
        house = self.house()
        for pool in "ab":
            assert house(create(placed("new", 1, pool))).verdict is Verdict.DENY

    def test_a_count_alone_leaves_it(self) -> None:
        house = self.house()
        assert house(put_scale("job", 4)).verdict is Verdict.ALLOW
        assert house(put_scale("web", 4)).verdict is Verdict.DENY

    @pytest.mark.parametrize("pool", ["a", "b"])
    def test_a_dearer_template_counts_for_all_pools(self, pool: str) -> None:
        house = self.house()
        dearer = {"spec": {"template": pod({"memory": "2Gi"})}}
        dearer["spec"]["template"]["spec"]["nodeSelector"] = {"pool": pool}
        for name in ("web", "job"):
            assert house(patch(path(name), dearer)).verdict is Verdict.DENY

    @pytest.mark.parametrize("pool", ["a", "b"])
    def test_a_whole_object_with_the_same_costs_leaves_it(self, pool: str) -> None:
        house = self.house()

        def put(name: str) -> Request:
            body = json.dumps(placed(name, 4, pool)).encode()
            return Request("PUT", path(name), {"content-type": "application/json"}, body)

        assert house(put("job")).verdict is Verdict.ALLOW
        assert house(put("web")).verdict is Verdict.DENY

    def test_what_nobody_has_kept_counts_for_all_pools(self) -> None:
        house = self.house()
        ref, observed = observe(placed("job", 2, "b", version="2"))
        house.gate.observe(ref, observed)
        assert house.passes("job") == [False]


def test_a_resize_of_a_pod_counts_for_all_pools_as_nobody_keeps_its_node() -> None:
    house = House()
    house.use(50, 93)
    metadata = {"name": "p", "namespace": "team-a", "uid": "u", "resourceVersion": "1", "generation": 1}

    def tree(memory: str) -> dict[str, Any]:
        container = {"name": "main", "resources": {"requests": {"memory": memory}}}
        spec = {"containers": [container], "nodeSelector": A}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}

    found = read_pod(tree("1Gi"))
    assert found is not None
    house.gate.observe(*found)
    resource = {"group": "", "version": "v1", "resource": "pods"}
    asked = builders.admission(tree("2Gi"), tree("1Gi"), subresource="resize", resource=resource)
    review = admission.read(json.dumps(asked).encode())
    assert isinstance(review, admission.Review)
    held = house.gate.decide(review.question.reading, "d", 0)
    assert held.refusal is Refusal.HELD_BY_POLICY, held
