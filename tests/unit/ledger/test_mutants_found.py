"""Rules of the ledger that ``make mutants`` found to have no test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.ledger import pod_costs
from extauthz.core.ledger.accounts import Product, charge, highest, rise
from extauthz.core.ledger.entry import NOT_KEPT, Event, PendingWrite
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.ledger.observations import _REMEMBERED
from extauthz.core.model import Observed, Precondition, Request, Template, Unknown, Verdict, WorkloadRef
from extauthz.core.objects.workloads import claim_template, observe
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, quota, scale, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")
CLAIM = WorkloadRef("", "persistentvolumeclaims", "team-a", "data-db-0")
GOLD, SLOW = (f"{name}.storageclass.storage.k8s.io/requests.storage" for name in ("gold", "slow"))
GIB = 2**30 * 10**9


def used(asker: Asker) -> dict[str, int]:
    return {row.resource: row.used for row in asker.gate.usage()}


def test_equal_costs_are_passed_through_and_nothing_is_copied():
    cost = {"requests.cpu": 1}
    assert highest([{}, cost, {}, cost]) is cost


def test_a_source_and_a_tree_with_nothing_under_way_are_forgotten():
    """Who asks is up to strangers: no memory grows with it (design.md rule 14)."""
    ask = Asker(gate([quota("acme", {"pods": "10"})], workload("web", 1)))
    for number in range(3):
        asked = scale("web", 2)._replace(source=f"10.0.0.{number}")
        granted = ask(asked)
        assert granted.verdict is Verdict.ALLOW
        ask.gate.ledger.pending.settle(granted.id, Event.REFUSED, 0.0)
    pending = ask.gate.ledger.pending
    assert (dict(pending._of_source), dict(pending._of_tree), dict(pending._trees)) == ({}, {}, {})


def test_a_quota_in_which_no_write_holds_bytes_any_more_is_forgotten():
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 1)))
    granted = ask(container({"cpu": "2"}))
    pending = ask.gate.ledger.pending
    assert pending.bytes_held_in("acme") == pending.bytes_held > 0
    pending.settle(granted.id, Event.REFUSED, 0.0)
    assert (dict(pending._bytes), pending._held, pending.bytes_held) == ({}, {}, 0)


@pytest.mark.parametrize(("hard", "verdict"), [("2", Verdict.ALLOW), ("1999999999n", Verdict.DENY)])
def test_of_a_limit_of_which_nothing_is_used_exactly_that_much_fits(hard: str, verdict: Verdict):
    assert Asker(gate([quota("acme", {"requests.cpu": hard})]))(create(workload("web", 2))).verdict is verdict


def test_a_write_that_leaves_the_count_as_it_is_asks_for_none():
    ask = Asker(gate([quota("acme", {"pods": "1"})], workload("web", 0), workload("other", 1)))
    leaves = PendingWrite("d1", None, (), (), False, Precondition(None, None), 90.0)
    proposal = ask.gate.ledger.propose(WEB, leaves)
    assert (proposal.growth.shortages, proposal.growth.grows, proposal.step.after.envelope.replicas) == ((), (), 0)


def test_a_workload_with_nothing_under_way_keeps_no_position():
    ask = Asker(gate([quota("acme", {"pods": "10"})], workload("web", 1)))
    (entry,) = ask.gate.ledger.workloads
    assert entry.kept_position is NOT_KEPT
    granted = ask(scale("web", 2))
    assert entry.kept_position is not NOT_KEPT
    ask.gate.ledger.pending.settle(granted.id, Event.REFUSED, 0.0)
    assert entry.kept_position is NOT_KEPT


def two_creates(*there: dict[str, Any]) -> Asker:
    """Of one name, without GPUs and with. Then nobody may have any."""
    ask = Asker(gate([quota("acme", HARD)]))
    for uid, each in (("a", {"cpu": "1"}), ("b", {"cpu": "1", "nvidia.com/gpu": "1"})):
        assert ask(create(workload("web", 2, each, uid=uid))).verdict is Verdict.ALLOW
    for one in there:
        ask.gate.observe(*observe(one))
    ask.gate.load_quotas(QuotaTree.build([quota("acme", HARD | {"requests.nvidia.com/gpu": "0"})]), 1.0)
    return ask


HARD = {"requests.cpu": "9", "requests.nvidia.com/gpu": "9"}


def test_a_count_meets_what_creates_under_way_make_where_nothing_is_there():
    """What they were granted is no licence for it (design.md rule 10)."""
    assert two_creates()(scale("web", 2)).verdict is Verdict.DENY


def test_a_lower_count_of_what_is_there_meets_no_create_and_is_never_refused():
    assert two_creates(workload("web", 2, {"cpu": "1"}))(scale("web", 1)).verdict is Verdict.ALLOW


def test_usage_is_unknown_as_soon_as_pods_of_unknown_cost_may_come_to_a_workload_that_had_none():
    """Only what is reserved changes: of what is used there is still nothing."""
    odd = workload("odd", 0, {"cpu": "1"})
    odd["spec"]["template"]["spec"]["runtimeClassName"] = "unseen"
    policy = Policy(window_s=90.0, allows={Unknown.FOOTPRINT})
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], odd, workload("web", 1, {"cpu": "1"}), policy=policy))
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW
    assert ask(scale("odd", 1)).verdict is Verdict.ALLOW
    assert ask(scale("web", 3)).reason == "unknown-usage"
    assert ask.gate.ledger.drift() == {}


def stateful(name: str, replicas: int, size: str) -> dict[str, Any]:
    made = workload(name, replicas, kind="StatefulSet")
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}}
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, **claim}]
    return made


def test_another_default_storage_class_prices_claims_anew():
    """The claim that is there keeps its class, and what its ordinal asks for is of another one from then on."""
    hard = dict.fromkeys((GOLD, SLOW), "10Gi")
    ask = Asker(gate([quota("acme", hard)], stateful("db", 2, "1Gi")))
    spec = {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "gold"}
    ask.gate.observe(CLAIM, Observed(1, claim_template({"spec": spec})))
    ask.gate.observe_default_storage_class("gold")
    assert used(ask) == {GOLD: 2 * GIB, SLOW: 0}
    ask.gate.observe_default_storage_class("slow")
    assert used(ask) == {GOLD: GIB, SLOW: 2 * GIB}


def container(requests: Mapping[str, str]) -> Request:
    return patch(path("web"), {"spec": {"template": pod(requests)}})


def test_none_of_a_resource_is_no_growth_where_that_resource_is_over_its_limit():
    gpu = "nvidia.com/gpu"
    over = workload("other", 2, {gpu: "1"})
    ask = Asker(gate([quota("acme", {f"requests.{gpu}": "1"})], workload("web", 3), over))
    assert ask(container({"cpu": "1", gpu: "1"})).verdict is Verdict.DENY
    assert ask(container({"cpu": "1", gpu: "0"})).verdict is Verdict.ALLOW


def test_what_fits_of_a_count_that_comes_with_a_cheaper_pod_is_told_by_the_dearer_one():
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 3, {"cpu": "2"})))
    both = {"spec": {"replicas": 20, "template": pod({"cpu": "1"})}}
    denied = ask(patch(path("web"), both))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 5)


def test_where_not_even_zero_replicas_would_fit_no_count_is_named_with_surge_either():
    policy = Policy(window_s=90.0, charge_surge=True)
    ask = Asker(gate([quota("acme", {"count/deployments.apps": "1"})], workload("web", 1), policy=policy))
    denied = ask(create(workload("api", 3)))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, None)


def test_a_workload_that_only_a_create_tells_of_is_known_to_one_write_after_the_other():
    ask = Asker(gate([quota("acme", {"pods": "10"})]))
    asked = (create(workload("api", 1)), scale("api", 2), scale("api", 3))
    assert [ask(one).verdict for one in asked] == [Verdict.ALLOW] * 3


@pytest.mark.parametrize(("parent", "child"), [("Enforce", "Audit"), ("Audit", "Enforce")])
def test_a_quota_that_audits_does_not_keep_another_one_from_reserving(parent: str, child: str):
    tree = [quota("acme", {"pods": "9"}, parent="corp", mode=child), quota("corp", {"pods": "9"}, mode=parent)]
    ask = Asker(gate(tree, workload("web", 1)))
    assert [ask(scale("web", count)).verdict for count in (2, 3)] == [Verdict.ALLOW] * 2
    reserved = {row.quota: row.reserved // 10**9 for row in ask.gate.usage()}
    assert reserved == {"acme": 2 * (child == "Enforce"), "corp": 2 * (parent == "Enforce")}


@pytest.mark.parametrize(("left", "joined"), [("Deny", "Allow"), ("Allow", "Deny")])
def test_pods_of_unknown_cost_that_come_under_another_quota_are_growth_there_and_only_there(left: str, joined: str):
    """Nothing of them is counted in either. So the quota that they join says what becomes of it."""
    says = {"a": left, "b": joined}
    quotas = [
        quota(
            name,
            {"requests.cpu": "9"},
            namespaces={},
            workloads={"tier": name},
            on_unknown={"unknownFootprint": setting},
        )
        for name, setting in says.items()
    ]
    ask = Asker(gate(quotas, workload("odd", 2, {"cpu": "one"}, labels={"tier": "a"})))
    moved = ask(patch(path("odd"), {"metadata": {"labels": {"tier": "b"}}}))
    assert moved.reason == "unknown-footprint"
    assert moved.verdict is (Verdict.ALLOW if joined == "Allow" else Verdict.UNAVAILABLE)


def test_a_ledger_without_quotas_follows_objects_already():
    ledger = Ledger()
    ledger.observations.observe(*observe(workload("web", 2)))
    ledger.observations.observe(WEB, None, "2")
    assert (len(ledger), dict(ledger.drift()), Queries(ledger).namespaces("acme")) == (0, {}, [])


def test_pods_that_go_push_no_deletion_of_a_workload_out_of_memory():
    """They come and go by the thousand; a state of the workload from before may still come late."""
    ask = Asker(gate([quota("acme", {"pods": "10"})], workload("web", 1)))
    ask.gate.observe(WEB, None, version="9")
    for number in range(_REMEMBERED):
        ask.gate.observe(WorkloadRef("", "pods", "team-a", f"p{number}"), None, version="10")
    assert not ask.gate.observe(*observe(workload("web", 1, version="8")))


def test_of_who_names_an_owner_and_is_never_made_nothing_is_kept():
    made = workload("web-1", 2, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
    ask = Asker(gate([quota("acme", {"pods": "10"})]))
    granted = ask(create(made))
    ownership = ask.gate.ledger.ownership
    assert len(ownership._owners) == len(ownership._children) == 1
    ask.gate.ledger.pending.forget(granted.pending_write or "")
    assert (len(ask.gate.ledger), ownership._owners, ownership._children) == (0, {}, {})


def test_a_replica_set_that_its_deployment_does_not_select_is_not_charged_where_that_is():
    quotas = [quota(name, {"pods": "3"}, namespaces={}, workloads={"team": name}) for name in ("a", "b")]
    ask = Asker(gate(quotas, workload("web", 3, labels={"team": "b"})))
    made = workload("web-1", 2, kind="ReplicaSet", labels={"team": "a"}, ownerReferences=owned_by("web"))
    assert ask(create(made)).verdict is Verdict.ALLOW
    assert [row.reserved // 10**9 for row in ask.gate.usage()] == [2, 0]


@pytest.mark.parametrize(("resource", "counted"), [("pods", {}), ("widgets", {"count/widgets": 10**9})])
def test_pods_are_counted_with_what_creates_them(resource: str, counted: Mapping[str, int]):
    assert pod_costs.count_each(WorkloadRef("", resource, "team-a", "x")) == counted


def test_a_pending_write_says_for_how_many_later_requests_it_stands():
    """It stands in the ledger object, for other gates."""
    ask = Asker(gate([quota("acme", {"pods": "10"})], workload("web", 1)))
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW
    ((_, pending_write),) = ask.gate.ledger.pending
    for times in (1, 2):
        ask.gate.ledger.pending.renew(pending_write, 200.0)
        assert pending_write.renewed == times


@pytest.mark.parametrize("template", [None, Template(b'{"volumeClaimTemplates": [{"metadata": {"name": "data"}}, 1]}')])
def test_claims_whose_cost_is_not_known_are_no_claims_that_cost_nothing(template: Template | None):
    costs = pod_costs.NamespaceCosts("team-a", pod_costs.PodCosts())
    assert (costs.claims(template), costs.unknown) == ({}, True)


def test_what_another_gate_tells_anew_keeps_its_place_among_those_whose_time_runs_out():
    """Behind one with more time left it would wait for that."""
    ask = Asker(gate([quota("acme", {"pods": "10"})], workload("web", 1), workload("other", 1)))
    for name in ("web", "other"):
        assert ask(scale(name, 2)).verdict is Verdict.ALLOW
        ask.now_s += 1.0
    pending = ask.gate.ledger.pending
    before = list(pending)
    pending.learn(replace(before[0][1]))
    assert list(pending) == before


def test_a_cost_that_a_count_does_not_raise_stays_as_it_is():
    cost = charge((Product(2, {"requests.cpu": 3}),), {})
    assert cost.with_count(1, {"requests.cpu": 6}) is cost


def test_a_create_that_pends_where_the_object_is_does_not_keep_another_count_from_what_is_there():
    """The quota is over, so that each write is looked at by itself."""
    ask = Asker(gate([quota("acme", {"pods": "9"})], workload("web", 2)))
    applied = patch(path("web"), {"spec": {"replicas": 4}}, "apply")
    assert ask(applied).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"pods": "1"})]), 1.0)
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW


def test_how_many_fit_is_told_to_a_billionth():
    ask = Asker(gate([quota("acme", {"requests.cpu": "1999999999n"})], workload("web", 0, {"cpu": "1"})))
    denied = ask(scale("web", 5))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 1)


def test_of_a_stateful_set_with_larger_claims_from_before_as_many_fit_as_cost_nothing_more():
    """Each claim is there already, up to the third. A replica beyond them brings one of the template's size."""
    ask = Asker(gate([quota("acme", {"requests.storage": "8Gi"})], stateful("db", 1, "1Gi")))
    for ordinal in range(3):
        spec = {"resources": {"requests": {"storage": "2Gi"}}}
        ask.gate.observe(CLAIM._replace(name=f"data-db-{ordinal}"), Observed(1, claim_template({"spec": spec})))
    denied = ask(scale("db", 9, resource="statefulsets"))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 5)


