"""Ways around the quota that a review found, each shut: what a tenant may send, in an order that pays off."""

from __future__ import annotations

import json
from itertools import count

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Request, Unknown, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.inputs.cluster import object_readers
from extauthz.testing import (
    Asker,
    create,
    gate,
    owned_by,
    patch,
    path,
    pod,
    put_scale,
    quota,
    scale,
    snapshot,
    workload,
)
from extauthz.tools.render.webhook import conditions
from tests.unit.asking import asker, books
from tests.worlds.pods import objects as of_worlds
from tests.worlds.pods import rollouts

CPU = "requests.cpu"


def web(replicas: int, surge: object = None, **metadata: object) -> dict:
    made = workload("web", replicas, **metadata)
    if surge is not None:
        made["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}
    return made


def revision(name: str, replicas: int, cpu: str = "1", *, owner: str | None = "web", **metadata: object) -> dict:
    metadata = {"labels": {"app": "web"}, "ownerReferences": owned_by(owner) if owner else []} | metadata
    return workload(name, replicas, {"cpu": cpu}, kind="ReplicaSet", **metadata)


def scale_revision(name: str, replicas: int) -> Request:
    return scale(name, replicas, resource="replicasets")


def apply(target: str, spec: dict) -> Request:
    return patch(target, {"spec": spec}, "apply")


# Families.


@pytest.mark.parametrize("surge", ["10000%", 1_000_000], ids=["percentage", "number"])
def test_a_tenant_s_own_max_surge_buys_no_uncharged_pods(surge: object):
    ask = asker(web(4, surge), revision("web-0", 4), hard="5")
    denied = ask(scale_revision("web-0", 50))
    assert denied.verdict is Verdict.DENY
    assert books(asker(web(4, surge), revision("web-0", 50))) == (49, 0), "one of 50 is within 25 % of 4"


def test_the_pods_of_a_replica_set_stay_under_a_cheaper_template_and_a_higher_count():
    """One pod of 3 CPU stays. The plain bound takes it that all do: template first, count afterwards."""
    body = {"spec": {"replicas": 5, "template": pod({"cpu": "2"})}}
    cheaper = patch(path("old", resource="replicasets"), body)
    ask = asker(revision("old", 1, "3", owner=None), hard="10")
    denied = ask(cheaper)
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 3)
    roomy = asker(revision("old", 1, "3", owner=None), hard="15")
    assert (roomy(cheaper).verdict, books(roomy)) == (Verdict.ALLOW, (3, 12))


def test_raising_a_deployment_whose_revisions_still_run_more_lowers_no_envelope():
    """Its surge grows with it: were that taken off at once, the reserve would fall below zero."""
    ask = asker(web(0), revision("web-0", 10), hard="20")
    assert books(ask) == (10, 0)
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW
    assert books(ask) == (10, 0)


def paused(replicas: int, cpu: str = "1") -> dict:
    made = workload("web", replicas, {"cpu": cpu})
    made["spec"]["paused"] = True
    return made


def test_a_paused_deployment_without_pods_may_take_up_any_replica_set_that_there_is():
    """It has no ReplicaSet of its cheaper template, and gets none while it is paused."""
    ask = asker(paused(0), revision("web-0", 0, "4"), revision("web-1", 0, "1"), hard="8")
    assert books(ask) == (0, 0)
    denied = ask(scale("web", 8))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 2)
    assert books(asker(paused(8), revision("web-0", 0, "4"))) == (32, 0), "its last ReplicaSet with pods was deleted"


def test_the_surge_of_a_rollout_that_is_paused_makes_no_room_for_a_higher_count():
    """Counted, its pods would be those of a higher count, and the next rollout would add to that: again and again."""
    ask = asker(paused(4), revision("web-0", 2, "1"), revision("web-1", 3, "1"), hard="4")
    assert books(ask) == (4, 0)
    assert ask(scale("web", 5)).verdict is Verdict.DENY


def test_a_paused_deployment_costs_the_dearest_of_its_replica_sets():
    """Zero always passes, and it may come before a count that is under way. Then its newest ReplicaSet is taken up."""
    ask = asker(paused(2), revision("web-0", 0, "4"), revision("web-1", 2), hard="8")
    assert (books(ask), ask(scale("web", 3)).verdict, ask(scale("web", 1)).verdict) == (
        *((8, 0), Verdict.DENY, Verdict.ALLOW),
    )
    pause = patch(path("web"), {"spec": {"paused": True}})
    sets = revision("web-0", 0, "4"), revision("web-1", 2)
    assert asker(web(2), *sets, hard="7")(pause).reason == "exceeded-quota"
    assert asker(web(2), *sets, hard="8")(pause).verdict is Verdict.ALLOW


