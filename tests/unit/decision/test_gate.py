"""The chain of a decision: what passes, what is unavailable and why, what is denied and with which evidence."""

from __future__ import annotations

import json

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.entry import Event
from extauthz.core.model import NO_PRECONDITION, Request, Unknown, Verdict
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, patch, path, put_scale, quota, scale, snapshot, workload
from tests.unit.asking import adopt, told

NANO = 10**9
GPU = "requests.nvidia.com/gpu"


def asker(*objects: dict, hard: dict[str, str] | None = None, policy: Policy | None = None) -> Asker:
    return Asker(gate([quota("acme", hard or {"requests.cpu": "4"})], *objects, policy=policy))


def test_a_denial_is_a_sentence_with_numbers():
    ask = asker(workload("web", 3, {"nvidia.com/gpu": "1"}), hard={GPU: "4"})
    denied = ask(scale("web", 5))
    assert denied.verdict is Verdict.DENY
    assert denied.sentence == (
        'deployments.apps "web" is forbidden: exceeded workspace quota: acme, requested: requests.nvidia.com/gpu=2, '
        "used: requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=4; largest allowed replicas: 4"
    )
    assert (denied.replicas_before, denied.replicas, denied.evidence.fits) == (3, 5, 4)


def test_the_evidence_names_every_quota_and_resource_that_refused():
    quotas = [
        quota("corp", {"pods": "4"}, namespaces={"none": "such"}),
        quota("acme", {"requests.cpu": "4", "requests.memory": "5Gi", "pods": "100"}, parent="corp"),
    ]
    ask = Asker(gate(quotas, workload("web", 3, {"cpu": "1", "memory": "1Gi"})))
    denied = ask(scale("web", 6))
    assert [(short.path, short.resource) for short in denied.evidence.shortages] == [
        (("corp",), "pods"),
        (("corp", "acme"), "requests.cpu"),
        (("corp", "acme"), "requests.memory"),
    ]
    assert denied.sentence == (
        'deployments.apps "web" is forbidden: exceeded workspace quota: corp, requested: pods=3, used: pods=3, '
        "limited: pods=4; exceeded workspace quota: acme, requested: requests.cpu=3,requests.memory=3Gi, "
        "used: requests.cpu=3,requests.memory=3Gi, limited: requests.cpu=4,requests.memory=5Gi; "
        "largest allowed replicas: 4"
    )


@pytest.mark.parametrize("target", [0, 1, 8, 9])
def test_what_grows_nothing_passes_however_far_over_quota(target: int):
    assert asker(workload("web", 9))(scale("web", target)).verdict is Verdict.ALLOW


def test_only_the_resource_that_grows_is_checked():
    ask = asker(
        workload("web", 3, {"cpu": "1", "nvidia.com/gpu": "2"}),
        workload("api", 0),
        hard={GPU: "4", "requests.cpu": "4"},
    )
    assert ask(scale("api", 1)).verdict is Verdict.ALLOW, "GPU is over its limit, but only CPU grows"
    assert ask(scale("web", 4)).verdict is Verdict.DENY


def test_a_child_needs_room_in_every_ancestor():
    quotas = [
        quota("root", {"requests.cpu": "3"}, namespaces={"none": "such"}),
        quota("mid", {}, parent="root", namespaces={"none": "such"}),
        quota("acme", {"requests.cpu": "100"}, parent="mid"),
    ]
    ask = Asker(gate(quotas, workload("web", 3)))
    denied = ask(scale("web", 4))
    assert [short.path for short in denied.evidence.shortages] == [("root",)]


DEARER = [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
CPU_PATH = "/spec/template/spec/containers/0/resources/requests/cpu"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        pytest.param({"spec": {"template": {"spec": {"containers": DEARER}}}}, "strategic", id="strategic"),
        pytest.param([{"op": "replace", "path": CPU_PATH, "value": "2"}], "json", id="json-patch"),
    ],
)
def test_dearer_pods_at_equal_replicas_are_growth(change: object, kind: str):
    ask = asker(workload("web", 3))
    denied = ask(patch(path("web"), change, kind))
    assert (denied.verdict, denied.evidence.shortages[0].requested, denied.evidence.fits) == (Verdict.DENY, 3 * NANO, 2)


