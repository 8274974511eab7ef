"""One change of a workload's template, labels or owner is under way at a time; counts go on beside it."""

from __future__ import annotations

import json

import pytest

from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.pending_write import Event
from extauthz.core.model import Request, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.testing.builders import (
    Asker,
    create,
    gate,
    owned_by,
    patch,
    path,
    quota,
    scale,
    snapshot,
    workload,
)

NANO = 10**9
UNDER_WAY = (Verdict.UNAVAILABLE, "change-under-way")


def asker(*objects: dict, hard: str = "10", policy: Policy | None = None) -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": hard})], *objects, policy=policy))


def containers(**cpus: str) -> list[dict]:
    return [{"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}} for name, cpu in cpus.items()]


def web(replicas: int = 1, version: str = "1", **cpus: str) -> dict:
    made = workload("web", replicas, version=version)
    if cpus:
        made["spec"]["template"]["spec"]["containers"] = containers(**cpus)
    return made


def set_container(**cpus: str) -> Request:
    return patch(path("web"), {"spec": {"template": {"spec": {"containers": containers(**cpus)}}}}, "strategic")


def label(**labels: str) -> Request:
    return patch(path("web"), {"metadata": {"labels": labels}})


def put(obj: dict, *, bound: bool = False) -> Request:
    if not bound:
        del obj["metadata"]["resourceVersion"], obj["metadata"]["uid"]
    return Request("PUT", path("web"), {"content-type": "application/json"}, json.dumps(obj).encode())


def books(ask: Asker) -> tuple[int, int]:
    assert ask.gate.ledger.drift() == {}
    row = next(iter(ask.gate.usage()))
    return row.used // NANO, row.reserved // NANO


def asked(ask: Asker, request: Request) -> tuple[Verdict, str]:
    decision = ask(request)
    return decision.verdict, decision.reason


def test_what_can_land_only_on_what_is_observed_and_grows_nothing_waits_for_nothing():
    ask = asker(web(3, main="1"))
    assert asked(ask, set_container(main="2"))[0] is Verdict.ALLOW
    assert asked(ask, label(app="web")) == UNDER_WAY
    bound = patch(path("web"), {"metadata": {"labels": {"app": "web"}, "resourceVersion": "1"}})
    assert ask(bound).verdict is Verdict.ALLOW


def test_another_change_waits_for_the_one_under_way_and_is_told_for_how_long():
    ask = asker(web())
    assert ask(set_container(main="2")).reason == "fits"
    ask.now_s = 30.5
    refused = ask(label(x="y"))
    assert (refused.verdict, refused.reason, refused.pending_write) == (*UNDER_WAY, None)
    assert refused.sentence == (
        'deployments.apps "web" was not decided: another change of it is under way and may still land; '
        "try again in about 60 s at the latest"
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda: set_container(main="2"), id="the-same-again"),
        pytest.param(lambda: put(web(main="3")), id="put"),
        pytest.param(lambda: put(web(main="3"), bound=True), id="put-on-what-is-observed"),
        pytest.param(lambda: label(x="y"), id="labels"),
        pytest.param(lambda: patch(path("web"), {"metadata": {"ownerReferences": []}}), id="owner"),
        pytest.param(lambda: create(web()), id="create"),
        pytest.param(lambda: set_container(main="1"), id="patch-that-changes-nothing-observed-but-the-pending-result"),
    ],
)
def test_whatever_changes_more_than_the_count_is_a_change(change: object):
    ask = asker(web())
    assert ask(set_container(main="2")).verdict is Verdict.ALLOW
    assert asked(ask, change()) == UNDER_WAY  # type: ignore[operator]


def test_counts_and_zeros_and_what_leaves_all_as_it_is_pass_beside_a_change():
    ask = asker(web(2, version="7"))
    assert ask(label(x="y")).verdict is Verdict.ALLOW
    assert ask(scale("web", 5)).reason == "fits"
    assert ask(patch(path("web"), {"spec": {"replicas": 6}}, "strategic")).reason == "fits"
    none = ask(patch(path("web"), {"spec": {"replicas": 0}}))
    assert (none.reason, none.replicas) == ("zero", 0)
    assert ask(put(web(2))).reason == "no-growth"
    assert ask(put(web(2, version="7"), bound=True)).reason == "no-growth"
    assert ask(patch(path("web"), {"metadata": {"annotations": {"x": "y"}}})).reason == "no-growth"