def test_a_write_that_pauses_a_deployment_without_pods_brings_it_no_cheaper_count():
    """Count and template may land in either order."""
    ask = asker(web(0), revision("web-0", 0, "4"), revision("web-1", 0, "1"), hard="8")
    assert ask(patch(path("web"), {"spec": {"paused": True}})).verdict is Verdict.ALLOW
    pausing = patch(path("web"), {"spec": {"paused": True, "template": pod({"cpu": "500m"})}})
    assert ask(pausing).verdict is Verdict.ALLOW
    assert ask(scale("web", 8)).verdict is Verdict.DENY


def test_annotations_of_replica_sets_that_a_scale_down_multiplies_bring_their_controller_to_the_gate():
    """A rollout of eight is stuck. Somebody writes ``max-replicas`` of its ReplicaSets, which costs nothing, and scales
    down to seven. The controller then brings the smaller one to 36: seen on a real one, with 36 pods."""
    deployment = of_worlds.workload(("team-a", "web-deploy-0"), 7, "1")
    deployment["metadata"]["uid"] = "u"
    sets = [of_worlds.replica_set(deployment, replicas) for replicas in (6, 4)]
    for number, (one, most) in enumerate(zip(sets, ("9", "1"), strict=True)):
        one["spec"]["template"] = of_worlds.template("web-deploy-0", str(number + 1))
        one["metadata"] |= {"uid": f"u{number}", "annotations": {"desired": "8", "most": most}}
    scaled = [(rollouts.count(one), to) for one, to in rollouts.step(deployment, sets).scaled]
    assert scaled == [(6, 0), (4, 36)], "more than seven and a surge of two"
    assert "object.spec.replicas > int(object.?metadata.?annotations" in dict(conditions())["not-by-a-controller"]
    ask = asker(web(7), revision("web-0", 0), revision("web-1", 4), hard="8")
    assert ask(scale_revision("web-1", 36)).reason == "exceeded-quota"
    assert ask(scale_revision("web-1", 7)).verdict is Verdict.ALLOW


def test_a_surge_of_any_length_is_a_bounded_number():
    ask = asker(web(4, "1" + 5000 * "0" + "%"), hard="9", policy=Policy(window_s=90.0, charge_surge=True))
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("surge", "reserved"), [(0, 0), ("1%", 1), ("33%", 2), (None, 1), ("130%", 6)])
def test_a_rollout_is_charged_by_the_deployment_s_own_surge_whatever_its_replica_sets_do_not_say(surge, reserved):
    ask = asker(web(4, surge), revision("web-0", 4), hard="20", policy=Policy(window_s=90.0, charge_surge=True))
    assert books(ask) == (4, reserved)


@pytest.mark.parametrize("found", ["to be adopted", "changed"])
def test_a_replica_set_that_is_on_its_way_brings_no_surge_of_its_own(found: str):
    """The Deployment's own surge of none holds for whatever its pods come to run."""
    labels = {"app": "web", "pod-template-hash": "1"}
    seen = revision("web-0", 2, "1", owner="web" if found == "changed" else None, labels=labels)
    ask = asker(web(4, 0), seen, hard="20", policy=Policy(window_s=90.0, charge_surge=True))
    if found == "changed":
        change = patch(path("web-0", resource="replicasets"), {"spec": {"template": pod({"cpu": "500m"})}})
        assert ask(change).verdict is Verdict.ALLOW
        assert books(ask) == (4, 0)
    else:
        assert books(ask) == (6, 0), "of four, and the two that it has not adopted yet"


@pytest.mark.parametrize("surge", ["most", "-5", -5, "%", ""])
def test_a_surge_that_no_server_would_take_is_none(surge: object):
    assert books(asker(web(4, surge), revision("web-0", 6))) == (6, 0)


def test_creates_of_one_name_are_each_attributed_by_what_they_say():
    """The first is owned and covered; the others are of nobody."""
    ask = asker(web(4), hard="4")
    assert ask(create(revision("web-0", 4)), charge=False).verdict is Verdict.ALLOW
    assert ask(create(revision("web-0", 4, owner=None))).verdict is Verdict.DENY
    assert ask(create(revision("web-0", 4, labels={"app": "other"}))).verdict is Verdict.DENY


def test_a_covered_revision_that_loses_its_labels_is_charged_as_its_deployment_will_replace_it():
    ask = asker(web(4), revision("web-0", 4), hard="7")
    freed = patch(path("web-0", resource="replicasets"), {"metadata": {"labels": {"app": "freed"}}})
    assert ask(freed).verdict is Verdict.DENY
    assert ask(scale_revision("web-0", 3)).verdict is Verdict.ALLOW
    kept = patch(path("web-0", resource="replicasets"), {"metadata": {"labels": {"more": "labels"}}})
    assert ask(kept).reason == "no-growth"
    roomy = asker(web(4), revision("web-0", 4), hard="8")
    assert roomy(freed).verdict is Verdict.ALLOW
    assert books(roomy) == (4, 4)
    assert roomy(scale_revision("web-0", 5)).verdict is Verdict.DENY, "it counts beside its Deployment's own"
    now_free = revision("web-0", 4, version="2", labels={"app": "freed"})
    roomy.gate.load_state(snapshot(web(4), now_free), 1.0)
    assert books(roomy) == (8, 0)