def test_a_rollout_restart_changes_no_cost():
    restart = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}
    allowed = asker(workload("web", 9))(patch(path("web"), restart, "strategic"))
    assert (allowed.verdict, allowed.reason) == (Verdict.ALLOW, "no-count")


@pytest.mark.parametrize("query", ["?dryRun=All", "?dryRun=All&dryRun=All"], ids=["one", "two"])
def test_a_dry_run_takes_the_same_path_and_charges_nothing(query: str):
    ask = asker(workload("web", 3))
    request = scale("web", 4)
    question = ask(request._replace(target=request.target + query))
    assert (question.verdict, question.pending_write, question.dry_run) == (Verdict.ALLOW, None, True)
    too_much = scale("web", 5)
    assert ask(too_much._replace(target=too_much.target + query)).verdict is Verdict.DENY
    assert ask.gate.ledger.pending_writes == 0


def test_a_read_is_not_a_write():
    allowed = asker()(Request("GET", path("web"), {}, b""))
    assert (allowed.verdict, allowed.pending_write) == (Verdict.ALLOW, None)


BROKEN = Request("PATCH", path("web", sub="scale"), {"content-type": "application/merge-patch+json"}, b'{"spec":')
ELSEWHERE = create(workload("web", 2, namespace="new"))
UNKNOWN = [
    pytest.param(BROKEN, Unknown.UNREADABLE, None, id="unreadable"),
    pytest.param(BROKEN._replace(truncated=True), Unknown.UNREADABLE, "truncated", id="truncated"),
    pytest.param(scale("nobody", 2), Unknown.WORKLOAD, "unknown-workload", id="unknown-workload"),
    pytest.param(scale("web", 2, namespace="new"), Unknown.WORKLOAD, "unknown-workload", id="unknown-both"),
    pytest.param(ELSEWHERE, Unknown.WORKLOAD, "unknown-namespace", id="unknown-namespace"),
]


@pytest.mark.parametrize(("request_", "setting", "reason"), UNKNOWN)
def test_what_is_not_known_is_unavailable_and_never_a_quota_denial(
    request_: Request, setting: Unknown, reason: str | None
):
    refused = asker(workload("web", 3))(request_)
    assert refused.verdict is Verdict.UNAVAILABLE
    assert reason is None or refused.reason == reason
    assert "quota gate" in refused.sentence
    assert "forbidden" not in refused.sentence
    assert "exceeded" not in refused.sentence


@pytest.mark.parametrize(("request_", "setting", "reason"), UNKNOWN)
def test_each_kind_of_not_knowing_has_a_setting_that_lets_it_pass(
    request_: Request, setting: Unknown, reason: str | None
):
    ask = asker(workload("web", 3), policy=Policy(allows={setting}))
    assert ask(request_).verdict is Verdict.ALLOW
    others = {Unknown.UNREADABLE, Unknown.WORKLOAD, Unknown.FOOTPRINT, Unknown.UNSYNCED} - {setting}
    ask = asker(workload("web", 3), policy=Policy(allows=others))
    assert ask(request_).verdict is Verdict.UNAVAILABLE, "the other settings do not let it pass"


def test_before_quotas_and_state_are_known_growth_is_unavailable_and_zero_passes():
    empty = Gate()
    ask = Asker(empty)
    assert not empty.synced
    assert ask(scale("web", 2)).reason == "unsynced"
    assert "quotas" in ask(scale("web", 2)).sentence
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    empty.load_quotas(QuotaTree.build([quota("acme", {"pods": "1"})]), 0.0)
    assert "cluster" in ask(scale("web", 2)).sentence
    empty.load_state(snapshot(workload("web", 1)), 0.0)
    assert empty.synced
    assert ask(scale("web", 2)).verdict is Verdict.DENY
    assert Asker(Gate(Policy(allows={Unknown.UNSYNCED})))(scale("web", 2)).verdict is Verdict.ALLOW
    empty = Gate()
    empty.load_state(snapshot(workload("web", 1)), 0.0)
    assert "quotas" in Asker(empty)(scale("web", 2)).sentence


def test_on_hold_nothing_grows_until_it_is_released():
    ask = asker(workload("web", 2))
    ask.gate.hold(90.0)
    held = ask(scale("web", 3))
    assert (held.verdict, held.reason) == (Verdict.UNAVAILABLE, "hold")
    assert "about 90 s" in held.sentence
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    ask.gate.release()
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW


DEARER = {"spec": {"template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}}}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(patch(path("web"), DEARER, "strategic"), id="template"),
        pytest.param(create(workload("new", 0)), id="a-new-object"),
    ],
)
def test_on_hold_a_change_that_grows_nothing_by_itself_waits_too(change):
    """A scale-up that an earlier run has allowed may still land on it."""
    ask = asker(workload("web", 0))
    ask.gate.hold(90.0)
    ask.now_s = 30.0
    held = ask(change)
    assert (held.verdict, held.reason, held.evidence.grows) == (Verdict.UNAVAILABLE, "hold", False)
    assert "about 60 s" in held.sentence
    assert "a count that was allowed before may still land on it" in held.sentence
    ask.gate.release()
    assert ask(change).verdict is Verdict.ALLOW


CHEAPER = {
    "spec": {"template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}}}
}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(patch(path("web"), CHEAPER, "strategic"), id="fewer-requests"),
        pytest.param(patch(path("web"), {"metadata": {"labels": {"note": "x"}}}), id="a-label-that-no-quota-selects"),
    ],
)
def test_on_hold_a_change_passes_on_which_no_count_comes_to_more(change):
    ask = asker(workload("web", 2))
    ask.gate.hold(90.0)
    passed = ask(change)
    assert (passed.verdict, passed.reason, passed.evidence.grows) == (Verdict.ALLOW, "no-growth", False)


def test_on_hold_a_label_waits_by_which_another_quota_covers_it_or_its_owner_lets_it_go():
    paid = quota("paid", {"pods": "9"}, namespaces={}, workloads={"tier": "paid"})
    ask = Asker(gate([paid], workload("web", 0)))
    ask.gate.hold(90.0)
    assert ask(patch(path("web"), {"metadata": {"labels": {"tier": "paid"}}})).reason == "hold"
    owned = workload("web-1", 0, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
    ask = asker(workload("web", 0, labels={"app": "web"}), owned)
    ask.gate.hold(90.0)
    freed = patch(path("web-1", resource="replicasets"), {"metadata": {"labels": {"app": "other"}}})
    assert ask(freed).reason == "hold"
    orphaned = patch(path("web-1", resource="replicasets"), {"metadata": {"ownerReferences": None}})
    assert ask(orphaned).reason == "hold"


def test_on_hold_such_a_change_passes_where_growth_does():
    ask = Asker(
        gate([quota("acme", {"requests.cpu": "9"})], workload("web", 0), policy=Policy(allows={Unknown.UNSYNCED}))
    )
    ask.gate.hold(90.0)
    assert ask(patch(path("web"), DEARER, "strategic")).verdict is Verdict.ALLOW


def test_nothing_is_refused_in_a_namespace_under_no_quota():
    ask = Asker(gate([quota("acme", {"pods": "1"})], namespaces={"team-a": {}}))
    allowed = ask(scale("nobody", 50))
    assert (allowed.verdict, allowed.reason, allowed.pending_write) == (Verdict.ALLOW, "no-quota", "d1")
    assert ask(BROKEN).reason == "no-quota", "nor does it matter that a write there cannot be read"


def test_pending_writes_are_bounded_per_workload_and_over_all():
    ask = asker(workload("web", 2), workload("api", 1), policy=Policy(max_intents_per_workload=2, max_intents=3))
    assert [ask(scale("web", count)).verdict for count in (2, 1)] == [Verdict.ALLOW] * 2
    assert ask(scale("web", 3)).reason == "too-many-intents"
    assert ask(scale("api", 1)).verdict is Verdict.ALLOW
    assert ask(scale("api", 2)).reason == "too-many-intents"
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW, "zero needs no intent"


def test_less_is_followed_by_one_count_a_workload_where_no_more_writes_are():
    """Whatever it says of the version, and however often another count is asked for."""
    ask = asker(workload("web", 3), workload("api", 1), policy=Policy(max_intents_per_workload=2, max_intents=3))
    for count in (2, 1, 3, 2, 1):
        assert ask(scale("web", count)).verdict is ask(put_scale("web", count, "9")).verdict is Verdict.ALLOW
    pending = ask.gate.ledger.pending
    assert len(pending) == 3, "→2, →1, and one →3 that stands for all lower ones"
    for _ in range(2):
        assert ask(scale("api", 1)).verdict is Verdict.ALLOW, "the gate is full, and it is no more all the same"
    assert len(pending) == 4


def put(obj: dict) -> Request:
    return Request("PUT", path("web"), {"content-type": "application/json"}, json.dumps(obj).encode())


def test_a_write_of_count_and_template_brings_them_together():
    """Fewer pods that are dearer: 2 × 2 are no more than the 4 × 1 observed, though 4 × 2 would be."""
    ask = asker(workload("web", 4))
    assert ask(put(workload("web", 2, {"cpu": "2"})), charge=False).reason == "no-growth"
    denied = ask(put(workload("web", 3, {"cpu": "2"})))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 2)
    assert ask(put(workload("web", 0, {"cpu": "9"}))).verdict is Verdict.ALLOW, "a target of zero"


