"""The ledger keeps used, reserved and hard exactly, through grants, settlements, observations and families."""

from __future__ import annotations

import pytest

from extauthz.core.ledger.entry import Event
from extauthz.core.model import Template, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, patch, path, put_scale, quota, scale, snapshot, workload
from tests.unit.asking import books

CPU = 10**9
WEB = WorkloadRef("apps", "deployments", "team-a", "web")


def asker(*objects: dict, hard: str = "10") -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": hard})], *(objects or [workload(replicas=3)])))


def test_a_grant_reserves_what_it_adds_and_a_refusal_nothing():
    ask = asker()
    assert ask(scale("web", 5)).verdict is Verdict.ALLOW
    assert books(ask) == (3, 2)
    assert ask(scale("web", 11)).verdict is Verdict.DENY
    assert books(ask) == (3, 2)


def test_an_identical_retry_adds_nothing_to_the_envelope():
    ask = asker()
    for _ in range(3):
        assert ask(scale("web", 5)).verdict is Verdict.ALLOW
    assert books(ask) == (3, 2)
    assert ask.gate.ledger.pending_writes == 3


def test_a_slow_write_keeps_its_room_though_a_later_lower_one_was_observed():
    """docs/internals/ledger.md: →10 is slow, →3 is observed, then →10 lands: its room must not have been given away."""
    ask = asker(workload("web", 1), workload("api", 0))
    slow = ask(scale("web", 10))
    ask(scale("web", 3))
    ask.gate.load_state(snapshot(workload("web", 3, version="2"), workload("api", 0)), 1.0)
    assert books(ask) == (3, 7)
    assert ask(scale("api", 1)).verdict is Verdict.DENY
    ask.gate.ledger.pending.settle(slow.pending_write, Event.REFUSED, 2.0)
    assert books(ask) == (3, 0)
    assert ask(scale("api", 7)).verdict is Verdict.ALLOW


def test_a_write_that_grows_nothing_is_pinned_so_that_it_can_not_grow_later():
    ask = asker(workload("web", 8), workload("api", 0))
    pinned = ask(scale("web", 8))
    assert (pinned.reason, pinned.pending_write) == ("no-growth", pinned.id)
    ask.gate.load_state(snapshot(workload("web", 2, version="2"), workload("api", 0)), 1.0)
    assert ask(scale("api", 3)).verdict is Verdict.DENY, "the pinned →8 may still land"


def test_a_write_bound_to_the_observed_version_that_exceeds_nothing_observed_is_free():
    ask = asker(workload("web", 8, version="41"))
    assert ask(put_scale("web", 8, version="41")).pending_write is None
    assert ask(put_scale("web", 5, version="41")).pending_write is None
    assert ask(put_scale("web", 8, version="42")).pending_write is not None, "another version: it is pinned"
    assert ask(put_scale("web", 9, version="41")).pending_write is not None, "it grows"


def test_a_bound_write_under_a_pending_write_s_envelope_is_not_free():
    """It grows nothing above the envelope, but the envelope may shrink before it lands."""
    ask = asker(workload("web", 3, version="41"))
    first = ask(scale("web", 10))
    bound = ask(put_scale("web", 10, version="41"))
    assert bound.pending_write is not None
    ask.gate.ledger.pending.settle(first.pending_write, Event.REFUSED, 1.0)
    assert books(ask) == (3, 7)


def test_an_answered_write_frees_its_room_only_by_a_read_made_after_the_answer():
    ask = asker()
    granted = ask(scale("web", 5))
    assert ask.gate.ledger.pending.settle(granted.pending_write, Event.ANSWERED_OK, 2.0) == WEB
    assert list(ask.gate.ledger.pending.due(2.0)) == [WEB]
    ask.gate.observe(WEB, observe(workload("web", 3, version="8"))[1])
    assert (ask.gate.ledger.pending.read(WEB, 2.0), books(ask)) == (0, (3, 2)), (
        "a read from before the answer proves nothing"
    )
    ask.gate.observe(WEB, observe(workload("web", 5, version="9"))[1])
    assert (books(ask), ask.gate.ledger.pending_writes) == ((5, 0), 1), "what the watch shows ends nothing"
    assert ask.gate.ledger.pending.read(WEB, 2.5) == 1
    assert (books(ask), ask.gate.ledger.pending_writes, list(ask.gate.ledger.pending.due(2.5))) == ((5, 0), 0, [])