def test_a_replaced_revision_without_its_owner_is_charged_beside_it():
    ask = asker(web(4), revision("web-0", 4), workload("mallory", 0), hard="7")
    target = path("web-0", resource="replicasets")

    def put(body: dict) -> Request:
        return Request("PUT", target, {"content-type": "application/json"}, json.dumps(body).encode())

    assert ask(put(revision("web-0", 4))).reason == "no-count"
    assert ask(put(revision("web-0", 4, owner="mallory"))).verdict is Verdict.DENY
    assert ask(put(revision("web-0", 4, owner="mallory", version="1"))).verdict is Verdict.DENY


def test_a_patch_that_takes_a_revision_from_its_deployment_is_charged_beside_it():
    ask = asker(web(4), revision("web-0", 4), hard="7")
    orphaned = patch(path("web-0", resource="replicasets"), {"metadata": {"ownerReferences": []}})
    assert ask(orphaned).verdict is Verdict.DENY


def test_a_freed_revision_is_charged_in_the_quotas_of_its_new_labels():
    quotas = [
        quota("acme", {CPU: "10"}, namespaces={}, workloads={"app": "web"}),
        quota("small", {CPU: "2"}, namespaces={}, workloads={"app": "freed"}),
    ]
    ask = Asker(gate(quotas, web(3), revision("web-0", 3)))
    freed = patch(path("web-0", resource="replicasets"), {"metadata": {"labels": {"app": "freed"}}})
    assert [short.quota for short in ask(freed).evidence.shortages] == ["small"]


# Writes that were taken for harmless.


def test_what_pends_on_a_workload_that_is_gone_makes_it_no_known_one():
    ask = asker(web(1))
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW
    dearer = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "y"}]}}}}
    assert ask(patch(path("web"), dearer, "strategic")).verdict is Verdict.ALLOW
    ask.gate.load_state(snapshot(), 1.0)
    assert ask(scale("web", 50)).reason == "unknown-workload"


def test_a_bound_write_under_no_quota_is_followed_too():
    """It lands first, and the labels that bring the workload under a quota after it."""
    quotas = [quota("acme", {CPU: "4"}, namespaces={}, workloads={"tier": "a"})]
    ask = Asker(gate(quotas, workload("web", 1, version="41")))
    assert ask(put_scale("web", 50, "41")).pending_write is not None
    assert ask(patch(path("web"), {"metadata": {"labels": {"tier": "a"}}})).verdict is Verdict.DENY


# Pending writes that ended early.


@pytest.mark.parametrize(
    ("meta", "seen", "later"),
    [
        pytest.param({"resourceVersion": "50"}, web(1, version="50"), (), id="gone-after-that-version"),
        pytest.param({"uid": "new"}, web(1, uid="new"), (), id="that-object-gone"),
        pytest.param({"uid": "new"}, web(1, uid="new"), (web(1, uid="newer"),), id="that-object-replaced"),
    ],
)
def test_a_precondition_outlives_a_view_that_lags_behind_it(meta: dict[str, str], seen: dict, later: tuple[dict, ...]):
    """The caller has seen the object that was made anew; the gate still sees the one before."""
    ask = asker(web(1, version="40"))
    meta = {"name": "web", "namespace": "team-a"} | meta
    body = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": {"replicas": 5}}
    request = Request("PUT", path("web", sub="scale"), {}, json.dumps(body).encode())
    assert ask(request).pending_write is not None
    for pending_writes, objects in ((1, (seen,)), (0, later)):
        ask.gate.load_state(snapshot(*objects), 1.0)
        assert ask.gate.ledger.pending_writes == pending_writes


# Settings that let pass more than they say.


def odd(ask: Asker, name: str = "odd", labels: dict | None = None) -> None:
    ref, observed = observe(workload(name, 1, labels=labels))
    observed.template = None
    ask.gate.ledger.observations.observe(ref, observed)


def test_allowing_unknown_footprints_still_weighs_what_is_known():
    ask = asker(web(1), policy=Policy(allows={Unknown.FOOTPRINT}))
    odd(ask)
    assert ask(scale("web", 11)).verdict is Verdict.DENY
    granted = ask(scale("web", 10))
    assert (granted.verdict, granted.pending_write) == (Verdict.ALLOW, granted.id)
    assert granted.reason == "unknown-usage"
    assert books(ask) == (1, 9)
    assert ask(scale("odd", 50)).reason == "unknown-footprint"