def test_of_a_stateful_set_without_claims_it_is_told_how_many_of_a_larger_pod_would_fit():
    ask = Asker(gate([quota("acme", {"requests.cpu": "4"})], workload("db", 3, {"cpu": "1"}, kind="StatefulSet")))
    larger = patch(path("db", resource="statefulsets"), {"spec": {"template": pod({"cpu": "2"})}})
    denied = ask(larger)
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 2)


def test_a_template_that_comes_to_an_owner_with_a_replica_set_of_no_pods_is_growth_of_that_owner():
    labels = {"app": "web"}
    family = (
        workload("web", 5, {"cpu": "1"}, labels={**labels, "team": "b"}),
        workload("web-1", 0, {"cpu": "3"}, kind="ReplicaSet", labels=labels),
    )
    ask = Asker(gate([quota("b", {"requests.cpu": "99"}, namespaces={}, workloads={"team": "b"})], *family))
    given = patch(path("web-1", resource="replicasets"), {"metadata": {"ownerReferences": owned_by("web")}})
    assert ask(given).reason == "fits"


def test_the_least_that_is_more_is_a_rise():
    once, twice = (charge((Product(count, {"requests.cpu": 1}),), {}) for count in (1, 2))
    assert (rise(once, twice), rise(twice, once)) == ({"requests.cpu": 1}, {})
