"""One write that passes Envoy and then the webhook is charged once, and neither way refuses it because of the other."""

from __future__ import annotations

import json

import pytest

from extauthz.core.intake import admission
from extauthz.core.ledger.pending_write import Event
from extauthz.core.model import Decision, Request, Verdict
from extauthz.core.objects.workloads import observe
from extauthz.testing import builders
from extauthz.testing.builders import Asker, create, gate, owned_by, patch, path, quota, scale, workload

NANO = 10**9
UNDER_WAY = (Verdict.UNAVAILABLE, "change-under-way")


def asker(*objects: dict, hard: str = "10") -> Asker:
    return Asker(gate([quota("acme", {"requests.cpu": hard})], *objects))


def web(replicas: int = 1, version: str = "1", labels: dict | None = None, **cpus: str) -> dict:
    made = workload("web", replicas, version=version, labels=labels)
    if cpus:
        made["spec"]["template"]["spec"]["containers"] = containers(**cpus)
    return made


def containers(**cpus: str) -> list[dict]:
    return [{"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}} for name, cpu in cpus.items()]


def set_container(count: int | None = None, **cpus: str) -> Request:
    spec = {"template": {"spec": {"containers": containers(**cpus)}}} | ({} if count is None else {"replicas": count})
    return patch(path("web"), {"spec": spec}, "strategic")


def apply(**cpus: str) -> Request:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": containers(**cpus)}}}
    return patch(path("web"), {"metadata": {"labels": {"app": "web"}}, "spec": spec}, "apply")


def put(new: dict) -> Request:
    return Request("PUT", path("web"), {"content-type": "application/json"}, json.dumps(new).encode())


def admit(ask: Asker, new: dict, old: dict | None = None, **request: object) -> Decision:
    """What the webhook is asked, a moment after Envoy."""
    review = admission.read(json.dumps(builders.admission(new, old, **request)).encode())
    assert isinstance(review, admission.Review)
    ask.count += 1
    return ask.gate.decide(review.question.reading, f"w{ask.count}", ask.now_s, source=review.question.user)


def admitted(ask: Asker, new: dict, old: dict | None = None) -> tuple[Verdict, str]:
    decision = admit(ask, new, old)
    return decision.verdict, decision.reason


def books(ask: Asker) -> tuple[int, int]:
    assert ask.gate.ledger.drift() == {}
    row = next(iter(ask.gate.usage()))
    return row.used // NANO, row.reserved // NANO


# The same write.


def test_a_scale_that_both_ways_are_asked_about_is_charged_once():
    ask = asker(web(3), hard="9")
    assert ask(scale("web", 9)).reason == "fits"
    found = admit(ask, builders.scale_object(replicas=9), builders.scale_object(replicas=3), subresource="scale")
    assert found.verdict is Verdict.ALLOW
    assert books(ask) == (3, 6)
    ask.gate.observe(*observe(web(9, version="2")))
    assert ask.gate.ledger.pending_writes == 1, "the one without a precondition may land once more"
    assert books(ask) == (9, 0)


@pytest.mark.parametrize(
    ("request_", "new"),
    [
        pytest.param(set_container(main="2"), web(main="2"), id="strategic"),
        pytest.param(set_container(main="2000m"), web(main="2"), id="amounts-are-rewritten-by-the-server"),
        pytest.param(set_container(2, main="2"), web(2, main="2"), id="count-and-template"),
        pytest.param(set_container(main="1", side="1"), web(main="1", side="1"), id="a-container-more"),
        pytest.param(apply(main="2"), web(main="2"), id="apply"),
        pytest.param(put(web(main="2")), web(main="2"), id="put"),
        pytest.param(put(web(main="2000m")), web(main="2"), id="put-with-amounts-that-are-rewritten"),
        pytest.param(
            patch(path("web"), {"metadata": {"labels": {"x": "y"}}}), web(labels={"app": "web", "x": "y"}), id="labels"
        ),
        pytest.param(
            patch(path("web"), {"metadata": {"ownerReferences": owned_by("x", kind="Foo")}}),
            web() | {"metadata": web()["metadata"] | {"ownerReferences": owned_by("x", kind="Foo")}},
            id="owner",
        ),
    ],
)
@pytest.mark.parametrize("count", [1, 2], ids=["exactly", "twice-the-room"])
def test_a_change_that_passed_envoy_passes_the_webhook_and_takes_no_more_room(request_, new, count):
    ask = asker(web(), hard=str(4 * count))
    assert ask(request_).verdict is Verdict.ALLOW
    before = books(ask)
    assert admit(ask, new, web()).verdict is Verdict.ALLOW
    assert books(ask) == before


def test_what_an_apply_may_leave_out_is_charged_by_itself():
    ask = asker(web(main="1", side="1"), hard="9")
    assert ask(apply(main="2")).verdict is Verdict.ALLOW
    assert admit(ask, web(main="2", side="1"), web(main="1", side="1")).verdict is Verdict.ALLOW
    assert books(ask) == (2, 1)


def test_a_create_that_passed_envoy_passes_the_webhook():
    ask = asker(hard="3")
    made = web(3)
    assert ask(create(made)).reason == "fits"
    assert admit(ask, made).verdict is Verdict.ALLOW
    assert books(ask) == (0, 3)


def test_the_way_of_another_gate_is_the_same_write_too():
    """What it decided came by the ledger, which holds what a patch leaves and not the patch itself."""
    ask = asker(web(), hard="4")
    ask(set_container(main="2"))
    other = asker(web(), hard="4")
    other.gate.import_pending_writes(ask.gate.export_pending_writes(0.0), 0.0)
    assert admit(other, web(main="2"), web()).verdict is Verdict.ALLOW
    assert books(other) == (1, 1)
    assert admitted(other, web(main="3"), web()) == UNDER_WAY


def test_a_clamped_count_is_still_the_same_change():
    """A mutating webhook has lowered 3 to 2. Were the patch to land after all, 3 are charged."""
    ask = asker(web(), hard="6")
    assert ask(set_container(3, main="2")).verdict is Verdict.ALLOW
    assert admit(ask, web(2, main="2"), web()).verdict is Verdict.ALLOW
    assert books(ask) == (1, 5)


def test_a_count_that_was_raised_on_the_way_is_weighed():
    ask = asker(web(), hard="6")
    assert ask(set_container(3, main="2")).verdict is Verdict.ALLOW
    assert admit(ask, web(4, main="2"), web()).verdict is Verdict.DENY


# Not the same write.


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(web(main="3"), id="another-template"),
        pytest.param(web(side="2"), id="another-container"),
        pytest.param(web(main="1", labels={"app": "web", "x": "y"}), id="labels-too"),
    ],
)
def test_an_object_that_the_patch_would_change_waits_for_it(new):
    ask = asker(web(), hard="99")
    assert ask(set_container(main="2")).verdict is Verdict.ALLOW
    assert admitted(ask, new, web()) == UNDER_WAY
    assert books(ask) == (1, 1)