# What a denial says.


def retried(ask: Asker, denied: Decision, request_of: object) -> tuple[Verdict, Verdict]:
    assert denied.evidence.fits is not None
    return (
        ask(request_of(denied.evidence.fits), charge=False).verdict,  # type: ignore[operator]
        ask(request_of(denied.evidence.fits + 1), charge=False).verdict,  # type: ignore[operator]
    )


def put_whole(replicas: int, cpu: str) -> Request:
    body = json.dumps(workload("web", replicas, {"cpu": cpu})).encode()
    return Request("PUT", path("web"), {"content-type": "application/json"}, body)


FITTING = (Verdict.ALLOW, Verdict.DENY)


def test_the_count_that_is_said_to_fit_does_and_no_higher_one():
    ask = asker(web(3))
    assert retried(ask, ask(scale("web", 50)), lambda n: scale("web", n)) == FITTING
    assert retried(ask, ask(put_whole(50, "3")), lambda n: put_whole(n, "3")) == FITTING
    numbers = count(1)

    def one(n: int) -> Request:
        return create(workload(f"new-{next(numbers)}", n, {"cpu": "2"}))

    assert retried(ask, ask(one(50)), one) == FITTING


def test_for_a_revision_the_count_that_fits_is_its_own():
    ask = asker(web(4), revision("web-0", 3), revision("web-1", 1), hard="6")
    denied = ask(scale_revision("web-0", 50))
    assert denied.evidence.fits == 6, "beside the other's 1, and 1 of surge"
    assert retried(ask, denied, lambda n: scale_revision("web-0", n)) == FITTING


def test_no_count_is_named_where_none_would_be_allowed():
    """What pends keeps the dear template under the count that is there."""
    ask = asker(web(4), hard="8")
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": pod({"cpu": "3"})}
    denied = ask(apply(path("web"), spec | {"replicas": 9}))
    assert denied.evidence.fits == 2
    alone = {
        "spec": {"template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}}
    }
    assert ask(patch(path("web"), alone, "strategic")).verdict is Verdict.ALLOW
    assert ask(apply(path("web"), spec | {"replicas": 9})).evidence.fits is None
    assert ask(scale("web", 9)).evidence.fits == 4, "by the template that pends"
    ask.gate.ledger.pending.settle("nobody", Event.REFUSED, 0.0)


def test_a_dear_template_that_lands_raises_no_envelope_of_running_revisions():
    """Were their counts taken by its cost, the envelope would rise unweighed, and a scale-up pass as no growth."""
    ask = asker(web(4), revision("web-0", 2), revision("web-1", 5), revision("alone", 1, owner=None), hard="9")
    ask.gate.load_state(
        snapshot(
            workload("web", 4, {"cpu": "2"}, version="2"),
            revision("web-0", 2),
            revision("web-1", 5),
            revision("alone", 1, owner=None),
        ),
        1.0,
    )
    assert books(ask) == (9, 0)
    assert ask(scale("web", 5)).verdict is Verdict.DENY


def test_a_revision_made_anew_without_an_owner_is_of_nobody_though_its_predecessor_is_still_seen():
    ask = asker(web(4), revision("web-0", 2), hard="4")
    assert ask(create(revision("web-0", 2)), charge=False).reason == "no-growth"
    assert ask(create(revision("web-0", 2, owner=None))).verdict is Verdict.DENY


def kata(cpu: str) -> dict:
    return {"spec": {**pod({"cpu": cpu})["spec"], "runtimeClassName": "kata"}}


def test_a_dearer_template_of_an_unseen_class_takes_nothing_that_pods_have_by_that_class():
    """Their overhead is known, as they say it. So the new ones would be taken for no dearer."""
    db = workload("db", 4, kind="StatefulSet")
    db["spec"]["template"] = kata("1")
    ask = asker(db, hard="10")
    for ordinal in range(4):
        metadata = {"name": f"db-{ordinal}", "namespace": "team-a", "uid": f"p{ordinal}", "labels": {"app": "db"}}
        metadata["ownerReferences"] = owned_by("db", kind="StatefulSet")
        spec = {**kata("1")["spec"], "overhead": {"cpu": "1"}}
        ask.gate.observe(*object_readers.pod({"metadata": metadata, "spec": spec}))
    assert books(ask) == (8, 0)
    for replicas, cpu, reason in ((2, "2", "unknown-footprint"), (4, "500m", "no-growth")):
        body = {"spec": {"replicas": replicas, "template": kata(cpu)}}
        assert ask(patch(path("db", resource="statefulsets"), body)).reason == reason
