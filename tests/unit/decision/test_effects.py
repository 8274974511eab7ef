"""What a patch or a server-side apply leaves depends on what it finds: it is charged for all of that, or refused."""

from __future__ import annotations

import json

import pytest

from extauthz.core.ledger.pending_write import Event
from extauthz.core.model import Decision, Request, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.spec import WorkspaceQuota, parse
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing.builders import Asker, gate, owned_by, patch, path, pod, quota, scale, workload

NANO = 10**9
CPU = "/spec/template/spec/containers/0/resources/requests/cpu"


def asker(*objects: dict, hard: str = "30") -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": hard})], *objects))


def see(ask: Asker, obj: dict) -> None:
    assert ask.gate.observe(*observe(obj))


def books(ask: Asker) -> dict[str, tuple[int, int]]:
    assert ask.gate.ledger.drift() == {}
    return {row.quota: (row.used // NANO, row.reserved // NANO) for row in ask.gate.usage()}


def land(ask: Asker, allowed: Decision, obj: dict) -> None:
    """The write has landed, was answered, and a read has shown it."""
    see(ask, obj)
    ref = ask.gate.ledger.pending.settle(str(allowed.pending_write), Event.ANSWERED_OK, ask.now_s)
    assert ref is not None
    ask.now_s += 1
    assert ask.gate.ledger.pending.read(ref, ask.now_s) == 1


@pytest.mark.parametrize("source", ["/spec/replicas", "/metadata/resourceVersion"])
def test_a_template_is_not_copied_from_what_others_change_while_the_patch_is_under_way(source: str):
    """A scale would land first, and each pod would ask for as many CPUs as there are pods."""
    ask = asker(workload("web", 2))
    refused = ask(patch(path("web"), [{"op": "copy", "from": source, "path": CPU}], "json"))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "patch-from-unseen-field")
    assert "send the value itself, or the whole object by PUT" in refused.sentence
    assert "resources.requests[cpu]: is copied from" in refused.sentence


def test_a_patch_that_says_to_keep_the_count_meets_whatever_count_has_landed_before_it():
    ask = asker(workload("web", 1), hard="50")
    cpu = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "4"}}}]}
    kept = {"$retainKeys": ["replicas", "selector", "template"], "template": {"spec": cpu}}
    assert ask(patch(path("web"), {"spec": kept}, "strategic")).verdict is Verdict.ALLOW
    counted = ask(scale("web", 10))
    assert books(ask) == {"acme": (1, 39)}
    land(ask, counted, workload("web", 10, version="2"))
    assert books(ask) == {"acme": (10, 30)}, "the patch is still under way"


def test_a_count_is_not_copied_onto_itself():
    ask = asker(workload("web", 1))
    body = [{"op": "copy", "from": "/spec/replicas", "path": "/spec/replicas"}]
    assert ask(patch(path("web"), body, "json")).reason == "patch-from-unseen-field"


def test_a_count_that_is_copied_from_the_template_is_worked_out_anew_if_somebody_changes_the_template():
    made = workload("web", 2, kind="StatefulSet")
    made["spec"]["ordinals"] = {"start": 3}
    ask = asker(made)
    copied = [{"op": "copy", "from": "/spec/ordinals/start", "path": "/spec/replicas"}]
    assert ask(patch(path("web", resource="statefulsets"), copied, "json")).verdict is Verdict.ALLOW
    assert books(ask) == {"acme": (2, 1)}
    for version, start in (("2", 9), ("3", 1)):  # it may have landed on either
        made["spec"]["ordinals"] = {"start": start}
        made["metadata"]["resourceVersion"] = version
        see(ask, made)
        assert books(ask) == {"acme": (2, 7)}


def test_a_count_that_is_moved_within_the_object_meets_the_template_that_somebody_puts_there():
    ask = asker(workload("web", 1))
    moved = [
        {"op": "add", "path": "/spec/detour", "value": 5},
        {"op": "move", "from": "/spec/detour", "path": "/spec/replicas"},
    ]
    assert ask(patch(path("web"), moved, "json")).verdict is Verdict.ALLOW
    assert books(ask) == {"acme": (1, 4)}
    see(ask, workload("web", 1, {"cpu": "4"}, version="2"))
    assert books(ask) == {"acme": (4, 16)}


# Server-side apply.


def applied(cpu: str = "1", *, resource: str = "deployments", spec: dict | None = None, **metadata: object) -> Request:
    kind = {"deployments": "Deployment", "replicasets": "ReplicaSet"}[resource]
    given = {"name": "web", "namespace": "team-a"} | metadata
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": pod({"cpu": cpu})} | (spec or {})
    configuration = {"apiVersion": "apps/v1", "kind": kind, "metadata": given, "spec": spec}
    return patch(f"{path('web', resource=resource)}?fieldManager=x", configuration, "apply")


