"""A count that passes Envoy and the webhook is charged once. Objects that the webhook admits exclude each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz import testing as builders
from extauthz.core.decision.policy import Policy
from extauthz.core.intake import admission, read
from extauthz.core.model import COMMIT, Decision, NotACount, NotAWrite, Observed, Reading, Verdict, WorkloadRef, Write
from extauthz.core.objects.fields import labels_text
from extauthz.core.objects.workloads import intern, observe, prune
from extauthz.testing import Asker, gate, patch, path, quota, scale, workload
from tests.unit.asking import asker, books
from tests.unit.intake.test_read import RECORDED, request_of


def web(replicas: int = 1, version: str = "1", labels: dict | None = None, **cpus: str) -> dict:
    made = workload("web", replicas, version=version, labels=labels)
    if cpus:
        made["spec"]["template"]["spec"]["containers"] = containers(**cpus)
    return made


def containers(**cpus: str) -> list[dict]:
    return [{"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}} for name, cpu in cpus.items()]


def admit(ask: Asker, new: dict, old: dict | None = None, **request: object) -> Decision:
    """What the webhook is asked, a moment after Envoy."""
    review = admission.read(json.dumps(builders.admission(new, old, **request)).encode())
    ask.count += 1
    return ask.gate.decide(review.question.reading, f"w{ask.count}", ask.now_s, source=review.question.user)


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


def test_a_count_on_the_object_that_both_ways_are_asked_about_is_charged_once():
    ask = asker(web(3), hard="9")
    old = [{"op": "add", "path": "/spec/replicas", "value": 9}]  # Knative up to 1.21
    assert ask(patch(path("web"), old, "json")).reason == "fits"
    assert admit(ask, web(9), web(3)).verdict is Verdict.ALLOW
    assert books(ask) == (3, 6)


def acted_on(version: str) -> dict:
    """Its controller has acted on this version."""
    shown = web(3, version)
    return shown | {"metadata": shown["metadata"] | {"generation": 1}, "status": {"observedGeneration": 1}}


@pytest.mark.parametrize(("is_next", "counted"), [(True, (3, 1)), (False, (6, 2))], ids=["watched", "read"])
def test_what_was_admitted_may_run_where_a_read_shows_a_later_version(is_next: bool, counted: tuple[int, int]):
    """A watch would have shown its template. A count that pends too is no template."""
    ask = asker(acted_on("1"), hard="30")
    assert admit(ask, web(3, a="2"), web(3)).verdict is ask(scale("web", 4)).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(acted_on("9")), is_next=is_next)
    assert (books(ask), ask.gate.ledger.pending_writes) == (counted, 1)


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


def test_a_create_that_something_else_refused_can_be_tried_again_with_another_template():
    ask = asker(hard="5")
    assert admit(ask, made("u1", 2, main="2")).verdict is Verdict.ALLOW
    assert admit(ask, made("u2", 2, main="1")).verdict is Verdict.ALLOW
    assert books(ask) == (0, 4), "the dearer one: only one can be there at a time"
    assert admit(ask, made("u3", 3, main="1")).verdict is Verdict.DENY, "3 of 2 CPUs, by the plain bound"


def test_an_object_may_change_though_an_admitted_create_of_it_was_not_settled():
    ask = asker(hard="5")
    assert admit(ask, made("u1", 2)).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(made("u9", 1) | {"metadata": made("u9")["metadata"] | {"resourceVersion": "6"}}))
    assert admit(ask, web(1, "6", main="2"), web(1, "6")).verdict is Verdict.ALLOW
    assert books(ask) == (1, 3)


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
    assert (found.verdict, found.todo is COMMIT, found.pending_write) == (Verdict.ALLOW, False, None)
    assert found.sentence == "fits every quota; can land no more: a newer version is observed"
    assert admit(ask, web(4, version="8"), web(version="8")).verdict is Verdict.DENY
    assert books(ask) == (1, 0)


@pytest.mark.parametrize("is_object_first", [True, False])
def test_an_admitted_object_holds_its_room_for_the_shorter_window_and_a_count_for_the_whole_one(is_object_first: bool):
    """Neither waits for the other."""
    ask = asker(web(), hard="5", policy=Policy(window_s=90.0, admitted_window_s=40.0))
    asked = [lambda: admit(ask, workload("new", 2)), lambda: ask(scale("web", 3))]
    for one in asked if is_object_first else reversed(asked):
        assert one().verdict is Verdict.ALLOW
    assert books(ask) == (1, 4)
    assert ask.gate.ledger.pending.due(40.0) == [WorkloadRef("apps", "deployments", "team-a", "new")]
    assert [ask.gate.ledger.pending.consistent_read(at_s) for at_s in (39.0, 40.0, 89.0, 90.0)] == [0, 1, 0, 1]


CONTAINER = {"name": "user-container", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = intern(prune({"template": {"spec": {"containers": [CONTAINER]}}}))
LABELS = labels_text({"app": "web"})

READINGS = [read(request_of(row)) for row in RECORDED]
WRITES = [
    pytest.param(found, id=f"{number}-{row['client'].split()[0]}-{row['method']}")
    for number, (row, found) in enumerate(zip(RECORDED, READINGS, strict=True), 1)
    if isinstance(found, Write)
]


def before(write: Write) -> Observed:
    """The object that the write finds."""
    version = write.precondition.resource_version or "1"
    return Observed(2, TEMPLATE, LABELS, uid=write.precondition.uid or "u1", resource_version=version)


def tree(write: Write, observed: Observed, replicas: int) -> dict[str, Any]:
    """An object, or its Scale, as an API server shows it."""
    shown = builders.document(write.ref, observed)
    spec = {"replicas": replicas} if write.scale else shown["spec"] | {"replicas": replicas}
    return shown | {"spec": spec}


def admitted(write: Write, found: Observed) -> Reading:
    """What the webhook is asked about the object that the write leaves."""
    resource = {"group": write.ref.group, "version": "v1", "resource": write.ref.resource}
    old, new = tree(write, found, found.replicas), tree(write, found, write.replicas)
    more = {"subresource": "scale"} if write.scale else {}
    asked = builders.admission(new, old, resource=resource, dryRun=write.dry_run, **more)
    review = admission.read(json.dumps(asked).encode())
    return review.question.reading


def decided(reading: Reading, write: Write, found: Observed, cpu: str) -> Decision:
    namespaces = {write.ref.namespace: {"workspace": "acme"}}
    asked = gate([quota("acme", {"requests.cpu": cpu})], namespaces=namespaces)
    asked.observe(write.ref, found)
    return asked.decide(reading, "d1", 1.0)


@pytest.mark.parametrize("cpu", ["0", "2", "3", "1000"])
@pytest.mark.parametrize("write", WRITES)
def test_what_was_recorded_on_envoys_way_is_decided_alike_by_the_webhook(write: Write, cpu: str):
    found = before(write)
    ours = decided(write, write, found, cpu)
    reading = admitted(write, found)
    if isinstance(reading, NotAWrite):
        assert (write.replicas, ours.verdict) == (found.replicas, "allow"), "it leaves the count as it is"
        return
    theirs = decided(reading, write, found, cpu)
    assert (ours.verdict, ours.evidence.shortages, ours.evidence.fits) == (
        theirs.verdict,
        theirs.evidence.shortages,
        theirs.evidence.fits,
    )
    assert (ours.ref, ours.scale, ours.dry_run) == (theirs.ref, theirs.scale, theirs.dry_run)
    if ours.verdict != "allow":
        assert (ours.reason, ours.sentence) == (theirs.reason, theirs.sentence)


def test_the_recorded_writes_are_refused_and_allowed():
    verdicts = {decided(one.values[0], one.values[0], before(one.values[0]), "3").verdict for one in WRITES}
    assert {"allow", "deny"} <= verdicts
    kinds = [sum(isinstance(found, kind) for found in READINGS) for kind in (Write, NotACount, NotAWrite)]
    assert (kinds, len(RECORDED)) == ([14, 4, 49], 67)