def test_an_object_that_has_the_change_and_more_is_charged_with_both():
    """The patch leaves it as it is. So in whatever order they land, one of the two is there."""
    ask = asker(web(), hard="99")
    assert ask(set_container(main="2")).verdict is Verdict.ALLOW
    labels = {"app": "web", "x": "y"}
    assert admit(ask, web(main="2", side="1", labels=labels), web()).verdict is Verdict.ALLOW
    assert (books(ask), ask.gate.ledger.pending_writes) == ((1, 2), 2)


@pytest.mark.parametrize("form", ["put", "apply"])
def test_an_owner_that_the_other_write_does_not_name_waits(form: str):
    ask = asker(web(), hard="99")
    owned = web() | {"metadata": web()["metadata"] | {"ownerReferences": owned_by("x", kind="Foo")}}
    other = web() | {"metadata": web()["metadata"] | {"ownerReferences": owned_by("y", kind="Foo")}}
    del owned["metadata"]["resourceVersion"], owned["metadata"]["uid"]
    assert ask(put(owned) if form == "put" else patch(path("web"), owned, "apply")).verdict is Verdict.ALLOW
    assert admitted(ask, other, web()) == UNDER_WAY
    assert admit(ask, json.loads(json.dumps(owned)), web()).verdict is Verdict.ALLOW


def test_where_the_patch_would_leave_something_new_each_time_the_object_waits():
    """Each time it lands the dear container goes one further: what it leaves on what it left is charged by nobody."""
    start = web(a="4", b="1", c="1")
    ask = asker(start, hard="99")
    at = "/spec/template/spec/containers"
    chain = [{"op": "copy", "from": f"{at}/{n}/resources", "path": f"{at}/{n + 1}/resources"} for n in (1, 0)]
    assert ask(patch(path("web"), chain, "json")).verdict is Verdict.ALLOW
    assert admitted(ask, web(a="4", b="4", c="1"), start) == UNDER_WAY