def test_after_w_only_a_consistent_read_made_after_it_frees_room():
    ask = asker()
    ask(scale("web", 5))
    ask.gate.tick(200.0)
    assert books(ask) == (3, 2), "W alone frees nothing"
    assert ask.gate.ledger.pending.consistent_read(89.0) == 0, "a read from before W's end proves nothing"
    assert books(ask) == (3, 2)
    assert ask.gate.ledger.pending.consistent_read(90.0) == 1
    assert books(ask) == (3, 0)


def test_tick_tells_how_many_pending_writes_await_a_read():
    ask = asker()
    ask(scale("web", 5))
    assert ask.gate.ledger.pending.tick(89.0) == 0
    assert ask.gate.ledger.pending.tick(90.0) == 1


def test_a_passed_precondition_frees_room_at_once():
    ask = asker(workload("web", 3, version="41"))
    ask(put_scale("web", 5, version="41"))
    ask.gate.load_state(snapshot(workload("web", 3, version="42")), 1.0)
    assert (books(ask), ask.gate.ledger.pending_writes) == ((3, 0), 0)


def test_pending_writes_survive_deletion_and_re_creation():
    ask = asker()
    ask(scale("web", 5))
    ask.gate.load_state(snapshot(), 1.0)
    assert (books(ask), ask.gate.ledger.pending_writes) == ((0, 5), 1), (
        "gone it uses nothing, but the write may still land"
    )
    ask.gate.load_state(snapshot(workload("web", 1, uid="another")), 2.0)
    assert books(ask) == (1, 4)


def test_settling_an_unknown_pending_write_does_nothing():
    ask = asker()
    assert ask.gate.ledger.pending.settle("nobody", Event.ANSWERED_OK, 1.0) is None
    assert books(ask) == (3, 0)


def test_a_created_workload_is_reserved_until_it_is_observed():
    ask = asker(workload("api", 1))
    created = ask(create(workload("web", 4)))
    assert created.pending_write is not None
    assert books(ask) == (1, 4)
    assert ask(scale("web", 6)).verdict is Verdict.ALLOW, "what was created but not seen yet can be scaled"
    assert books(ask) == (1, 6)
    ask.gate.ledger.pending.settle(created.pending_write, Event.REFUSED, 1.0)
    assert books(ask) == (1, 6), "the scale may still land"


def test_each_create_with_a_generated_name_is_its_own():
    ask = asker(workload("api", 1))
    nameless = workload("web", 4)
    del nameless["metadata"]["name"]
    nameless["metadata"]["generateName"] = "web-"
    assert ask(create(nameless)).verdict is Verdict.ALLOW
    assert ask(create(nameless)).verdict is Verdict.ALLOW
    assert books(ask) == (1, 8)
    assert ask(create(nameless)).verdict is Verdict.DENY


