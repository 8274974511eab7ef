"""The two entrances of simulated worlds: Envoy before the API server, and the webhook inside it."""

from __future__ import annotations

import json

import pytest

from tests.worlds import drawing, objects, reviews
from tests.worlds.judge import Promise, State
from tests.worlds.objects import kind_of
from tests.worlds.plan import ENTRANCES, FAULTS, Plan, Step, draw
from tests.worlds.running import run
from tests.worlds.server import ApiServer

KEY = ("shop", "web-deploy-0")
PATH = "/apis/apps/v1/namespaces/shop/deployments"


@pytest.fixture
def server():
    server = ApiServer()
    server.request("POST", PATH, {}, objects.workload(KEY, 2, "1"))
    return server


def prepared(server, sent):
    request = sent.request
    return server.prepare(request.method, request.target, sent.body, request.headers.get("content-type", ""))


def reviewed(server, sent, *, dry=False):
    return json.loads(reviews.review(prepared(server, sent), "u1", dry=dry))["request"]


def test_half_of_the_worlds_have_both_entrances_and_what_else_they_have_does_not_depend_on_it():
    plans = [draw(seed, 10, frozenset(FAULTS)) for seed in range(200)]
    assert {plan.entrances for plan in plans} == set(ENTRANCES)
    assert 60 < sum(plan.entrances == "both" for plan in plans) < 140
    assert draw(3, 10, frozenset(), entrances="both").steps == draw(3, 10, frozenset(), entrances="envoy").steps


@pytest.mark.parametrize(
    ("entrances", "asking"), [("envoy", {"envoy"}), ("webhook", {"webhook"}), ("both", {"envoy", "webhook"})]
)
def test_gates_are_asked_at_the_entrances_of_their_world(entrances, asking):
    traces = [run(draw(seed, 20, frozenset(), "memory", entrances=entrances)).trace for seed in range(5)]
    lines = [line for trace in traces for line in trace[: _steps_end(trace)]]
    assert {word for word in ("envoy", "webhook") if any(f": {word}, write" in line for line in lines)} == asking


def _steps_end(trace):
    """In the end every gate is asked at each entrance."""
    return next(number for number, line in enumerate(trace) if line.endswith("faults stop"))


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        (objects.scale(KEY, 3, "kpa", ""), True),
        (objects.scale(KEY, 3, "kpa-1.21", ""), True),
        (objects.scale(KEY, 2, "kubectl", ""), False),
        (objects.scale(KEY, 1, "kpa-1.21", ""), False),
        (objects.patch(KEY, "250m", "strategic"), True),
        (objects.replace(KEY, 1, "1"), False),
        (objects.create(("shop", "job-deploy-1"), 0, "1"), True),
    ],
)
def test_the_webhook_is_asked_about_what_may_grow(server, sent, asked):
    assert reviews.may_grow(prepared(server, sent)) is asked


def test_a_review_has_the_version_on_which_the_write_lands(server):
    found = reviewed(server, objects.scale(KEY, 3, "kpa", ""), dry=True)
    assert (found["subResource"], found["object"]["spec"], found["dryRun"]) == ("scale", {"replicas": 3}, True)
    assert found["oldObject"]["metadata"]["resourceVersion"] == "101"
    whole = reviewed(server, objects.replace(KEY, 3, "2"))
    assert whole["object"]["metadata"]["resourceVersion"] == "101"
    promised = reviews.promise(prepared(server, objects.replace(KEY, 3, "2")), State(3, 2000, "web"))
    assert promised == Promise(KEY, 3, 2000, None, side_m=0, only_on="101")


def test_a_review_of_a_replica_set_that_gets_or_loses_its_owner_says_whose_family_it_is(server):
    member, owner = ("shop", "web-rs-1"), ("shop", "web-roll-2")
    for key in (member, owner):
        server.request("POST", kind_of(key).path(*key).rpartition("/")[0], {}, objects.workload(key, 1, "1"))
    there = server.objects(kind_of(owner).collection)[owner]

    def joins(sent):
        return reviews.promise(prepared(server, sent), State(1, 1000, "web")).joins

    assert joins(objects.replace(member, 2, "1")) is None
    given = drawing.adopting(member, there, "strategic")
    assert joins(given) == owner
    server.store(prepared(server, given))
    assert joins(objects.patch(member, "2", "strategic")) is None
    assert joins(drawing.leaving(member, owner, "merge")) == owner


def test_a_review_of_a_create_has_the_uid_that_its_object_gets(server):
    sent = objects.create(("shop", "job-deploy-1"), 2, "1")
    ready = prepared(server, sent)
    uid = json.loads(reviews.review(ready, "u1", dry=False))["request"]["object"]["metadata"]["uid"]
    assert server.store(ready)["metadata"]["uid"] == uid


def test_another_write_that_was_faster_is_a_conflict(server):
    slow = prepared(server, objects.scale(KEY, 5, "kpa", ""))
    server.store(prepared(server, objects.scale(KEY, 3, "kpa", "")))
    with pytest.raises(Exception, match="409"):
        server.store(slow)


@pytest.mark.parametrize(("entrances", "reason"), [("envoy", "not-a-count"), ("both", "left-to-webhook")])
def test_an_object_is_not_decided_at_envoy(entrances, reason):
    limited = {"name": "acme", "namespaces": {"workspace": "acme"}, "hard": {"requests.cpu": "5"}}
    workload = "shop/web-deploy-0"
    how = {"workload": workload, "to": 2, "cpu": "1", "end": "answered"}
    steps = tuple(Step(number, 1.0 + number, "rollout", how) for number in range(8))
    result = run(Plan(1, 1, "memory", (workload,), (limited,), steps, frozenset(), entrances))
    told = [line for line in result.trace if ": envoy, write" in line and " at 1000m" in line]
    assert told
    assert all(line.endswith(f"({reason})") for line in told)
    decided = [line for line in result.trace if ": webhook, write" in line and " at 1000m" in line]
    assert bool(decided) is (entrances == "both")
    assert result.violation is None


def test_no_policy_is_asked_of_a_cheaper_template_of_what_is_charged_with_its_owner():
    """The judge knows of no workload by that name any more, and must not take what is there for new."""
    named = {"workload": "zoo/web-rs-1", "end": "answered"}
    steps = (
        Step(0, 2.0, "past", {**named, "to": 4}),
        Step(1, 3.0, "adopt", {**named, "owner": "zoo/job-roll-0", "as": "json", "leaves": False}),
        Step(2, 6.0, "directive", {**named, "as": "delete", "cpu": "500m", "to": 2}),
        Step(3, 9.0, "past", {"workload": "zoo/job-roll-0", "to": 1}),  # until then the policy has its rules
    )
    limited = {"name": "zoo", "namespaces": {"workspace": "zoo"}, "hard": {"requests.cpu": "6"}}
    workloads = ("zoo/web-rs-1", "zoo/job-roll-0")
    result = run(Plan(1, 1, "memory", workloads, (limited,), steps, frozenset({"policies"}), "webhook"))
    assert any("web-rs-1 to 4 at 500m" in line and "allow" in line for line in result.trace)
    assert result.violation is None