def test_a_change_waits_for_a_patch_that_changes_nothing_as_yet():
    """It copies what it finds, and would copy what the change leaves."""
    ask = asker(web(1, a="1", b="1"), hard="8")
    chain = [
        {
            "op": "copy",
            "from": "/spec/template/spec/containers/0/resources",
            "path": "/spec/template/spec/containers/1/resources",
        }
    ]
    assert ask(patch(path("web"), chain, "json")).reason == "no-growth"
    assert asked(ask, set_container(a="5")) == UNDER_WAY


def test_patches_that_change_nothing_do_not_wait_for_each_other():
    ask = asker(web(1))
    assert [ask(set_container(main="1")).verdict for _ in range(3)] == [Verdict.ALLOW] * 3


def test_a_patch_that_changes_nothing_waits_though_only_one_of_several_changes_something():
    """The whole object has what the first patch leaves, and so goes beside it."""
    ask = asker(web())
    assert asked(ask, label(app="web"))[0] is Verdict.ALLOW
    assert asked(ask, put(web(a="2")))[0] is Verdict.ALLOW
    assert (
        asked(ask, patch(path("web"), {"spec": {"replicas": 1}, "metadata": {"labels": {"app": "web"}}})) == UNDER_WAY
    )


def test_after_its_end_the_next_change_goes():
    ask = asker(web())
    first = ask(set_container(main="2"))
    assert asked(ask, label(x="y")) == UNDER_WAY
    ask.gate.ledger.pending.settle(first.pending_write, Event.ANSWERED_OK, 1.0)
    assert asked(ask, label(x="y")) == UNDER_WAY, "it has landed, but is not read yet"
    ask.gate.load_state(snapshot(web(1, version="2", main="2")), 2.0)
    ask.gate.ledger.pending.read(observe(web())[0], 2.0)
    assert ask(label(x="y")).verdict is Verdict.ALLOW


def test_questions_meet_the_same_rule_and_start_no_change():
    ask = asker(web())
    assert ask(set_container(main="2"), charge=False).verdict is Verdict.ALLOW
    assert ask(label(x="y")).verdict is Verdict.ALLOW
    assert ask(set_container(main="2"), charge=False).reason == "change-under-way"


def test_where_no_quota_may_cover_nothing_is_refused():
    ask = Asker(gate([quota("acme", {"requests.cpu": "1"})], web(), namespaces={"team-a": {}}))
    assert {ask(set_container(main=cpu)).verdict for cpu in ("2", "3", "4")} == {Verdict.ALLOW}


def test_an_overdue_change_says_that_it_is_about_to_end():
    ask = asker(web())
    ask(set_container(main="2"))
    ask.now_s = 95.0
    assert "in about 1 s at the latest" in ask(label(x="y")).sentence


def test_a_whole_object_waits_for_a_slow_patch_of_one_container():
    """Issue 1: 5 and 1 are there, the patch makes 7 of a's 5, the PUT 3 of b's 1: together 10, not 12 (of 10)."""
    ask = asker(web(1, a="5", b="1"), hard="10")
    assert ask(set_container(a="7")).verdict is Verdict.ALLOW
    assert asked(ask, put(web(1, a="5", b="5"))) == UNDER_WAY


def test_a_patch_is_charged_with_what_it_leaves_on_what_somebody_put_there_past_the_gate():
    ask = asker(web(1, a="5", b="1"), hard="20")
    assert ask(set_container(a="7")).verdict is Verdict.ALLOW
    assert books(ask) == (6, 2)
    ask.gate.observe(*observe(web(1, version="2", a="5", b="5")))
    assert books(ask) == (10, 2), "7 + 5"
    assert ask.gate.ledger.pending.consistent_read(90.0) == 1
    assert books(ask) == (10, 0)


def test_labels_that_a_patch_leaves_are_worked_out_anew_too():
    quotas = [
        quota("both", {"requests.cpu": "9"}, namespaces={}, workloads={"a": "1", "b": "1"}),
        quota("acme", {"requests.cpu": "99"}, namespaces={}),
    ]
    ask = Asker(gate(quotas, workload("web", 3, labels={"app": "web"})))
    assert ask(label(a="1")).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(workload("web", 3, labels={"app": "web", "b": "1"}, version="2")))
    assert {row.quota: row.reserved // NANO for row in ask.gate.usage()} == {"both": 3, "acme": 0}


def test_what_a_patch_leaves_of_a_new_base_and_cannot_be_told_is_left_as_it_was():
    ask = asker(web(1, a="1", b="1"), hard="20")
    replaced = [{"op": "replace", "path": "/spec/template/spec/containers/1/resources/requests/cpu", "value": "4"}]
    assert ask(patch(path("web"), replaced, "json")).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(web(1, version="2", a="1")))
    assert books(ask) == (1, 4)