def test_a_zero_that_grows_the_template_is_denied_while_a_count_may_land_on_that_template():
    ask = asker(workload("web", 3))
    ask(scale("web", 2))
    assert ask(put(workload("web", 0, {"cpu": "1"}))).verdict is Verdict.ALLOW
    denied = ask(put(workload("web", 0, {"cpu": "9"})))
    assert denied.verdict is Verdict.DENY, "the →2 that was allowed before may land after it"


def test_a_count_that_may_land_on_a_pending_template_is_weighed_with_it():
    """The first write is bound to the observed version, and costs nothing by itself: it is followed all the same."""
    ask = asker(workload("web", 4))
    ask(put(workload("web", 0, {"cpu": "4"})))
    denied = ask(scale("web", 4))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 1)
    assert ask(scale("web", 1)).verdict is Verdict.ALLOW


def test_another_gate_adopts_pending_writes_with_what_is_left_of_their_landing_windows():
    ask = asker(workload("web", 1), workload("api", 1))
    ask(scale("web", 3))
    ask(patch(path("web"), {"metadata": {"labels": {"x": "y"}}}))
    ask(put_scale("web", 2, "1"))
    ask(create(workload("new", 0)))
    records = told(ask.gate, 30.0)
    heir = asker(workload("web", 1), workload("api", 1))
    adopt(heir.gate, records, 1000.0)
    assert told(heir.gate, 1000.0) == records
    assert list(heir.gate.usage()) == list(ask.gate.usage())
    assert heir.gate.ledger.pending.consistent_read(1059.0) == 0
    assert heir.gate.ledger.pending.consistent_read(1060.0) == 4


def test_a_key_that_grows_and_has_no_cost_a_pod_does_not_bound_the_replicas():
    ask = asker(workload("web", 3), hard={"requests.cpu": "4", "limits.ephemeral-storage": "1Gi"})
    assert ask(scale("web", 9)).evidence.fits == 4


def test_in_audit_everything_passes_and_what_would_have_been_is_said():
    ask = Asker(gate([quota("acme", {"requests.cpu": "4"}, mode="Audit")], workload("web", 3)))
    allowed = ask(scale("web", 9))
    assert (allowed.verdict, len(allowed.evidence.audit)) == (Verdict.ALLOW, 1)
    assert allowed.reason == "would-refuse"
    assert allowed.sentence.startswith("allowed, as workspace quota acme only audits; Enforce would say: ")
    denying = [quota("acme", {"requests.cpu": "4"}, mode="Audit"), quota("too", {"pods": "3"}, namespaces={})]
    denied = Asker(gate(denying, workload("web", 3)))(scale("web", 9))
    assert (denied.verdict, len(denied.evidence.shortages), len(denied.evidence.audit)) == (Verdict.DENY, 1, 1)
    assert denied.evidence.fits == 3


def containers(*cpus: str) -> list[dict]:
    return [{"name": f"c{n}", "image": "x", "resources": {"requests": {"cpu": cpu}}} for n, cpu in enumerate(cpus)]


# What a live source tells of itself, and who asks.


def test_a_stale_source_stops_growth_by_name_and_nothing_else():
    ask = asker(workload("web", 3), workload("api", 0), hard={"requests.cpu": "9"})
    ask.gate.stale("the watch of deployments.apps has been silent for 95 s")
    refused = ask(scale("web", 4))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "stale")
    assert refused.sentence == (
        'deployments.apps "web" was not decided: the quota gate may be out of date: '
        "the watch of deployments.apps has been silent for 95 s"
    )
    for replicas in (3, 2, 0):
        assert ask(scale("web", replicas)).verdict is Verdict.ALLOW
    ask.gate.stale(None)
    assert ask(scale("web", 4)).reason == "fits"


