"""Over is over: while a quota is above its limit no write raises a workload above what is observed of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission
from extauthz.core.ledger.pod_costs import PodCosts
from extauthz.core.model import Request, Unknown, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, patch, path, pod, quota, review, scale, workload
from tests.unit.asking import asker, books

NANO = 10**9
CPU = "requests.cpu"


def cut(ask: Asker, hard: str, **more: str) -> None:
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {CPU: hard, **more})]), 0.0)


def template(cpu: str) -> Request:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return patch(path("web"), {"spec": {"template": {"spec": {"containers": containers}}}}, "strategic")


def put(replicas: int, cpu: str) -> Request:
    obj = workload("web", replicas, {"cpu": cpu})
    del obj["metadata"]["resourceVersion"], obj["metadata"]["uid"]
    return Request("PUT", path("web"), {"content-type": "application/json"}, json.dumps(obj).encode())


def test_an_open_grant_is_no_licence_to_grow_back_after_a_cut():
    ask = asker(workload("web", 2))
    assert ask(scale("web", 8)).verdict is Verdict.ALLOW
    cut(ask, "5")
    denied = ask(scale("web", 8))
    assert (denied.verdict, denied.reason, denied.evidence.fits) == (Verdict.DENY, "exceeded-quota", 2)
    assert denied.sentence == (
        'deployments.apps "web" is forbidden: exceeded workspace quota: acme, requested: requests.cpu=6, '
        "used: requests.cpu=2, reserved: requests.cpu=6, limited: requests.cpu=5; largest allowed replicas: 2"
    )
    assert ask(scale("web", 3)).verdict is Verdict.DENY, "within the old grant, and above what is observed"
    assert [ask(scale("web", count)).verdict for count in (2, 1)] == [Verdict.ALLOW] * 2
    assert ask(scale("web", 12)).evidence.shortages[0].requested == 4 * NANO, (
        "above the old grant it is the growth of that"
    )


@pytest.mark.parametrize(
    ("count", "in_the_way"), [(2, "no-count"), (4, "exceeded-quota")], ids=["its own count", "a higher count"]
)
def test_above_the_limit_a_manifest_with_another_image_passes_with_the_count_that_the_object_has(count, in_the_way):
    ask = asker(workload("web", 2))
    cut(ask, "1")
    old = workload("web", 2)
    new = json.loads(json.dumps(workload("web", count)))
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "mended"
    asked = admission.read(json.dumps(review(WEB, new, old, "")).encode())
    decision = ask.gate.decide(asked.question.reading, "d", 0.0)
    assert decision.reason == in_the_way
    assert (decision.verdict is Verdict.ALLOW) == (count == 2)


def test_within_the_limit_an_open_grant_is_grown_within():
    ask = asker(workload("web", 2))
    assert ask(scale("web", 8)).verdict is Verdict.ALLOW
    assert ask(scale("web", 5)).reason == "fits"
    cut(ask, "8")
    assert ask(scale("web", 8)).reason == "fits", "used and reserved are at the limit, and not over it"


def test_templates_and_whole_objects_are_measured_from_what_is_observed():
    ask = asker(workload("web", 2))
    assert ask(put(4, "2")).verdict is Verdict.ALLOW
    cut(ask, "6")
    assert ask(scale("web", 3)).verdict is Verdict.DENY
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW, (
        "no more than is observed, though the pending template is dear"
    )
    assert ask(put(2, "1")).verdict is Verdict.ALLOW


def test_a_pending_template_is_not_what_a_count_is_blamed_for():
    ask = asker(workload("web", 3))
    assert ask(template("3")).verdict is Verdict.ALLOW
    cut(ask, "5")
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW
    denied = ask(scale("web", 4))
    assert (denied.verdict, denied.evidence.fits) == (Verdict.DENY, 3)
    assert ask(scale("web", denied.evidence.fits)).verdict is Verdict.ALLOW


def test_a_count_does_not_multiply_a_dear_template_that_pends_with_a_smaller_count():
    ask = asker(workload("web", 6))
    assert ask(put(2, "2")).verdict is Verdict.ALLOW
    cut(ask, "4")
    denied = ask(scale("web", 6))
    assert (denied.verdict, denied.reason) == (Verdict.DENY, "exceeded-quota"), "2 at 2 CPUs may land before it"
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW, "6 CPUs, as are observed"
    cut(ask, "12")
    assert ask(scale("web", 6)).verdict is Verdict.ALLOW


def test_nor_where_a_replica_set_of_that_template_is_seen_before_its_deployment():
    """Its cost meets the old count then, which nobody has granted: no licence for a count in between."""
    ask = asker(workload("web", 4), revision("web-0", 4))
    assert ask(put(2, "4")).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(revision("web-0", 0, version="2")))
    ask.gate.observe(*observe(revision("web-1", 1, cpu="4")))
    assert books(ask)[0] > 10
    assert ask(scale("web", 3)).verdict is Verdict.DENY, "12 CPUs, if it lands after 2 at 4 CPUs"
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW


def test_nor_is_it_one_for_what_another_replica_set_still_runs():
    """The dearer pods of the one before may be multiplied too."""
    gpu = "requests.nvidia.com/gpu"
    before = revision("web-1", 1)
    before["spec"]["template"] = pod({"cpu": "1", "nvidia.com/gpu": "1"})
    ask = asker(workload("web", 2), before, **{gpu: "9"})
    assert ask(put(4, "2")).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(revision("web-0", 0, cpu="2")))
    cut(ask, "99", **{gpu: "1"})
    assert ask(scale("web", 3)).verdict is Verdict.DENY
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW


def test_an_object_that_is_made_anew_gives_a_count_that_pends_its_object_back():
    made = workload("web", 4)
    ask = asker(made)
    assert ask(scale("web", 5)).verdict is Verdict.ALLOW
    cut(ask, "3")
    again = workload("web", 4)
    del again["metadata"]["resourceVersion"], again["metadata"]["uid"]
    denied = ask(create(again))
    assert (denied.verdict, denied.reason) == (Verdict.DENY, "exceeded-quota"), "it was deleted, and 5 may land on it"
    ask.gate.observe(*observe(made)[:1], None, version="9")
    assert ask(create(again)).verdict is Verdict.DENY
    cut(ask, "5")
    assert ask(create(again)).verdict is Verdict.ALLOW


def test_a_count_of_what_is_not_there_yet_makes_no_object_where_there_are_too_many():
    """It lands only once the create has."""
    objects = "count/deployments.apps"
    ask = asker(workload("web", 1), **{objects: "2"})
    assert ask(create(workload("api", 2))).verdict is Verdict.ALLOW
    cut(ask, "10", **{objects: "1"})
    denied = ask(scale("api", 1))
    assert (denied.verdict, [row.resource for row in denied.evidence.shortages]) == (Verdict.DENY, [objects])
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW


def test_only_keys_that_the_write_grows_are_looked_at():
    made = workload("web", 2, {"cpu": "1", "memory": "1Gi"})
    ask = asker(made, hard="10", **{"requests.memory": "10Gi"})
    assert ask(scale("web", 8)).verdict is Verdict.ALLOW
    cut(ask, "10", **{"requests.memory": "5Gi"})
    denied = ask(scale("web", 4))
    assert [short.resource for short in denied.evidence.shortages] == ["requests.memory"]
    ask = asker(made, hard="99", **{"requests.memory": "1Gi"})
    assert (
        ask(
            patch(
                path("web"),
                {
                    "spec": {
                        "template": {
                            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
                        }
                    }
                },
                "strategic",
            )
        ).verdict
        is Verdict.ALLOW
    )


def test_growth_within_a_grant_meets_the_doubts_of_growth():
    ask = asker(workload("web", 2))
    assert ask(scale("web", 8)).verdict is Verdict.ALLOW
    ask.gate.hold(90.0)
    assert ask(scale("web", 8)).reason == "hold"
    ask.gate.release()
    ask.gate.stale("silent")
    assert ask(scale("web", 3)).reason == "stale"
    assert ask(scale("web", 2)).reason == "no-growth"


def test_a_workload_of_unknown_cost_grows_above_what_is_observed():
    ask = asker(workload("web", 1), policy=Policy(allows={Unknown.FOOTPRINT}))
    ref, observed = observe(workload("odd", 1))
    observed.template = None
    ask.gate.observe(ref, observed)
    assert ask(scale("odd", 5)).reason == "unknown-footprint"
    ask.gate.policy = Policy()
    assert ask(scale("odd", 3)).verdict is Verdict.UNAVAILABLE
    assert ask(scale("odd", 1)).verdict is Verdict.ALLOW


def test_a_label_that_moves_a_workload_is_growth_there_though_an_earlier_move_is_open():
    quotas = [
        quota("acme", {CPU: "10"}, namespaces={}, workloads={"tier": "a"}),
        quota("small", {CPU: "5"}, namespaces={}, workloads={"tier": "b"}),
    ]
    ask = Asker(gate(quotas, workload("web", 4, labels={"tier": "a"})))
    assert ask(patch(path("web"), {"metadata": {"labels": {"tier": "b"}}})).verdict is Verdict.ALLOW
    ask.gate.load_quotas(
        QuotaTree.build([quotas[0], quota("small", {CPU: "3"}, namespaces={}, workloads={"tier": "b"})]), 0.0
    )
    assert ask(scale("web", 5)).verdict is Verdict.DENY
    assert ask(scale("web", 4)).verdict is Verdict.DENY, "nothing of it is observed there, and it may land there"
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW


def revision(name: str, replicas: int, cpu: str = "1", version: str = "1") -> dict:
    owner = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    return workload(name, replicas, {"cpu": cpu}, kind="ReplicaSet", version=version, **owner)


def test_what_pends_on_others_of_the_family_stays_as_it_is():
    ask = asker(workload("web", 4), revision("web-0", 0), revision("web-1", 0))
    assert ask(scale("web-0", 6, resource="replicasets")).verdict is Verdict.ALLOW
    assert ask(scale("web-1", 3, resource="replicasets")).verdict is Verdict.ALLOW
    before = books(ask)
    cut(ask, "5")
    assert ask(scale("web-1", 3, resource="replicasets")).verdict is Verdict.DENY
    assert ask(scale("web-1", 0, resource="replicasets")).verdict is Verdict.ALLOW
    assert books(ask) == before


def test_in_audit_what_would_be_refused_is_told_and_only_of_what_grows():
    ask = Asker(gate([quota("acme", {CPU: "4"}, mode="Audit")], workload("web", 2)))
    assert ask(scale("web", 8)).evidence.audit
    assert ask(scale("web", 3)).evidence.audit
    assert not ask(scale("web", 2)).evidence.audit


# A question changes nothing, whatever goes wrong within it.


class BrokenError(Exception):
    pass


def everything(ask: Asker) -> object:
    ledger = ask.gate.ledger
    return (
        list(ask.gate.usage()),
        ledger.drift(),
        len(ledger),
        [
            (ref, pending_write.id, pending_write.templates, pending_write.labels)
            for ref, pending_write in ledger.pending
        ],
    )


def questions() -> Iterator[Request]:
    yield scale("web", 9)
    yield scale("web", 99)
    yield template("2")
    yield scale("web-0", 9, resource="replicasets")
    yield create(workload("new", 2))
    yield create(revision("web-9", 7))
    yield put(9, "1")


@pytest.mark.parametrize("number", range(7))
def test_a_question_that_breaks_anywhere_has_changed_nothing(number: int, monkeypatch: pytest.MonkeyPatch):
    ask = asker(workload("web", 2), revision("web-0", 1), hard="20")
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW
    assert ask(scale("web-0", 4, resource="replicasets")).verdict is Verdict.ALLOW
    request = list(questions())[number]
    before, decided = everything(ask), ask(request, charge=False)
    whole, left = PodCosts.per_pod, [0]

    def breaks(self: PodCosts, namespace: str, template: object) -> object:
        left[0] -= 1
        if not left[0]:
            raise BrokenError
        return whole(self, namespace, template)  # type: ignore[arg-type]

    broken = 0
    for step in range(1, 500):
        left[0] = step
        with monkeypatch.context() as patched:
            patched.setattr(PodCosts, "per_pod", breaks)
            try:
                ask(request, charge=False)
            except BrokenError:
                broken += 1
        assert everything(ask) == before
        assert ask(request, charge=False)._replace(id="") == decided._replace(id="")
        if left[0] > 0:
            break
    assert left[0] > 0
    assert broken == step - 1


WEB = WorkloadRef("apps", "deployments", "team-a", "web")