@pytest.mark.parametrize(
    "operations",
    [
        [("copy", 2, 1), ("copy", 1, 0)],
        [("remove", 0), ("replace", 1)],
    ],
    ids=str,
)
def test_a_patch_of_another_gate_that_leaves_something_new_each_time_is_waited_for(operations: list[tuple]):
    """Landed on the object, it would leave what neither gate has charged."""
    at = "/spec/template/spec/containers"
    body = []
    for op, to, *source in operations:
        body.append({"op": op, "path": f"{at}/{to}" + "/resources" * (op != "remove")})
        body[-1] |= {"from": f"{at}/{source[0]}/resources"} if source else {}
        body[-1] |= {"value": {"requests": {"cpu": "4"}}} if op == "replace" else {}
    start = web(a="4", b="1", c="1", d="1")
    ask, other = asker(start, hard="99"), asker(start, hard="99")
    found = ask(patch(path("web"), body, "json"))
    assert found.verdict is Verdict.ALLOW
    other.gate.import_pending_writes(ask.gate.export_pending_writes(0.0), 0.0)
    (_, pending_write), *_ = other.gate.ledger.pending
    new = web()
    new["spec"]["template"] = json.loads(pending_write.templates[0].text)["template"]
    assert admitted(other, new, start) == UNDER_WAY
    assert admitted(other, new | {"metadata": web(version="2")["metadata"]}, web(version="2")) == UNDER_WAY


@pytest.mark.parametrize("op", ["add", "replace"])
def test_a_patch_of_another_gate_that_leaves_the_same_each_time_is_not(op: str):
    at = "/spec/template/spec/containers/0/resources/requests/cpu"
    ask, other = asker(web(), hard="2"), asker(web(), hard="2")
    assert ask(patch(path("web"), [{"op": op, "path": at, "value": "2"}], "json")).verdict is Verdict.ALLOW
    other.gate.import_pending_writes(ask.gate.export_pending_writes(0.0), 0.0)
    new = json.loads(json.dumps(web()).replace('"cpu": "1"', '"cpu": "2"'))
    assert admit(other, new, web()).verdict is Verdict.ALLOW


def test_a_count_that_the_patch_copies_out_of_the_object_waits():
    made = workload("web", 2, kind="StatefulSet", labels={"app": "web"})
    made["spec"]["ordinals"] = {"start": 3}
    ask = asker(made, hard="99")
    copied = [{"op": "copy", "from": "/spec/ordinals/start", "path": "/spec/replicas"}]
    assert ask(patch(path("web", resource="statefulsets"), copied, "json")).verdict is Verdict.ALLOW
    new = json.loads(json.dumps(made))
    new["spec"]["ordinals"] = {"start": 9}
    resource = {"group": "apps", "version": "v1", "resource": "statefulsets"}
    assert admit(ask, new, made, resource=resource).reason == "change-under-way"


def test_a_count_that_the_patch_moves_within_the_object_is_for_one_template_and_another_one_waits():
    ask = asker(web(), hard="9")
    moved = [
        {"op": "add", "path": "/spec/detour", "value": 5},
        {"op": "move", "from": "/spec/detour", "path": "/spec/replicas"},
    ]
    assert ask(patch(path("web"), moved, "json")).reason == "fits"
    assert admitted(ask, web(main="2"), web()) == UNDER_WAY, "five of them would ask for ten"
    assert admitted(ask, web(main="1", labels={"app": "web", "x": "y"}), web())[0] is Verdict.ALLOW


def test_what_cannot_be_worked_out_of_the_patch_waits():
    ask = asker(web(a="1", b="1"), hard="99")
    replaced = [{"op": "replace", "path": "/spec/template/spec/containers/1/resources/requests/cpu", "value": "4"}]
    assert ask(patch(path("web"), replaced, "json")).verdict is Verdict.ALLOW
    assert admitted(ask, web(a="1"), web(a="1", b="1")) == UNDER_WAY


@pytest.mark.parametrize(("patches", "verdict"), [(4, Verdict.ALLOW), (5, Verdict.UNAVAILABLE)])
def test_of_many_patches_under_way_not_all_are_worked_out(patches: int, verdict: Verdict):
    ask = asker(web(), hard="99")
    for _ in range(patches):
        assert ask(set_container(main="1")).verdict is Verdict.ALLOW
    assert admit(ask, web(labels={"app": "web", "x": "y"}), web()).verdict is verdict