def test_a_json_patch_that_copies_along_a_chain_is_not_taken_twice():
    """Issue 2: each time it lands the dear container goes one further."""
    ask = asker(web(1, a="4", b="1", c="1"), hard="12")
    at = "/spec/template/spec/containers"
    chain = [{"op": "copy", "from": f"{at}/{n}/resources", "path": f"{at}/{n + 1}/resources"} for n in (1, 0)]
    assert ask(patch(path("web"), chain, "json")).verdict is Verdict.ALLOW
    assert asked(ask, patch(path("web"), chain, "json")) == UNDER_WAY


@pytest.mark.parametrize("beside", [[], [{"op": "test", "path": "/metadata/name", "value": "web"}]])
def test_a_count_that_is_copied_out_of_the_template_is_a_change_too(beside: list):
    made = workload("web", 2, kind="StatefulSet", labels={"app": "web"})
    made["spec"]["ordinals"] = {"start": 1}
    ask = asker(made, hard="10")
    target = path("web", resource="statefulsets")
    assert ask(patch(target, {"spec": {"ordinals": {"start": 9}}})).verdict is Verdict.ALLOW
    copied = [{"op": "copy", "from": "/spec/ordinals/start", "path": "/spec/replicas"}]
    assert asked(ask, patch(target, beside + copied, "json")) == UNDER_WAY


# Made anew beside an open patch.


def recreated(ask: Asker, made: dict, *, change: Request | None = None) -> Asker:
    assert ask(change or set_container(a="7")).verdict is Verdict.ALLOW
    ask.gate.load_state(snapshot(), 1.0)
    return ask


def test_what_was_deleted_can_be_made_again_beside_an_open_patch_which_is_charged_on_it():
    ask = recreated(asker(web(1, a="5", b="1"), hard="12"), web())
    denied = ask(create(web(1, a="5", b="6")))
    assert denied.verdict is Verdict.DENY, "7 + 6"
    assert ask(create(web(1, a="5", b="5"))).reason == "fits"
    assert books(ask) == (0, 12)
    ask.gate.observe(*observe(web(1, version="9", a="5", b="5") | {}))
    assert books(ask) == (10, 2)


def test_the_count_of_the_patch_may_meet_the_new_template():
    both = {"spec": {"replicas": 3, "template": {"spec": {"containers": containers(a="2")}}}}
    ask = recreated(asker(web(1, a="1", b="1"), hard="9"), web(), change=patch(path("web"), both, "strategic"))
    assert ask(create(web(1, a="1", b="2"))).verdict is Verdict.DENY, "3 x (2 + 2)"
    assert ask(create(web(1, a="1", b="1"))).verdict is Verdict.ALLOW


def test_a_create_waits_where_what_the_patch_leaves_cannot_be_told():
    ask = recreated(asker(web(1, a="5", b="1"), hard="99"), web())
    heir = asker(hard="99")
    heir.gate.import_pending_writes(ask.gate.export_pending_writes(0.0), 0.0)
    assert asked(Asker(heir.gate, "h"), create(web(1, a="5"))) == UNDER_WAY, "the patch itself is not handed over"
    replaced = [{"op": "replace", "path": "/spec/template/spec/containers/1/resources/requests/cpu", "value": "4"}]
    other = recreated(asker(web(1, a="1", b="1"), hard="99"), web(), change=patch(path("web"), replaced, "json"))
    assert asked(other, create(web(1, a="1"))) == UNDER_WAY, "there is no second container"


def test_a_create_waits_for_another_one_and_for_a_whole_object():
    ask = asker(hard="99")
    assert ask(create(web())).verdict is Verdict.ALLOW
    assert asked(ask, create(web(main="2"))) == UNDER_WAY
    assert ask(create(web())).verdict is Verdict.ALLOW, "the same once more"
    assert asked(ask, patch(path("web"), {"metadata": {"labels": {"x": "y"}}})) == UNDER_WAY
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW
    replaced = recreated(asker(web(1), hard="99"), web(), change=put(web(1, a="2")))
    assert asked(replaced, create(web())) == UNDER_WAY