@pytest.mark.parametrize("is_covered", [True, False])
@pytest.mark.parametrize("of_another_gate", [False, True])
def test_an_apply_without_a_count_may_find_an_object_that_nobody_has_seen(is_covered: bool, of_another_gate: bool):
    """Taken for a create of one replica, it would meet 40."""
    quotas = [quota("acme", {"requests.cpu": "100"})]
    ask = Asker(gate(quotas if is_covered else [], namespaces={"team-a": {"workspace": "acme"}}))
    assert ask(applied("2")).verdict is Verdict.ALLOW
    if of_another_gate:
        records = ask.gate.export_pending_writes(0.0)
        ask = Asker(gate(quotas if is_covered else [], namespaces={"team-a": {"workspace": "acme"}}), "b")
        ask.gate.import_pending_writes(records, 0.0)
    see(ask, workload("web", 40))
    ask.gate.load_quotas(QuotaTree.build(quotas), 1.0)
    assert books(ask) == {"acme": (40, 40)}


def test_an_apply_without_a_count_holds_no_count_that_it_has_found():
    ask = asker(workload("web", 1))
    assert ask(applied("2")).verdict is Verdict.ALLOW
    see(ask, workload("web", 10, version="2"))
    assert books(ask) == {"acme": (10, 10)}
    see(ask, workload("web", 3, version="3"))
    assert books(ask) == {"acme": (3, 3)}


def test_an_apply_that_finds_an_object_may_take_it_from_its_controller():
    ask = asker(hard="99")
    assert ask(applied(resource="replicasets", labels={"app": "web"})).verdict is Verdict.ALLOW
    ((_, pending_write),) = ask.gate.ledger.pending
    assert not pending_write.frees
    see(ask, workload("web", 5, kind="ReplicaSet", ownerReferences=owned_by("boss")))
    assert pending_write.frees


def test_an_apply_without_a_controller_may_take_a_replica_set_from_its_deployment():
    """The Deployment then makes another one in its place."""
    child = workload("web", 5, kind="ReplicaSet", labels={"app": "boss"}, ownerReferences=owned_by("boss"))
    ask = asker(workload("boss", 5), child, hard="8")
    assert books(ask) == {"acme": (5, 0)}
    refused = ask(applied(resource="replicasets", labels={"app": "boss"}))
    assert (refused.verdict, refused.reason) == (Verdict.DENY, "exceeded-quota")
    owners = owned_by("boss")
    assert ask(applied(resource="replicasets", labels={"app": "boss"}, ownerReferences=owners)).reason == "no-growth"


def picky(hard: str = "5") -> WorkspaceQuota:
    absent = [{"key": key, "operator": "DoesNotExist"} for key in ("trial", "exempt")]
    selector = {"matchLabels": {"team": "a", "tier": "gold"}, "matchExpressions": absent}
    spec = {
        "hard": {"requests.cpu": hard},
        "namespaceSelector": {"matchLabels": {"workspace": "acme"}},
        "workloadSelector": selector,
    }
    return parse(
        {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "picky"}, "spec": spec}
    )


LABELS = {"team": "a", "tier": "gold", "trial": "1", "exempt": "1"}


def test_an_apply_that_leaves_out_many_labels_counts_in_every_quota_that_may_select_what_stays():
    """Its manager may own two of the labels, and leave the two that the quota selects."""
    ask = Asker(gate([picky()], workload("web", 10, labels=LABELS)))
    refused = ask(applied())
    assert (refused.verdict, refused.reason) == (Verdict.DENY, "exceeded-quota")
    assert ask(applied(labels=LABELS)).verdict is Verdict.ALLOW


def test_the_webhook_knows_what_came_of_an_apply_that_left_out_many_labels():
    ask = Asker(gate([picky("10")], workload("web", 10, labels=LABELS)))
    assert ask(applied()).verdict is Verdict.ALLOW
    assert books(ask) == {"picky": (0, 10)}
    left = workload("web", 10, labels={"team": "a", "tier": "gold", "trial": "1"})
    del left["metadata"]["resourceVersion"], left["metadata"]["uid"]
    whole = Request("PUT", path("web"), {"content-type": "application/json"}, json.dumps(left).encode())
    assert ask(whole).verdict is Verdict.ALLOW, "it is the same write"
    assert books(ask) == {"picky": (0, 10)}