def test_the_envelope_is_highest_replicas_times_highest_footprint():
    ask = asker(workload("web", 2, {"cpu": "1"}), hard="20")
    ask(scale("web", 5))
    dearer = {
        "spec": {"template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}}}
    }
    assert ask(patch(path("web"), dearer, "strategic")).verdict is Verdict.ALLOW
    assert books(ask) == (2, 13)


def test_labels_that_move_a_workload_charge_the_quota_that_it_enters():
    quotas = [
        quota("acme", {"requests.cpu": "10"}, namespaces={}, workloads={"tier": "a"}),
        quota("small", {"requests.cpu": "2"}, namespaces={}, workloads={"tier": "b"}),
    ]
    ask = Asker(gate(quotas, workload("web", 3, labels={"tier": "a"})))
    move = {"metadata": {"labels": {"tier": "b"}}}
    denied = ask(patch(path("web"), move))
    assert [(short.quota, short.requested // CPU) for short in denied.evidence.shortages] == [("small", 3)]
    ask.gate.load_quotas(
        QuotaTree.build([quotas[0], quota("small", {"requests.cpu": "5"}, namespaces={}, workloads={"tier": "b"})]), 0
    )
    assert ask(patch(path("web"), move)).verdict is Verdict.ALLOW
    assert (books(ask, "acme"), books(ask, "small")) == ((3, 0), (0, 3)), "both, until it is settled"
    assert ask(scale("web", 6)).verdict is Verdict.DENY, "it may be in either"


def family(deployment: int, *sets: int, **metadata: object) -> list[dict]:
    template_labels = {"app": "web"}
    made = [workload("web", deployment, **metadata)]
    for number, replicas in enumerate(sets):
        made.append(
            workload(
                f"web-{number}", replicas, kind="ReplicaSet", labels=template_labels, ownerReferences=owned_by("web")
            )
        )
    return made


def test_what_replica_sets_have_above_their_deployment_and_its_surge_is_charged():
    assert books(asker(*family(4, 5))) == (4, 0), "one more is within the default surge of 25 %"
    assert books(asker(*family(4, 4, 3))) == (6, 0)


@pytest.mark.parametrize(
    "orphan",
    [
        pytest.param({"ownerReferences": owned_by("web", "another-uid")}, id="another-uid"),
        pytest.param({"ownerReferences": owned_by("gone")}, id="owner-not-there"),
        pytest.param({"ownerReferences": owned_by("web", kind="Rollout")}, id="unknown-kind"),
        pytest.param({"labels": {"app": "other"}, "ownerReferences": owned_by("web")}, id="not-selected"),
        pytest.param({"ownerReferences": []}, id="no-owner"),
    ],
)
def test_a_replica_set_that_no_live_owner_covers_is_charged_itself(orphan: dict):
    bare = workload("web-0", 4, kind="ReplicaSet", **{"labels": {"app": "web"}, **orphan})
    assert books(asker(workload("web", 4), bare)) == (8, 0)


def test_what_a_write_makes_for_such_a_deployment_counts_by_itself_until_it_is_there():
    """Its controller may let go of it at once."""
    deployment, child = family(4, 4)
    deployment["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    ask = asker(deployment)
    assert ask(create(child)).verdict is Verdict.ALLOW
    assert books(ask) == (4, 4)
    ask.gate.observe(*observe(child))
    assert books(ask)[0] == 4


def test_a_workload_in_a_namespace_that_is_not_known_is_under_no_quota():
    assert books(asker(workload("web", 3), workload("far", 5, namespace="elsewhere"))) == (3, 0)


def test_families_follow_what_is_observed():
    ask = asker(*family(4, 4))
    ask.gate.load_state(snapshot(*family(4, 4)[1:]), 1.0)
    assert books(ask) == (4, 0), "the Deployment is gone: its ReplicaSet is charged itself"
    ask.gate.load_state(snapshot(*family(4, 4)), 2.0)
    assert books(ask) == (4, 0)
    ask.gate.load_state(snapshot(*family(2, 2, uid="new-uid")), 3.0)
    assert books(ask) == (4, 0), "a new Deployment of that name covers not the old one's ReplicaSets"


def test_two_writes_to_replica_sets_of_one_deployment_add_up():
    ask = asker(*family(4, 4, 0), hard="8")
    assert ask(scale("web-1", 4, resource="replicasets")).verdict is Verdict.ALLOW
    assert books(ask) == (4, 3)
    assert ask(scale("web-0", 8, resource="replicasets")).verdict is Verdict.DENY


def test_a_replica_set_that_its_deployment_s_controller_creates_is_no_growth():
    ask = asker(*family(4, 0), hard="4")
    newer = workload("web-9", 4, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
    allowed = ask(create(newer))
    assert (allowed.verdict, allowed.reason) == (Verdict.ALLOW, "no-growth")
    ask.gate.load_state(snapshot(*family(4, 0), newer), 1.0)
    assert books(ask) == (4, 0)


def test_a_surge_counts_as_it_is_up_to_the_default_one():
    web = workload("web", 8)
    web["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1}}
    child = workload("web-0", 11, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
    assert books(asker(web, child)) == (10, 0)
    web["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 3}}
    assert books(asker(web, child)) == (9, 0)
    web["spec"]["strategy"] = {"type": "Recreate"}
    assert books(asker(web, child)) == (11, 0)


def test_a_rollout_costs_the_dearer_of_its_templates():
    old = workload("web-0", 4, {"cpu": "2"}, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
    assert books(asker(workload("web", 4, {"cpu": "1"}), old)) == (8, 0)


def test_objects_are_counted_once_each():
    quotas = [quota("acme", {"count/deployments.apps": "2", "count/replicasets.apps": "9"})]
    ask = Asker(gate(quotas, *family(4, 4, 0)))
    assert books(ask, key="count/deployments.apps") == (1, 0)
    assert books(ask, key="count/replicasets.apps") == (2, 0)
    assert ask(create(workload("api", 50))).verdict is Verdict.ALLOW
    denied = ask(create(workload("more", 0)))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, None), "no replica count would help"


def test_a_changed_tree_counts_anew_and_keeps_the_pending_writes():
    ask = asker()
    ask(scale("web", 5))
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"pods": "4"})]), 1.0)
    assert books(ask, key="pods") == (3, 2), "above the new limit: nothing grows, nothing breaks"
    assert ask(scale("web", 6)).verdict is Verdict.DENY
    assert ask(scale("web", 5)).verdict is Verdict.DENY, "nor back to what was granted before the cut"
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW


def test_namespaces_that_change_their_labels_move_their_workloads():
    quotas = [quota("acme", {"requests.cpu": "10"}), quota("other", {"requests.cpu": "10"})]
    ask = Asker(gate(quotas, workload("web", 3)))
    ask.gate.load_state(snapshot(workload("web", 3), namespaces={"team-a": {"workspace": "other"}}), 1.0)
    assert (books(ask), books(ask, "other")) == ((0, 0), (3, 0))


def test_limit_ranges_fill_in_what_a_template_leaves_out():
    from extauthz.core.footprint import parse_limit_range

    bare = workload("web", 3)
    bare["spec"]["template"] = {"spec": {"containers": [{"name": "main"}]}}
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})]))
    state = snapshot(bare)
    state.limit_ranges["team-a"] = (
        parse_limit_range({"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]}}),
    )
    ask.gate.load_state(state, 1.0)
    assert books(ask) == (6, 0)


def test_the_overhead_of_a_runtime_class_and_the_default_storage_class_count():
    db = workload("db", 2, kind="StatefulSet")
    db["spec"]["template"]["spec"]["runtimeClassName"] = "kata"
    db["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "5"}}}}
    ]
    fast = "fast.storageclass.storage.k8s.io/requests.storage"
    ask = Asker(gate([quota("acme", {"requests.cpu": "10", fast: "20"})]))
    state = snapshot(db)
    state.overheads["kata"] = {"cpu": 2 * CPU}
    state.default_storage_class = "fast"
    ask.gate.load_state(state, 1.0)
    assert (books(ask), books(ask, key=fast)) == ((6, 0), (10, 0))


def test_observing_nothing_of_an_unknown_workload_is_nothing():
    ask = asker()
    ask.gate.observe(WEB._replace(name="nobody"), None)
    assert len(ask.gate.ledger) == 1


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(None, id="none-declared"),
        pytest.param(Template(b'{"template": {"spec": {"containers": 3}}}'), id="none-the-server-would-take"),
    ],
)
def test_a_template_that_can_not_be_priced_makes_usage_unknown_and_growth_unavailable(template: Template | None):
    ask = asker(workload("web", 3))
    ref, observed = observe(workload("odd", 1))
    observed.template = template
    ask.gate.observe(ref, observed)
    refused = ask(scale("web", 4))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "unknown-usage")
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW
    assert ask(scale("odd", 2)).reason == "unknown-footprint"
    assert ask(scale("odd", 1)).verdict is Verdict.ALLOW


def test_a_pending_write_of_another_gate_holds_its_room_until_it_is_forgotten():
    giver, taker = asker(), asker()
    granted = giver(scale("web", 5))
    ref, pending_write = giver.gate.ledger.pending.get(granted.pending_write)
    taker.gate.ledger.adopt(ref, pending_write)
    assert books(taker) == (3, 2)
    assert taker.gate.ledger.pending.leaf_quotas(granted.pending_write) == {"acme"}
    for _ in range(2):
        taker.gate.ledger.pending.forget(granted.pending_write)
        assert books(taker) == (3, 0)
    assert taker.gate.ledger.pending.get(granted.pending_write) is None
    assert taker.gate.ledger.pending.leaf_quotas(granted.pending_write) == frozenset()
