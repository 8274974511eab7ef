"""Who is charged for whom: pods, revisions, claims and what custom resources make, in whatever order they are seen."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.footprint import LimitRangeDefaults
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Observed, OwnerRef, Template, Verdict, WorkloadRef
from extauthz.core.objects import workloads
from extauthz.core.objects.fields import MAX_REPLICAS
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, quota, scale, workload
from tests.unit.asking import books

NANO = 10**9
KEYS = {"requests.cpu": "10", "requests.storage": "40", "count/pods": "99", "persistentvolumeclaims": "99"}
ROLLOUTS = ("example.com", "Rollout", "rollouts")


def asker(*seen: dict[str, Any], hard: dict[str, str] | None = None) -> Asker:
    return Asker(gate([quota("acme", KEYS | (hard or {}))], *seen))


def see(ask: Asker, *seen: tuple[WorkloadRef, Observed | None] | dict[str, Any]) -> None:
    for one in seen:
        ref, observed = workloads.observe(one) if isinstance(one, dict) else one
        ask.gate.observe(ref, observed)


def owner(name: str, kind: str = "ReplicaSet", group: str = "apps", uid: str = "") -> OwnerRef:
    return OwnerRef(group, kind, name, uid or f"uid-{name}")


def a_pod(name: str, of: OwnerRef | None = None, cpu: int = 1, labels: str = "app=web") -> tuple[WorkloadRef, Observed]:
    template = workloads.pod_template(pod({"cpu": str(cpu)})["spec"])
    return WorkloadRef("", "pods", "team-a", name), Observed(1, template, labels, owner=of)


def pods(count: int, of: OwnerRef, cpu: int = 1, labels: str = "app=web") -> list[tuple[WorkloadRef, Observed]]:
    return [a_pod(f"{of.name}-{n}", of, cpu, labels) for n in range(count)]


def revision(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    labels = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    made = workload(name, replicas, kind="ReplicaSet", **(labels | more))
    made["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    return made


# Pods.

WEB_SET = owner("web-1")


def web(replicas: int, **more: Any) -> dict[str, Any]:
    """A Deployment without a surge."""
    made = workload("web", replicas, **more)
    made["spec"]["strategy"] = {"type": "Recreate"}
    return made


def test_pods_cost_nothing_beside_what_their_owner_is_charged_for_whatever_is_seen_first():
    family = [workload("web", 2), revision("web-1", 2), *pods(2, WEB_SET)]
    for order in permutations(family):
        ask = asker()
        see(ask, *order)
        assert (books(ask), books(ask, key="count/pods")) == ((2, 0), (2, 0))


def test_pods_of_one_owner_are_one_entry():
    ask = asker(workload("web", 50), revision("web-1", 50))
    see(ask, *pods(50, WEB_SET))
    assert len(ask.gate.ledger) == 3


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("statefulset.kubernetes.io/pod-name", "app=web,statefulset.kubernetes.io/pod-name=web-{}"),
        ("apps.kubernetes.io/pod-index", "app=web,apps.kubernetes.io/pod-index={}"),
        ("batch.kubernetes.io/job-completion-index", "app=web,batch.kubernetes.io/job-completion-index={}"),
    ],
)
def test_labels_that_tell_pods_of_one_owner_apart_make_no_group_of_each(name: str, labels: str):
    ask = asker(revision("web-1", 50))
    see(ask, *(a_pod(f"p{n}", WEB_SET, labels=labels.format(n)) for n in range(50)))
    assert len(ask.gate.ledger) == 2, name


def test_pods_above_what_their_owner_asks_for_are_charged():
    ask = asker(web(2), revision("web-1", 2))
    see(ask, *pods(5, WEB_SET))
    assert (books(ask), books(ask, key="count/pods")) == ((5, 0), (5, 0))


def test_dearer_pods_than_the_template_s_count_as_they_are_and_hide_no_growth():
    """A sidecar that a webhook puts in: what is there costs more, and one more replica costs at least a template."""
    ask = asker(web(2), revision("web-1", 2))
    see(ask, *pods(2, WEB_SET, cpu=2))
    assert books(ask) == (4, 0)
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW
    assert books(ask) == (4, 1)


def test_pods_that_are_going_hide_no_growth():
    """Their controller makes others beside them: a long grace period is no way to run twice what was granted."""
    ask = asker(workload("web", 10), revision("web-1", 10))
    see(ask, *pods(10, WEB_SET))
    see(ask, workload("web", 0, version="2"), revision("web-1", 0, version="2"))
    see(ask, *(a_pod(f"web-1-{n}", None) for n in range(10)))
    assert books(ask) == (10, 0)
    assert ask(scale("web", 1)).verdict is Verdict.DENY
    see(ask, *((ref, None) for ref, _ in pods(10, WEB_SET)))
    assert (books(ask), len(ask.gate.ledger)) == ((0, 0), 2)
    assert ask(scale("web", 10)).verdict is Verdict.ALLOW


def test_a_pod_that_changes_hands_is_counted_once():
    ask = asker(revision("web-1", 2), revision("web-2", 2))
    see(ask, *pods(2, WEB_SET))
    assert books(ask) == (4, 0)
    see(ask, a_pod("web-1-0", owner("web-2")))
    assert books(ask) == (4, 0)
    see(ask, a_pod("web-1-0", None))
    assert books(ask) == (5, 0), "orphaned"
    see(ask, a_pod("web-1-0", WEB_SET))
    assert books(ask) == (4, 0), "adopted"
    see(ask, a_pod("web-1-0", WEB_SET, labels="app=other"))
    assert books(ask) == (5, 0), "not selected any more"


def test_a_state_of_a_pod_that_comes_late_is_ignored():
    ask = asker(revision("web-1", 0))
    ref, now = a_pod("web-1-0", WEB_SET, cpu=3)
    now.resource_version = "9"
    before = a_pod("web-1-0", WEB_SET, cpu=1)[1]
    before.resource_version = "8"
    assert ask.gate.observe(ref, now)
    assert not ask.gate.observe(ref, before)
    assert not ask.gate.observe(ref, None, version="7")
    assert books(ask) == (3, 0)
    ask.gate.observe_all(("", "pods"), [(ref, before)], "8")
    assert books(ask) == (3, 0)
    ask.gate.observe_all(("", "pods"), [], "10")
    assert (books(ask), len(ask.gate.ledger)) == ((0, 0), 1)


@pytest.mark.parametrize(
    ("selector", "of", "covered"),
    [
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, WEB_SET, True, id="by-uid"),
        pytest.param({"matchExpressions": []}, WEB_SET._replace(uid="other"), False, id="another-uid"),
        pytest.param(None, WEB_SET._replace(group="extensions"), True, id="as-older-controllers-wrote-it"),
        pytest.param(None, WEB_SET._replace(kind="DaemonSet"), False, id="no-kind-of-workload"),
    ],
)
def test_pods_are_known_by_the_uid_where_their_owner_s_selector_is_not_kept(selector: Any, of: OwnerRef, covered: bool):
    made = revision("web-1", 2)
    made["spec"]["selector"] = selector or made["spec"]["selector"]
    ask = asker(made)
    see(ask, *pods(2, of))
    assert books(ask) == ((2, 0) if covered else (4, 0))


@pytest.mark.parametrize(("uid", "used"), [("uid-web", 2), ("another", 4)])
def test_a_replica_set_is_known_by_the_uid_where_its_deployment_s_selector_is_not_kept(uid: str, used: int):
    made = workload("web", 2)
    made["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    ask = asker(made, revision("web-1", 2, ownerReferences=owned_by("web", uid)))
    assert books(ask) == (used, 0)


def test_a_job_covers_its_pods():
    ref, running = WorkloadRef("batch", "jobs", "team-a", "sum"), workloads.observe(workload("sum", 2))[1]
    running.selector = "job=sum"
    ask = asker()
    see(ask, *pods(3, owner("sum", "Job", "batch"), labels="job=sum"), (ref, running))
    assert books(ask) == (3, 0)
    see(ask, (ref, None))
    assert books(ask) == (3, 0), "finished: what still runs counts by itself"


# Revisions of StatefulSets.


def old_revision(cpu: int, uid: str = "uid-db") -> tuple[WorkloadRef, Observed]:
    template = workloads.intern(workloads.prune({"template": pod({"cpu": str(cpu)})}))
    ref = WorkloadRef("apps", "controllerrevisions", "team-a", "db-1")
    return ref, Observed(MAX_REPLICAS, template, owner=OwnerRef("apps", "StatefulSet", "db", uid))


def test_a_stateful_set_costs_the_dearest_revision_that_it_may_still_run():
    ask = asker(workload("db", 2, kind="StatefulSet"))
    see(ask, old_revision(3))
    assert books(ask) == (6, 0)
    assert ask(scale("db", 3, resource="statefulsets")).verdict is Verdict.ALLOW
    assert books(ask) == (6, 3)
    assert ask(scale("db", 4, resource="statefulsets")).evidence.fits == 3
    see(ask, *pods(2, owner("db", "StatefulSet"), cpu=3, labels="app=db"))
    assert books(ask) == (6, 3), "its pods run that revision"
    see(ask, (old_revision(3)[0], None))
    assert books(ask) == (6, 1)


def test_pods_that_a_stateful_set_has_too_many_of_are_charged_once_beside_a_pending_write():
    ask = asker(workload("db", 2, kind="StatefulSet"))
    see(ask, old_revision(1), *pods(5, owner("db", "StatefulSet"), labels="app=db"))
    assert books(ask) == (5, 0)
    dearer = patch(path("db", resource="statefulsets"), {"spec": {"template": pod({"cpu": "2"})}})
    assert ask(dearer).verdict is Verdict.ALLOW
    assert books(ask) == (5, 2), "2 of the new ones, and 3 that are there beside them"


@pytest.mark.parametrize("uid", ["uid-db", "another"], ids=["owner-gone", "another-owner"])
def test_a_revision_that_nobody_runs_costs_nothing(uid: str):
    ask = asker(workload("db", 1, kind="StatefulSet"))
    see(ask, old_revision(3, uid))
    see(ask, (WorkloadRef("apps", "statefulsets", "team-a", "db"), None))
    assert books(ask) == (0, 0)


# Claims.


def db(replicas: int, storage: str = "5", start: int = 0, **more: Any) -> dict[str, Any]:
    made = workload("db", replicas, kind="StatefulSet", **more)
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": storage}}}}
    made["spec"] |= {"volumeClaimTemplates": [claim], "ordinals": {"start": start}}
    return made


def claim(name: str, storage: str = "5", storage_class: str | None = None) -> tuple[WorkloadRef, Observed]:
    spec = {"resources": {"requests": {"storage": storage}}, "storageClassName": storage_class}
    ref = WorkloadRef("", "persistentvolumeclaims", "team-a", name)
    return ref, Observed(1, workloads.claim_template({"spec": spec}))


def claims(*ordinals: int, storage: str = "5") -> list[tuple[WorkloadRef, Observed]]:
    return [claim(f"data-db-{ordinal}", storage) for ordinal in ordinals]


STORAGE = "requests.storage"


def test_claims_cost_nothing_beside_the_stateful_set_that_made_them_whatever_is_seen_first():
    for order in permutations([db(2), *claims(0, 1)]):
        ask = asker()
        see(ask, *order)
        assert (books(ask, key=STORAGE), books(ask, key="persistentvolumeclaims")) == ((10, 0), (2, 0))


def test_a_claim_that_is_left_behind_counts_until_it_goes_and_is_taken_up_again_for_nothing():
    ask = asker(db(4))
    see(ask, *claims(0, 1, 2, 3), db(1, version="2"))
    assert books(ask, key=STORAGE) == (20, 0)
    assert ask(scale("db", 4, resource="statefulsets")).verdict is Verdict.ALLOW
    assert (books(ask, key=STORAGE), books(ask)) == ((20, 0), (1, 3))
    see(ask, (claims(3)[0][0], None))
    assert books(ask, key=STORAGE) == (15, 5), "its ordinal is granted, and will have one made"


def test_claims_outlive_their_stateful_set():
    ask = asker(db(2))
    see(ask, *claims(0, 1), (WorkloadRef("apps", "statefulsets", "team-a", "db"), None))
    assert (books(ask, key=STORAGE), books(ask)) == ((10, 0), (0, 0))
    see(ask, *((ref, None) for ref, _ in claims(0, 1)))
    assert (books(ask, key=STORAGE), len(ask.gate.ledger)) == ((0, 0), 0)


def two_by_team(*seen: dict[str, Any]) -> Asker:
    """Quotas of two teams in one namespace. That of team a is small."""
    all_of, of = {"workspace": "acme"}, {"a": "15", "b": "90"}
    return Asker(gate([quota(n, {STORAGE: of[n]}, namespaces=all_of, workloads={"team": n}) for n in of], *seen))


def storage_of(ask: Asker) -> dict[str, tuple[int, int]]:
    assert ask.gate.ledger.drift() == {}
    return {row.quota: (row.used // NANO, row.reserved // NANO) for row in ask.gate.usage()}


def left_by_team_b(*ordinals: int) -> list[tuple[WorkloadRef, Observed]]:
    return [(ref, replace(observed, labels="team=b")) for ref, observed in claims(*ordinals)]


def test_a_stateful_set_that_is_made_is_charged_the_claims_that_it_finds_under_another_quota():
    ask = two_by_team()
    see(ask, *left_by_team_b(0, 1, 2, 3))
    made = ask(create(db(2, labels={"team": "a"})))
    assert (made.verdict, made.reason, made.evidence.fits) == (Verdict.DENY, "exceeded-quota", None)
    assert storage_of(ask) == {"a": (0, 0), "b": (20, 0)}


def test_pods_beyond_the_count_are_no_room_for_a_larger_one():
    ask = asker(workload("web-1", 1, kind="ReplicaSet"), hard={"pods": "9"})
    see(ask, *pods(3, owner("web-1"), labels="app=web-1"))
    refused = ask(scale("web-1", 50, resource="replicasets"))
    assert (refused.verdict, refused.evidence.fits, books(ask, key="pods")) == (Verdict.DENY, 7, (3, 0))


def test_claims_that_a_create_would_find_are_charged_no_longer_once_it_has_ended():
    ask = two_by_team()
    see(ask, *left_by_team_b(3))
    made = ask(create(db(1, labels={"team": "a"})))
    assert (made.verdict, storage_of(ask)) == (Verdict.ALLOW, {"a": (0, 10), "b": (5, 0)})
    grown = ask(scale("db", 2, resource="statefulsets"))
    assert (grown.verdict, storage_of(ask)) == (Verdict.ALLOW, {"a": (0, 15), "b": (5, 0)})
    ask.gate.ledger.pending.settle(made.pending_write, Event.REFUSED, 1.0)
    assert storage_of(ask) == {"a": (0, 10), "b": (5, 0)}, "the count may still land on what another one has made"


def test_a_stateful_set_that_is_made_anew_makes_none_of_the_claims_that_are_left():
    ask = asker(hard={STORAGE: "30"})
    see(ask, *claims(0, 1, 2, 3, 4))
    denied = ask(create(db(7)))
    assert (denied.verdict, denied.evidence.fits, books(ask, key=STORAGE)) == (Verdict.DENY, 6, (25, 0))
    made = ask(create(db(6)))
    assert (made.verdict, books(ask, key=STORAGE)) == (Verdict.ALLOW, (25, 5)), "that of ordinal 5"
    see(ask, (WorkloadRef("", "persistentvolumeclaims", "team-a", "data-db-4"), None))
    assert books(ask, key=STORAGE) == (20, 10), "it makes one more"
    see(ask, *claims(4, storage="2"), db(6, version="5"))
    assert books(ask, key=STORAGE) == (30, 0)


def test_a_stateful_set_that_goes_while_another_one_of_its_name_may_come_leaves_it_its_claims():
    ask = two_by_team(db(2, labels={"team": "b"}))
    see(ask, *left_by_team_b(0, 1, 7))
    assert ask(create(db(2, labels={"team": "a"}, uid="another"))).verdict is Verdict.ALLOW
    see(ask, (WorkloadRef("apps", "statefulsets", "team-a", "db"), None))
    assert storage_of(ask) == {"a": (0, 15), "b": (15, 15)}, "where the one before counted, another one may too"


def test_claims_of_a_name_that_two_have_count_by_the_one_that_has_them():
    """The claims ``data`` of ``x-db`` are named as the claims ``data-x`` of ``db`` would be."""
    first = workload("x-db", 2, kind="StatefulSet", labels={"team": "b"})
    first["spec"] |= {"volumeClaimTemplates": db(1)["spec"]["volumeClaimTemplates"]}
    ask = two_by_team(first)
    see(ask, *((ref, replace(one, labels="team=a")) for ref, one in [claim("data-x-db-0"), claim("data-x-db-1")]))
    assert storage_of(ask) == {"a": (0, 0), "b": (10, 0)}
    other = db(1, labels={"team": "a"})
    other["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = "data-x"
    assert ask(create(other)).verdict is Verdict.ALLOW
    assert storage_of(ask) == {"a": (0, 10), "b": (10, 0)}


def test_claims_that_come_and_go_before_it_is_made_are_charged_too():
    ask = two_by_team()
    see(ask, *left_by_team_b(0))
    made = ask(create(db(2, labels={"team": "a"})))
    assert (made.verdict, storage_of(ask)) == (Verdict.ALLOW, {"a": (0, 10), "b": (5, 0)})
    see(ask, *left_by_team_b(7), claim("0-db-7"), claim("data-x-0"), claim("db-0"))
    assert storage_of(ask) == {"a": (0, 15), "b": (10, 0)}
    see(ask, db(2, labels={"team": "a"}, version="5"))
    assert storage_of(ask) == {"a": (15, 0), "b": (0, 0)}, "as soon as it is seen they are its own"
    assert ask.gate.ledger.pending_writes == 0


def test_of_a_claim_and_what_its_ordinal_asks_for_the_larger_counts():
    ask = asker(db(2))
    see(ask, *claims(0, storage="8"), *claims(1, storage="2"))
    assert books(ask, key=STORAGE) == (13, 0)
    see(ask, *claims(1, storage="9"))
    assert books(ask, key=STORAGE) == (17, 0), "expanded"


def test_claims_of_ordinals_below_the_first_are_not_those_it_runs_with():
    ask = asker(db(2, start=5))
    see(ask, *claims(0, 1, 5))
    assert books(ask, key=STORAGE) == (20, 0)


def test_moving_the_first_ordinal_is_growth_of_storage():
    ask = asker(db(2), hard={STORAGE: "15"})
    see(ask, *claims(0, 1))
    moved = ask(patch(path("db", resource="statefulsets"), {"spec": {"ordinals": {"start": 1}}}))
    assert (moved.verdict, books(ask, key=STORAGE)) == (Verdict.ALLOW, (10, 5)), "0 stays, 2 is new"
    ask = asker(db(2), hard={STORAGE: "15"})
    see(ask, *claims(0, 1))
    moved = ask(patch(path("db", resource="statefulsets"), {"spec": {"ordinals": {"start": 5}}}))
    assert moved.verdict is Verdict.DENY


@pytest.mark.parametrize("name", ["data-db", "data-db-01", "data-db-x", "data-db-1²", "other-db-0", "data-db2-0", "-0"])
def test_what_is_not_named_as_a_claim_of_a_stateful_set_counts_by_itself(name: str):
    ask = asker(db(1))
    see(ask, claim(name))
    assert books(ask, key=STORAGE) == (10, 0)


def test_of_two_stateful_sets_that_share_a_name_of_claims_one_has_them():
    """``a-b`` of ``c`` and ``a`` of ``b-c`` are both ``a-b-c-0``."""
    first, second = db(1), db(1)
    for made, name, template in ((first, "c", "a-b"), (second, "b-c", "a")):
        made["metadata"] |= {"name": name, "uid": name}
        made["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = template
    ask = asker(first, second)
    see(ask, claim("a-b-c-0"))
    assert books(ask, key=STORAGE) == (10, 0)
    see(ask, (WorkloadRef("apps", "statefulsets", "team-a", "c"), None))
    assert books(ask, key=STORAGE) == (5, 0)
    see(ask, (WorkloadRef("apps", "statefulsets", "team-a", "b-c"), None))
    assert books(ask, key=STORAGE) == (5, 0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_stateful_sets_that_share_a_name_of_claims_it_is_the_same_one_in_any_order(order: tuple[int, ...]):
    both = [db(0), db(0)]
    for made, name, template in ((both[0], "c", "a-b"), (both[1], "b-c", "a")):
        made["metadata"] |= {"name": name, "uid": name, "labels": {"tier": name}}
        made["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = template
    acme = {"workspace": "acme"}
    tiers = [quota(one, KEYS, parent="acme", namespaces=acme, workloads={"tier": one}) for one in ("c", "b-c")]
    ask = Asker(gate([quota("acme", KEYS), *tiers]))
    see(ask, *(both[at] for at in order), claim("a-b-c-0"))
    assert (books(ask, "b-c", STORAGE), books(ask, "c", STORAGE)) == ((5, 0), (0, 0))


def test_a_claim_of_another_class_than_asked_for_counts_in_both():
    slow = "slow.storageclass.storage.k8s.io/requests.storage"
    ask = asker(db(1), hard={slow: "99"})
    see(ask, claim("data-db-0", "5", "slow"))
    assert (books(ask, key=STORAGE), books(ask, key=slow)) == ((5, 0), (5, 0))


def test_a_claim_that_can_not_be_priced_makes_usage_unknown():
    ask = asker(db(1))
    see(ask, claim("data-db-0", "much"))
    assert ask(scale("db", 2, resource="statefulsets")).reason == "unknown-footprint"


def test_a_stateful_set_that_can_not_be_priced_makes_usage_unknown_whatever_claims_there_are():
    ref, odd = workloads.observe(db(1))
    claim = b'{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "much"}}}}'
    odd.template = Template(b'{"template": {"spec": {}}, "volumeClaimTemplates": [%s]}' % claim)
    ask = asker(db(1))
    see(ask, *claims(0), (ref, odd))
    assert ask(scale("db", 2, resource="statefulsets")).reason == "unknown-footprint"
    odd.template = None
    see(ask, (ref, odd))
    assert ask(scale("db", 2, resource="statefulsets")).reason == "unknown-footprint"


def test_how_much_still_fits_is_exact_where_claims_are_there_already():
    ask = asker(db(1), hard={STORAGE: "22"})
    see(ask, *claims(0, 1, 3))
    denied = ask(scale("db", 9, resource="statefulsets"))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 4)
    assert ask(scale("db", 4, resource="statefulsets")).verdict is Verdict.ALLOW


# Claims of ephemeral volumes.


def with_scratch(pod_spec: dict[str, Any], storage: str = "5") -> dict[str, Any]:
    template = {"spec": {"resources": {"requests": {"storage": storage}}}}
    return pod_spec | {"volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]}


def scratch_set(replicas: int) -> dict[str, Any]:
    made = revision("web-1", replicas)
    made["spec"]["template"]["spec"] = with_scratch(made["spec"]["template"]["spec"])
    return made


def scratch_pod(name: str, of: OwnerRef | None = WEB_SET) -> tuple[WorkloadRef, Observed]:
    ref, observed = a_pod(name, of)
    observed.template = workloads.pod_template(with_scratch(pod({"cpu": "1"})["spec"]))
    return ref, observed


def test_a_claim_of_an_ephemeral_volume_counts_with_its_pod_whatever_is_seen_first():
    for order in permutations([scratch_set(2), scratch_pod("web-1-0"), claim("web-1-0-tmp"), claim("web-1-0-other")]):
        ask = asker()
        see(ask, *order)
        assert (books(ask, key=STORAGE), books(ask, key="persistentvolumeclaims")) == ((15, 0), (3, 0))


@pytest.mark.parametrize("of", [WEB_SET, None], ids=["of-a-set", "bare"])
def test_a_claim_of_an_ephemeral_volume_outlives_its_pod_until_it_is_collected(of: OwnerRef | None):
    ask = asker()
    see(ask, scratch_pod("web-1-0", of), scratch_pod("web-1-1", of), claim("web-1-0-tmp"))
    assert (books(ask, key=STORAGE), books(ask)) == ((10, 0), (2, 0))
    see(ask, (scratch_pod("web-1-0")[0], None))
    assert (books(ask, key=STORAGE), books(ask)) == ((10, 0), (1, 0))
    see(ask, (scratch_pod("web-1-1")[0], None))
    assert books(ask, key=STORAGE) == (5, 0)
    see(ask, (claim("web-1-0-tmp")[0], None))
    assert (books(ask, key=STORAGE), len(ask.gate.ledger)) == ((0, 0), 0)


def test_a_claim_of_an_ephemeral_volume_follows_its_pod_into_other_hands():
    ask = asker(scratch_set(1))
    see(ask, scratch_pod("web-1-0"), claim("web-1-0-tmp", "6"))
    assert books(ask, key=STORAGE) == (6, 0)
    see(ask, scratch_pod("web-1-0", None))
    assert books(ask, key=STORAGE) == (11, 0)
    see(ask, scratch_pod("web-1-0"))
    assert books(ask, key=STORAGE) == (6, 0)


def test_claims_that_a_stateful_set_is_granted_hide_none_of_what_its_pods_claim():
    ask = asker(db(2))
    stray = scratch_pod("db-0", owner("db", "StatefulSet"))
    stray[1].labels = "app=db"
    see(ask, *claims(0, 1), stray)
    assert (books(ask, key=STORAGE), books(ask)) == ((15, 0), (2, 0))


# Custom resources with a scale subresource.


def rollout(replicas: int, selector: str | None = "app=web", cpu: str = "1") -> tuple[WorkloadRef, Observed]:
    observed = workloads.observe(workload("shop", replicas, {"cpu": cpu}))[1]
    observed.selector = selector
    return WorkloadRef("example.com", "rollouts", "team-a", "shop"), observed


def of_rollout() -> list[dict[str, Any]]:
    return [{**owned_by("shop", kind="Rollout")[0], "apiVersion": "example.com/v1"}]


def test_a_custom_resource_covers_what_it_makes_once_its_kind_is_known():
    made = revision("web-1", 2, ownerReferences=of_rollout())
    ask = asker()
    see(ask, made, rollout(2))
    assert books(ask) == (4, 0)
    for _ in range(2):
        ask.gate.observe_kind(*ROLLOUTS)
        assert books(ask) == (2, 0)
    see(ask, *pods(3, owner("web-1")))
    assert books(ask) == (3, 0)


@pytest.mark.parametrize("charge_surge", [False, True])
@pytest.mark.parametrize("children", [0, 1])
def test_a_custom_resource_without_a_template_at_zero_costs_nothing_and_more_is_unknown(
    charge_surge: bool, children: int
):
    made = [revision("web-1", 0, ownerReferences=of_rollout())] * children
    ask = Asker(gate([quota("acme", {"requests.cpu": "10"})], policy=Policy(window_s=90.0, charge_surge=charge_surge)))
    ask.gate.observe_kind(*ROLLOUTS)
    see(ask, *made)
    shop = WorkloadRef(*ROLLOUTS[::2], "team-a", "shop")
    ask.gate.observe(shop, Observed(0, None, "app=web", uid="uid-shop", selector="app=web"))
    up = patch("/apis/example.com/v1/namespaces/team-a/rollouts/shop/scale", {"spec": {"replicas": 1}})
    assert ask.gate.ledger.usage.accounts.covered_by(ask.gate.ledger.coverage.tree.nodes[0])[1] == 0
    assert ask(up).reason == "unknown-footprint"
    assert books(ask) == (0, 0)


def test_a_custom_resource_covers_pods_of_its_own_up_to_its_count():
    ask = asker()
    ask.gate.observe_kind(*ROLLOUTS)
    see(ask, *pods(3, owner("shop", "Rollout", "example.com")), rollout(2))
    assert books(ask) == (3, 0)
    see(ask, revision("web-1", 1, ownerReferences=of_rollout()))
    assert books(ask) == (4, 0), "its pods and its ReplicaSet add up"


@pytest.mark.parametrize(
    ("selector", "labels", "used"),
    [
        pytest.param("app=web", {"app": "web"}, 2, id="selected"),
        pytest.param("app=web-1", {"name": "x"}, 2, id="its-pods-are-selected"),
        pytest.param("app=other", {"app": "web"}, 4, id="not-selected"),
        pytest.param(None, {"app": "web"}, 4, id="no-selector"),
    ],
)
def test_a_custom_resource_covers_only_what_it_selects(selector: str | None, labels: dict[str, str], used: int):
    ask = asker()
    ask.gate.observe_kind(*ROLLOUTS)
    see(ask, workload("web-1", 2, labels=labels, ownerReferences=of_rollout()), rollout(2, selector))
    assert books(ask) == (used, 0)


def test_templates_of_what_a_custom_resource_makes_are_not_those_of_its_own_replicas():
    ask = asker()
    ask.gate.observe_kind(*ROLLOUTS)
    manager = workload("manager", 1, {"cpu": "4"}, labels={"app": "web"}, ownerReferences=of_rollout())
    see(ask, rollout(3), manager)
    assert books(ask) == (4, 0), "the larger of 3 × 1 and 1 × 4"


def test_a_deployment_that_may_leave_its_custom_resource_is_charged_beside_it():
    ask = asker()
    ask.gate.observe_kind(*ROLLOUTS)
    made = workload("web", 2, labels={"app": "web"}, ownerReferences=of_rollout())
    see(ask, rollout(2), made, revision("web-1", 2), *pods(2, WEB_SET))
    freed = ask(patch(path("web"), {"metadata": {"ownerReferences": []}}))
    assert (freed.verdict, books(ask)) == (Verdict.ALLOW, (2, 2))
    ask.gate.ledger.pending.settle(freed.pending_write, Event.REFUSED, 1.0)
    grown = ask(scale("web", 5))
    assert (grown.verdict, books(ask)) == (Verdict.ALLOW, (2, 3)), "what it has above its owner"
    assert ask(scale("web-1", 12, resource="replicasets")).verdict is Verdict.DENY


def test_limits_of_a_namespace_price_claims_and_pods_of_a_family_anew():
    ask = asker(workload("web", 1, {}), revision("web-1", 1, requests={}))
    see(ask, *pods(1, WEB_SET))
    ask.gate.observe_limit_ranges("team-a", [LimitRangeDefaults(requests=(("cpu", 2 * NANO),))])
    assert books(ask) == (2, 0)


# What a Deployment takes up.

MADE = {"app": "web", "pod-template-hash": "1"}


def left(replicas: int, cpu: str, **more: Any) -> dict[str, Any]:
    """A ReplicaSet that a Deployment has made and left, as by ``--cascade=orphan``."""
    return revision("web-1", replicas, **({"labels": MADE, "ownerReferences": [], "requests": {"cpu": cpu}} | more))


@pytest.mark.parametrize(
    "there",
    [left(1, "4"), left(1, "4", ownerReferences=owned_by("web", "of-the-one-before"))],
    ids=["left", "of one that has gone"],
)
def test_a_deployment_may_bring_a_dearer_replica_set_that_it_takes_up_to_its_own_count(there: dict[str, Any]):
    """Its controller takes that for a change of the count, which comes before a rollout."""
    ask = asker(there, hard={"requests.cpu": "12"})
    assert ask(create(web(3))).verdict is Verdict.DENY, "4 + 3·4 CPU"
    made = ask(create(web(2)))
    assert (made.verdict, books(ask)) == (Verdict.ALLOW, (4, 8))
    see(ask, web(2))
    assert books(ask) == (12, 0), "nobody has taken it up yet"
    see(ask, revision("web-1", 2, labels=MADE, requests={"cpu": "4"}))
    assert books(ask) == (8, 0)
    see(ask, revision("web-1", 0, labels=MADE, requests={"cpu": "4"}))
    assert books(ask) == (2, 0)
    assert not ask.gate.ledger.drift()


@pytest.mark.parametrize(
    "there",
    [
        left(2, "1"),
        left(0, "4"),
        left(1, "4", labels={"app": "web"}),
        left(1, "4", labels={**MADE, "app": "other"}),
        left(1, "4", ownerReferences=owned_by("other")),
        left(1, "4", labels={"app": "web"}, ownerReferences=owned_by("web", "of-the-one-before")),
    ],
    ids=["as dear", "no pods", "made by no Deployment", "not selected", "another's", "named by hand"],
)
def test_a_replica_set_that_it_does_not_take_up_or_that_is_no_dearer_costs_by_itself_alone(there: dict[str, Any]):
    ask = asker(there)
    used, _ = books(ask)
    assert ask(create(web(2))).verdict is Verdict.ALLOW
    assert books(ask) == (used, 2)


def test_pods_of_a_replica_set_that_it_takes_up_cost_what_they_hold():
    """As in worlds with pods, seed 261142468: it counts in a quota in which what was left did not."""
    there, held = left(1, "1"), a_pod("web-1-a", owner("web-1"), cpu=3)
    acme, tier = {"workspace": "acme"}, {"tier": "gold"}
    gold = quota("gold", {"requests.cpu": "5"}, parent="acme", namespaces=acme, workloads=tier)
    ask = Asker(gate([quota("acme", KEYS), gold], there))
    see(ask, held)
    gold_web = web(2, labels={"app": "web", **tier})
    assert ask(create(gold_web)).verdict is Verdict.DENY, "its controller keeps the pod of 3"
    assert ask(create(web(2))).verdict is Verdict.ALLOW, "of no tier"
    see(ask, gold_web)
    assert books(ask, "gold") == (6, 0)
    see(ask, a_pod("web-1-a", owner("web-1"), cpu=2))
    assert books(ask, "gold") == (4, 0)
    see(ask, revision("web-1", 1, labels=MADE), revision("web-1", 2, labels=MADE))
    assert books(ask, "gold") == (3, 0)
    see(ask, (held[0], None))
    assert books(ask, "gold") == (2, 0)
    assert not ask.gate.ledger.drift()


@pytest.mark.parametrize("change", [None, "of another"])
def test_what_it_may_not_take_up_any_more_costs_it_nothing(change: str | None):
    """One of the Deployment of its name that has gone: the garbage collector deletes it, or somebody gives it away."""
    of_the_one_before = left(3, "5", ownerReferences=owned_by("web", "of-the-one-before"))
    ask = asker(of_the_one_before, web(4), hard={"requests.cpu": "40"})
    assert books(ask) == (35, 0)
    given_away = left(3, "5", ownerReferences=owned_by("other"), version="9")
    ref, _ = workloads.observe(of_the_one_before)
    see(ask, (ref, None) if change is None else given_away)
    assert books(ask) == (4 + (15 if change else 0), 0)


@pytest.mark.parametrize("change", [None, left(0, "4"), left(1, "4", labels={"app": "other"})])
def test_one_that_is_left_counts_with_a_deployment_that_is_there_until_it_has_gone(change: dict[str, Any] | None):
    ask = asker(web(2), workload("other", 0))
    assert ask(create(workload("new", 0))).pending_write
    see(ask, left(1, "4"))
    assert books(ask) == (12, 0)
    assert ask(scale("web", 1)).pending_write
    ref, _ = workloads.observe(left(1, "4"))
    see(ask, (ref, None) if change is None else change)
    assert books(ask)[0] == 2 + (4 if change and change["spec"]["replicas"] else 0)
    assert not ask.gate.ledger.ownership._orphans or change is not None
    assert not ask.gate.ledger.drift()