# A zero that does more.


def revision(replicas: int, **metadata: object) -> dict:
    metadata = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")} | metadata
    return workload("web-0", replicas, kind="ReplicaSet", **metadata)


@pytest.mark.parametrize(
    "references",
    [pytest.param([], id="of-nobody"), pytest.param(owned_by("other"), id="of-another")],
)
def test_a_zero_that_takes_a_revision_from_its_owner_is_weighed_and_followed(references: list):
    ask = asker(workload("web", 5), revision(5), workload("other", 0), hard="5")
    target = path("web-0", resource="replicasets")
    freed = patch(target, {"metadata": {"ownerReferences": references}, "spec": {"replicas": 0}})
    assert ask(scale("web-0", 5, resource="replicasets")).verdict is Verdict.ALLOW
    assert ask(freed).verdict is Verdict.DENY, "its Deployment makes 5 others, and the scale to 5 may land after it"
    alone = asker(workload("web", 5), revision(5), workload("other", 0), hard="10")
    assert alone(freed).pending_write is not None
    assert alone(patch(target, {"spec": {"replicas": 0}})).reason == "zero"


def test_a_whole_revision_without_its_owner_is_taken_from_it():
    ask = asker(workload("web", 4), revision(4), hard="7")
    body = revision(4, ownerReferences=[])
    del body["metadata"]["resourceVersion"]
    target = path("web-0", resource="replicasets")
    request = Request("PUT", target, {"content-type": "application/json"}, json.dumps(body).encode())
    assert ask(request).verdict is Verdict.DENY


# Retries.


def test_identical_retries_are_one_effect_and_the_last_of_many_renews_the_window_of_another():
    ask = asker(web(1), policy=Policy(window_s=90.0, max_intents_per_workload=2))
    seen = []
    for second in range(20):
        ask.now_s = float(second)
        granted = ask(scale("web", 4))
        assert granted.pends
        seen.append(granted.pending_write)
    assert seen[:16] == [f"d{n}" for n in range(1, 17)]
    assert seen[16:] == ["d16"] * 4, "the newest of the sixteen is renewed"
    assert ask.gate.ledger.pending_writes == 16
    for name in seen[:15]:
        ask.gate.ledger.pending.settle(name, Event.REFUSED, 20.0)
    ask.gate.ledger.pending.settle("d16", Event.REFUSED, 20.0)
    ask.gate.ledger.pending.settle("d16", Event.ANSWERED_OK, 20.0)
    assert ask.gate.ledger.pending.due(20.0) == []
    assert books(ask) == (1, 3), "which of the five the answer is of cannot be told"
    assert (ask.gate.ledger.pending.consistent_read(108.0), ask.gate.ledger.pending.consistent_read(109.0)) == (0, 1)
    assert books(ask) == (1, 0)


def test_different_effects_are_bounded_and_retries_of_known_ones_are_not():
    ask = asker(web(1), hard="99", policy=Policy(max_intents_per_workload=2))
    assert ask(scale("web", 2)).verdict is Verdict.ALLOW
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW
    assert ask(scale("web", 4)).reason == "too-many-intents"
    assert {ask(scale("web", replicas)).verdict for _ in range(40) for replicas in (2, 3)} == {Verdict.ALLOW}
    assert ask(scale("web", 4)).reason == "too-many-intents"


def test_a_renewed_write_expires_after_those_recorded_meanwhile():
    ask = asker(web(1), workload("api", 1), hard="99")
    for _ in range(16):
        ask(scale("web", 2))
    ask.now_s = 10.0
    ask(scale("api", 2))
    ask.now_s = 20.0
    assert ask(scale("web", 2)).pending_write == "d16"
    assert [ask.gate.ledger.pending.consistent_read(at) for at in (90.0, 100.0, 110.0)] == [15, 1, 1]


def test_an_outcome_of_several_templates_is_a_change_if_one_of_them_is_new():
    ask = asker(web(1, a="1", b="1"), hard="99")
    applied = {
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": containers(a="1")}}}
    }
    assert ask(patch(path("web"), applied, "apply")).verdict is Verdict.ALLOW
    assert asked(ask, label(x="y")) == UNDER_WAY
