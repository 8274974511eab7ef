"""What the simulated API server makes of copies and directives is what the second judge expects of them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from extauthz.demo import patches
from extauthz.inputs.kube.connection import ApiError
from tests.worlds import drawing, judge, objects
from tests.worlds.drawing import COPIES, DIRECTIVES, PATCHES
from tests.worlds.reference import ReferenceModel
from tests.worlds.server import APPLY, ApiServer

KEYS = [("shop", "web-deploy-0"), ("shop", "web-sts-0"), ("shop", "job-rs-1")]
STRATEGIC = objects.STRATEGIC_PATCH

LEAVES = {
    "container": lambda was: was if was.side_m else was._replace(side_m=was.cpu_m),
    "count": lambda was: was._replace(cpu_m=1000 * was.replicas),
}
"""What the copies leave that depend on what they find."""


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("replicas", [0, 3])
@pytest.mark.parametrize("side", ["", "250m"])
@pytest.mark.parametrize("spelling", [*COPIES, *DIRECTIVES])
def test_a_patch_leaves_what_is_promised(spelling, side, replicas, key):
    server = ApiServer()
    reference = ReferenceModel(server)
    server.request("POST", objects.kind_of(key).path(key[0]), {}, objects.workload(key, replicas, "1"))
    if side:
        server.request("PATCH", objects.kind_of(key).path(*key), {}, objects.sidecar(side), STRATEGIC)
    was = reference.workload(key)
    patch = drawing.copying if spelling in COPIES else drawing.directing
    sent = patch(key, spelling, 2, "500m")
    content_type = sent.request.headers["content-type"]
    with pytest.raises(ApiError, match="422") if spelling == "container" and side else nullcontext():
        server.request(sent.request.method, sent.request.target, {}, sent.body, content_type)
    assert reference.workload(key) == LEAVES.get(spelling, lambda was: judge.landed(was, sent.promise))(was)


@pytest.fixture
def applying():
    """A Deployment of three, and what an apply makes of it."""
    key, server = KEYS[0], ApiServer()
    reference = ReferenceModel(server)
    server.request("POST", objects.kind_of(key).path(key[0]), {}, objects.workload(key, 3, "1"))

    def applied(*without, to=5, side="", tier="web"):
        how = {"to": to, "cpu": "2", "tier": tier, "side": side, "without": without}
        sent = drawing.applying(key, how)
        server.request("PATCH", sent.request.target.partition("?")[0], {}, sent.body, APPLY)
        return reference.workload(key)

    applied.request = lambda method, sub, body: server.request(method, objects.kind_of(key).path(*key) + sub, {}, body)
    return applied


def test_what_was_never_applied_stays_where_an_apply_leaves_it_out(applying):
    assert applying("count", "tier") == judge.State(3, 2000, "web")


def test_what_was_applied_and_is_left_out_goes(applying):
    assert applying(side="250m", tier="job") == judge.State(5, 2000, "job", side_m=250)
    assert applying("count", "tier") == judge.State(1, 2000, "")


def test_what_was_applied_and_others_have_too_stays(applying):
    applying(to=3)
    assert applying("count", "tier") == judge.State(3, 2000, "web")


def test_what_others_change_is_theirs(applying):
    applying()
    applying.request("PATCH", "/scale", {"spec": {"replicas": 4}})
    assert applying("count").replicas == 4


def test_an_apply_makes_what_is_not_there(applying):
    for without, replicas in (((), 5), (("count",), 1)):
        applying.request("DELETE", "", None)
        assert applying(*without, side="250m") == judge.State(replicas, 2000, "web", side_m=250)


@pytest.mark.parametrize("spelling", PATCHES)
def test_a_replica_set_that_is_given_to_a_deployment_counts_with_it_until_it_is_taken_from_it(spelling):
    server, owner, key = ApiServer(), ("shop", "web-roll-0"), ("shop", "job-rs-1")
    reference = ReferenceModel(server)
    for one, replicas, cpu in ((owner, 2, "500m"), (key, 3, "1")):
        server.request("POST", objects.kind_of(one).path(one[0]), {}, objects.workload(one, replicas, cpu))
    alone = reference.workload(key)
    tree = server.objects(objects.kind_of(owner).collection)[owner]
    for sent in (drawing.adopting(key, tree, spelling), drawing.leaving(key, owner, spelling)):
        request = sent.request
        server.request(request.method, request.target, {}, sent.body, request.headers["content-type"])
        if sent.body != drawing.leaving(key, owner, spelling).body:
            assert reference.workload(key) is None
            assert reference.given() == {key: owner}
            assert reference.workloads() == {
                owner: judge.State(2, 500, "web", members=judge.Members(given=((3, 1000),)))
            }
            assert reference.workloads()[owner].amounts() == {"pods": 3, "requests.cpu": 3000, "requests.storage": 0}
    assert reference.workload(key) == alone


def test_a_map_is_replaced_deleted_and_kept_in_part_by_directives():
    item = {"a": 1, "b": {"c": 2}}
    assert patches.apply(item, STRATEGIC, {"b": {"$patch": "replace", "d": 3}}) == {"a": 1, "b": {"d": 3}}
    assert patches.apply(item, STRATEGIC, {"b": {"$patch": "delete"}}) == {"a": 1, "b": {}}
    assert patches.apply(item, STRATEGIC, {"$retainKeys": ["b", "e"], "e": 4}) == {"b": {"c": 2}, "e": 4}
    with pytest.raises(ApiError, match="422"):
        patches.apply(item, STRATEGIC, {"$retainKeys": ["b"], "e": 4})


def test_lists_without_names_are_replaced_whole():
    assert patches.apply({"a": [1]}, STRATEGIC, {"a": [2]}) == {"a": [2]}
    assert patches.apply({"a": [{"b": 1}]}, STRATEGIC, {"a": [{"b": 2}]}) == {"a": [{"b": 2}]}


def test_two_containers_of_one_name_and_a_count_that_is_no_number_do_not_pass():
    server = ApiServer()
    key = KEYS[0]
    path = objects.kind_of(key).path(*key)
    server.request("POST", objects.kind_of(key).path(key[0]), {}, objects.workload(key, 1, "1"))
    for body in (
        [{"op": "copy", "from": "/spec/template/spec/containers/0", "path": "/spec/template/spec/containers/-"}],
        [{"op": "copy", "from": "/metadata/name", "path": "/spec/replicas"}],
    ):
        with pytest.raises(ApiError, match="422"):
            server.request("PATCH", path, {}, body, objects.JSON_PATCH)