def label(**labels: str) -> Request:
    return patch(path("web"), {"metadata": {"labels": labels}})


def test_an_object_without_the_label_that_is_under_way_waits():
    ask = asker(web(), hard="99")
    assert ask(label(x="y")).verdict is Verdict.ALLOW
    assert admitted(ask, web(main="2"), web()) == UNDER_WAY
    assert admit(ask, web(main="2", labels={"app": "web", "x": "y", "z": "z"}), web()).verdict is Verdict.ALLOW


def test_what_a_mutating_webhook_has_added_to_an_apply_is_told_by_what_may_come_of_it():
    """The container may go again by the same apply. Of two labels one may go: nobody is charged with that."""
    ask = asker(web(), hard="99")
    assert ask(apply(main="2")).verdict is Verdict.ALLOW
    assert admitted(ask, web(main="2", labels={"app": "web", "y": "1", "z": "1"}), web()) == UNDER_WAY
    assert admit(ask, web(main="2", labels={"app": "web", "z": "1"}), web()).verdict is Verdict.ALLOW


def test_an_apply_that_leaves_the_template_out_passes_both_ways():
    """What may come of the template is told by the most: the request may fall back to its limit, or stay."""
    start = web()
    start["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "2"}
    new = start | {"metadata": start["metadata"] | {"labels": {"app": "web", "z": "1"}}}
    ask = asker(start, hard="2")
    assert ask(patch(path("web"), {"metadata": {"labels": {"app": "web", "z": "1"}}}, "apply")).verdict is Verdict.ALLOW
    assert admit(ask, new, start).verdict is Verdict.ALLOW
    assert books(ask) == (1, 1)


def test_a_template_that_meets_another_count_is_not_charged():
    """The patch brings its count to a container that a mutating webhook has added."""
    ask = asker(web(), hard="99")
    assert ask(set_container(3, main="2")).verdict is Verdict.ALLOW
    assert admitted(ask, web(2, main="2", side="1"), web()) == UNDER_WAY, "3 x (2 + 1)"
    assert admit(ask, web(3, main="2", side="1"), web()).verdict is Verdict.ALLOW


def test_the_labels_of_a_write_of_another_gate_must_be_the_same():
    ask, other = asker(web(), hard="99"), asker(web(), hard="99")
    assert ask(label(x="y")).verdict is Verdict.ALLOW
    other.gate.import_pending_writes(ask.gate.export_pending_writes(0.0), 0.0)
    assert admitted(other, web(main="2"), web()) == UNDER_WAY
    assert admit(other, web(labels={"app": "web", "x": "y"}), web()).verdict is Verdict.ALLOW


def test_the_owner_of_a_write_of_another_gate_must_be_the_same():
    new = web() | {"metadata": web()["metadata"] | {"ownerReferences": owned_by("x", kind="Foo")}}
    ask, other = asker(web(), hard="99"), asker(web(), hard="99")
    unbound = json.loads(json.dumps(new))
    del unbound["metadata"]["resourceVersion"], unbound["metadata"]["uid"]
    assert ask(put(unbound)).verdict is Verdict.ALLOW
    other.gate.import_pending_writes(ask.gate.export_pending_writes(0.0), 0.0)
    assert admitted(other, web(labels={"app": "web"}, main="2"), web()) == UNDER_WAY
    assert admit(other, new, web()).verdict is Verdict.ALLOW


# Creates.


def made(uid: str, replicas: int = 1, **cpus: str) -> dict:
    new = web(replicas, "", **cpus)
    new["metadata"] |= {"uid": uid}
    return new


def test_an_admitted_create_ends_when_its_object_is_seen():
    ask = asker(hard="5")
    assert admit(ask, made("u1", 3)).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(made("u2", 1)))
    assert books(ask) == (1, 2), "another one was faster; if that is deleted, ours may still land"
    ask.gate.observe(*observe(web(1, "4")), version="4")
    ask.gate.observe(observe(web())[0], None, version="5")
    ask.gate.observe(*observe(made("u1", 3) | {"metadata": made("u1")["metadata"] | {"resourceVersion": "6"}}))
    assert (books(ask), ask.gate.ledger.pending_writes) == ((3, 0), 0)