@pytest.mark.parametrize(
    ("namespace", "coverage", "reasons"),
    [
        pytest.param(
            "free", True, ["stale", "stale", "no-quota", "no-quota", "zero"], id="its-namespace-may-be-covered-by-now"
        ),
        pytest.param(
            "free", False, ["no-quota", "no-quota", "no-quota", "no-quota", "zero"], id="only-pods-are-not-heard"
        ),
        pytest.param(
            "team-a", True, ["stale", "stale", "no-quota", "no-quota", "zero"], id="its-labels-may-be-others-by-now"
        ),
        pytest.param(
            "team-a", False, ["stale", "stale", "no-quota", "no-quota", "zero"], id="its-labels-may-be-others"
        ),
    ],
)
def test_what_no_quota_covers_by_what_is_stale_does_not_grow(namespace, coverage, reasons):
    ask = Asker(
        gate(
            [quota("acme", {"requests.cpu": "9"}, workloads={"tier": "gold"})],
            workload("web", 3, namespace=namespace),
            namespaces={"team-a": {"workspace": "acme"}, "free": {}},
        )
    )
    ask.gate.stale("nothing was heard", coverage=coverage)
    dearer = patch(
        path("web", namespace=namespace), {"spec": {"template": {"spec": {"containers": containers("2")}}}}, "merge"
    )
    asked = [scale("web", 4, namespace=namespace), dearer]
    asked += [scale("web", count, namespace=namespace) for count in (3, 2, 0)]
    assert [ask(one).reason for one in asked] == reasons
    ask.gate.stale(None)
    assert ask(scale("web", 4, namespace=namespace)).reason == "no-quota"


def test_what_no_quota_covers_may_pass_while_a_source_is_stale_by_the_setting():
    ask = Asker(gate([], workload("web", 3), policy=Policy(allows={Unknown.STALE})))
    ask.gate.stale("nothing was heard")
    assert ask(scale("web", 4)).reason == "no-quota"


def test_what_cannot_be_read_is_not_passed_by_coverage_that_is_stale():
    ask = Asker(gate([], workload("web", 3)))
    odd = patch(path("web"), {"spec": {"replicas": "4"}})
    assert ask(odd).verdict is Verdict.ALLOW
    ask.gate.stale("nothing was heard")
    assert ask(odd).verdict is Verdict.UNAVAILABLE


def test_a_gate_that_was_suspended_grants_no_growth_before_it_has_looked_at_its_sources():
    ask = asker(workload("web", 3), hard={"requests.cpu": "9"})
    ask.gate.stale(None, until_s=ask.now_s + 10.0)
    ask.now_s += 10.0
    assert ask(scale("web", 4)).reason == "fits"
    ask.now_s += 0.1
    refused = ask(scale("web", 5))
    assert refused.reason == "stale"
    assert "was suspended" in refused.sentence
    ask.gate.stale(None, until_s=ask.now_s + 10.0)
    assert ask(scale("web", 5)).reason == "fits"


def test_a_live_source_says_itself_when_all_has_been_seen():
    made = Gate(Policy())
    made.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "4"})]), 0.0)
    ask = Asker(made)
    for ref, observed in snapshot(workload("web", 1)).workloads:
        made.observe(ref, observed)
    made.observe_namespace("team-a", {"workspace": "acme"})
    assert ask(scale("web", 2)).reason == "unsynced"
    made.state_synced(True)
    assert ask(scale("web", 2)).reason == "fits"


def from_source(request: Request, source: str) -> Request:
    return request._replace(source=source)


def test_a_flood_from_one_source_ends_and_others_go_on():
    ask = asker(workload("web", 1), hard={"requests.cpu": "9"}, policy=Policy(max_intents_per_source=2))
    first, second = (ask(from_source(scale("web", 2), "10.0.0.9")) for _ in range(2))
    refused = ask(from_source(scale("web", 2), "10.0.0.9"))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "too-many-intents-of-source")
    assert "already follows 2 writes of 10.0.0.9 that may still land" in refused.sentence
    assert ask(from_source(scale("web", 2), "10.0.0.8")).verdict is Verdict.ALLOW
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW, "of one that nobody vouches for, none is counted"
    ask.gate.ledger.pending.settle(first.pending_write, Event.REFUSED, 1.0)
    assert ask(from_source(scale("web", 2), "10.0.0.9")).verdict is Verdict.ALLOW
    assert ask(from_source(scale("web", 2), "10.0.0.9")).verdict is Verdict.UNAVAILABLE
    assert ask.gate.ledger.pending.consistent_read(135.0) == 4
    assert ask.gate.ledger.pending.of_source("10.0.0.9") == 0
    assert not ask.gate.ledger.pending.follows(second.id)


def test_a_flood_in_one_tree_ends_and_other_trees_go_on():
    quotas = [
        quota("acme", {"requests.cpu": "99"}, namespaces={}, workloads={"tree": "acme"}),
        quota("team", {"requests.cpu": "99"}, namespaces={}, workloads={"tree": "acme"}, parent="acme"),
        quota("other", {"requests.cpu": "99"}, namespaces={}, workloads={"tree": "other"}),
    ]
    cluster = [
        workload(name, 1, labels={"tree": tree}) for name, tree in (("a", "acme"), ("b", "acme"), ("c", "other"))
    ]
    ask = Asker(gate(quotas, *cluster, policy=Policy(max_intents_per_tree=2)))
    first, _ = ask(scale("a", 2)), ask(scale("b", 2))
    refused = ask(scale("a", 3))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "too-many-intents-in-tree")
    assert "already follows 2 writes under workspace quota acme that may still land" in refused.sentence
    assert ask(scale("c", 2)).verdict is Verdict.ALLOW
    assert ask(scale("a", 0)).verdict is Verdict.ALLOW, "zero needs no intent"
    ask.gate.ledger.pending.settle(first.pending_write, Event.REFUSED, 1.0)
    assert ask(scale("a", 3)).verdict is Verdict.ALLOW
    assert ask.gate.ledger.pending.consistent_read(135.0) == 3
    assert (ask.gate.ledger.pending.of_tree("acme"), ask.gate.ledger.pending.of_tree("other")) == (0, 0)


def test_less_is_never_refused_for_want_of_room_and_stands_in_one_count_a_workload():
    """As high as what is observed: a higher one that was allowed before may land after a lower one."""
    ask = asker(workload("web", 5), workload("api", 1), hard={"requests.cpu": "20"}, policy=Policy(max_intents=1))
    ask(scale("api", 2))
    answers = [ask(scale("web", 4)), ask(put_scale("web", 3, "9")), ask(scale("web", 5))]
    assert {one.verdict for one in answers} == {Verdict.ALLOW}
    assert {one.pending_write for one in answers} == {answers[0].id}
    (pin,) = [one for ref, one in ask.gate.ledger.pending if ref.name == "web"]
    assert (pin.replicas, pin.precondition, pin.renewed) == (5, NO_PRECONDITION, 2)
    assert ask(scale("web", 6)).reason == "too-many-intents"
    assert ask.gate.ledger.drift() == {}


def test_writes_of_a_source_that_another_gate_allowed_count_too():
    ask = asker(workload("web", 1), hard={"requests.cpu": "9"}, policy=Policy(max_intents_per_source=1))
    left = ask(from_source(scale("web", 2), "10.0.0.9"))
    heir = asker(workload("web", 1), hard={"requests.cpu": "9"}, policy=Policy(max_intents_per_source=1))
    adopt(heir.gate, told(ask.gate, 0.0), 5.0)
    assert heir(from_source(scale("web", 2), "10.0.0.9")).reason == "too-many-intents-of-source"
    heir.gate.ledger.pending.settle(left.pending_write, Event.REFUSED, 6.0)
    assert heir(from_source(scale("web", 2), "10.0.0.9")).verdict is Verdict.ALLOW


def test_an_answered_write_waits_for_a_read_by_a_gate_that_adopts_it():
    ask = asker(workload("web", 1))
    left = ask(scale("web", 2))
    ask.gate.ledger.pending.settle(left.pending_write, Event.ANSWERED_OK, 1.0)
    heir = asker(workload("web", 1))
    adopt(heir.gate, told(ask.gate, 2.0), 1000.0)
    (ref,) = heir.gate.ledger.pending.due(1000.0)
    assert heir.gate.ledger.pending.read(ref, 1000.0) == 0
    assert heir.gate.ledger.pending.read(ref, 1000.5) == 1