def test_a_create_of_the_way_of_envoy_ends_by_no_uid():
    ask = asker(hard="5")
    assert ask(create(made("u1", 3))).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(made("u1", 1)))
    assert books(ask) == (1, 2)


def test_a_create_that_something_else_refused_can_be_tried_again_with_another_template():
    ask = asker(hard="5")
    assert admit(ask, made("u1", 2, main="2")).verdict is Verdict.ALLOW
    assert admit(ask, made("u2", 3, main="1")).verdict is Verdict.ALLOW
    assert books(ask) == (0, 4), "the dearer one: only one can be there at a time"
    assert admit(ask, made("u3", 3, main="2")).verdict is Verdict.DENY


def test_an_object_may_change_though_an_admitted_create_of_it_was_not_settled():
    ask = asker(hard="5")
    assert admit(ask, made("u1", 2)).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(made("u9", 1) | {"metadata": made("u9")["metadata"] | {"resourceVersion": "6"}}))
    assert admit(ask, web(1, "6", main="3"), web(1, "6")).verdict is Verdict.ALLOW
    assert books(ask) == (1, 2)


# The API server asks again.


def test_of_two_that_were_found_on_one_version_only_one_lands():
    """The first was admitted, and another webhook refused it. The person changes it and tries again."""
    ask = asker(web(), hard="9")
    assert admit(ask, web(main="2"), web()).verdict is Verdict.ALLOW
    assert admit(ask, web(main="3"), web()).verdict is Verdict.ALLOW
    assert books(ask) == (1, 2), "the dearer of the two, not both"
    ask.gate.observe(*observe(web(version="2", main="3")))
    assert (books(ask), ask.gate.ledger.pending_writes) == ((3, 0), 0)


def test_after_a_conflict_the_first_cannot_land_any_more_though_no_watch_has_shown_it():
    ask = asker(web(version="9"), hard="9")
    assert admit(ask, web(version="9", main="2"), web(version="9")).verdict is Verdict.ALLOW
    assert admit(ask, web(version="10", main="3"), web(version="10")).verdict is Verdict.ALLOW


def test_what_was_found_on_a_version_that_is_seen_to_be_past_is_weighed_and_not_recorded():
    ask = asker(web(version="9"), hard="3")
    found = admit(ask, web(3, version="8"), web(version="8"))
    assert (found.verdict, found.pends, found.pending_write) == (Verdict.ALLOW, False, None)
    assert found.sentence == "fits every quota; can land no more: a newer version is observed"
    assert admit(ask, web(4, version="8"), web(version="8")).verdict is Verdict.DENY
    assert books(ask) == (1, 0)


def test_one_that_was_found_on_a_newer_version_may_land_after_this_one():
    ask = asker(web(version="9"), hard="9")
    assert admit(ask, web(version="10", main="2"), web(version="10")).verdict is Verdict.ALLOW
    assert admitted(ask, web(version="9", main="3"), web(version="9")) == UNDER_WAY


def test_a_patch_that_has_no_version_waits_for_an_admitted_object():
    ask = asker(web(), hard="9")
    assert admit(ask, web(main="2"), web()).verdict is Verdict.ALLOW
    found = ask(set_container(main="3"))
    assert (found.verdict, found.reason) == UNDER_WAY


def test_a_retry_of_the_same_write_counts_once():
    ask = asker(web(), hard="3")
    for _ in range(3):
        assert admit(ask, web(3), web()).verdict is Verdict.ALLOW
    assert books(ask) == (1, 2)
    ask.gate.observe(*observe(web(3, version="2")))
    assert (books(ask), ask.gate.ledger.pending_writes) == ((3, 0), 0)


def test_an_admitted_write_that_something_else_refuses_holds_its_room_until_the_window_ends():
    ask = asker(web(), hard="3")
    assert admit(ask, web(3), web()).verdict is Verdict.ALLOW
    ask.gate.ledger.pending.settle("nobody", Event.REFUSED, 1.0)
    assert ask.gate.ledger.pending.consistent_read(89.0) == 0
    assert books(ask) == (1, 2)
    assert ask.gate.ledger.pending.consistent_read(90.0) == 1
    assert books(ask) == (1, 0)


def test_a_dry_run_is_charged_nothing():
    ask = asker(web(), hard="3")
    assert admit(ask, web(3), web(), dryRun=True).reason == "fits"
    assert admit(ask, web(4), web(), dryRun=True).verdict is Verdict.DENY
    assert books(ask) == (1, 0)
