"""What is read aside is decided as if it were read at once; what takes long, and only that, is read aside."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extauthz.core.budget import AT_ONCE, AT_ONCE_BYTES, REST
from extauthz.core.effects.resolve import resolve
from extauthz.core.intake.aside import read_aside
from extauthz.core.intake.read import MAX_BODY_BYTES, Reader, read
from extauthz.core.model import NotAWrite, Observed, Request, Unreadable, Write
from extauthz.core.objects.partial import KNOWN
from tests.fuzz.measure import OBJECT, Case, observed
from tests.fuzz.shapes import KINDS

MERGE = {"content-type": "application/merge-patch+json"}
TEXT = "x" * AT_ONCE_BYTES


def patch(tree: object, kind: str = "merge-patch+json") -> Request:
    return Request("PATCH", OBJECT, {"content-type": f"application/{kind}"}, json.dumps(tree).encode())


# What takes long.


@pytest.mark.parametrize(
    ("request_", "aside"),
    [
        pytest.param(patch({"spec": {"replicas": 3}}), False, id="short"),
        pytest.param(patch({"spec": {"paused": TEXT}}), True, id="long"),
        pytest.param(patch({"a": [0] * AT_ONCE}), True, id="short-and-costly"),
        pytest.param(patch({"a": [0] * AT_ONCE})._replace(target=f"{OBJECT}/scale"), False, id="costly-scale"),
        pytest.param(patch({"spec": {"a": TEXT}})._replace(target=f"{OBJECT}/scale"), False, id="long-scale"),
        pytest.param(patch({"spec": {"a": TEXT}})._replace(target=f"{OBJECT}/status"), False, id="long-status"),
        pytest.param(patch({"spec": {"a": TEXT}})._replace(truncated=True), False, id="truncated"),
        pytest.param(Request("PUT", OBJECT, {}, b"x" * MAX_BODY_BYTES), True, id="as-long-as-may-be"),
        pytest.param(Request("PUT", OBJECT, {}, b"x" * (MAX_BODY_BYTES + 1)), False, id="too-long"),
        pytest.param(patch({"a": [0] * 30}, "no-such-patch"), False, id="not-served"),
    ],
)
def test_what_takes_long_is_not_read_at_once(request_, aside):
    reader = Reader()
    found = reader.at_once(request_)
    assert (found is None) is aside
    if found is not None:
        assert found == read(request_) == reader(request_)


def test_a_shorter_body_may_be_said_to_take_long():
    body = patch({"spec": {"replicas": 3}})
    assert Reader(len(body.body)).at_once(body) is not None
    assert Reader(len(body.body) - 1).at_once(body) is None


# What is left of it.

KEYS = [*sorted({key for keys in KNOWN.values() for key in keys}), "env", "image", "ownerReferences", "generateName"]
DIRECTIVES = ["$patch", "$retainKeys", "$setElementOrder/containers", "$setElementOrder/env", "$other"]
LEAVES = st.sampled_from([None, 0, 3, True, "", "1", "web", "delete", "replace", "merge"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS + DIRECTIVES), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "kind": LEAVES,
        "status": TREES,
        "metadata": st.dictionaries(st.sampled_from([*KNOWN["metadata"], "annotations", "ownerReferences"]), TREES),
        "spec": st.dictionaries(st.sampled_from([*KNOWN["spec"], "paused", "selector", *DIRECTIVES]), TREES)
        | st.fixed_dictionaries(
            {"template": st.fixed_dictionaries({"spec": st.dictionaries(st.sampled_from(KEYS + DIRECTIVES), TREES)})}
        ),
    },
)
BODIES = st.sampled_from(
    ["PUT", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "json-patch+json"]
)


@example(
    body={"metadata": {"labels": 0}, "spec": {"template": {"spec": {"$retainKeys": [], "env": 0}}}},
    kind="strategic-merge-patch+json",
)
@example(body={"spec": {"$setElementOrder/containers": None}}, kind="merge-patch+json")
@example(body={"spec": {"template": {"spec": {"$retainKeys": ["env"], "env": 1}}}}, kind="strategic-merge-patch+json")
@example(body={"metadata": {"annotations": {"a": "1"}, "labels": {"b": "2"}}}, kind="PUT")
@given(body=OBJECTS, kind=BODIES)
def test_what_is_left_out_changes_no_outcome(body, kind):
    if kind == "PUT":
        request = Request("PUT", OBJECT, {}, json.dumps(body).encode())
    else:
        operation = [{"op": "replace", "path": "", "value": body}]
        request = patch(operation if kind == "json-patch+json" else body, kind)
    for base in (None, observed(2), Observed(1, None, "a=b")):
        assert_same(request, base)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_of_costly_shapes_changes_no_outcome(kind):
    method, content_type, shapes = KINDS[kind]
    for shape in shapes:
        assert_same(Request(method, OBJECT, {"content-type": content_type}, Case(kind, shape, 20).body()), observed(3))


def assert_same(request: Request, base: Observed | None) -> None:
    whole, slim = read(request), read_aside(request)
    if not isinstance(whole, Write):
        assert slim == whole
        return
    assert isinstance(slim, Write)
    assert slim._replace(change=whole.change) == whole
    before, after = resolve(whole, base), resolve(slim, base)
    # A malformed field that counts for nothing is not seen: then another one may be named, or none. The API server
    # refuses what is malformed by itself.
    assert after == before or isinstance(before, Unreadable)


def test_the_pods_labels_of_a_replication_controller_are_left():
    target = "/api/v1/namespaces/shop/replicationcontrollers/web"
    template = {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}, "spec": {"containers": []}}
    request = Request("PUT", target, {}, json.dumps({"spec": {"template": template}}).encode())
    assert resolve(read_aside(request), None) == resolve(read(request), None)
    assert resolve(read_aside(request), None).labels == "app=web"


def test_of_a_list_of_operations_nothing_is_left_out():
    value = {"spec": {"paused": True}, "kind": "Deployment"}
    lone = {"op": "replace", "path": "", "value": value}
    assert read_aside(patch([lone], "json-patch+json")).change.operations == (
        {"op": "replace", "path": "", "value": {"spec": {}}},
    )
    for operations in ([lone, lone], [lone | {"path": "/spec"}], [{"op": "test", "path": ""}], []):
        request = patch(operations, "json-patch+json")
        assert read_aside(request) == read(request)


@pytest.mark.parametrize(("values", "expected"), [(REST - 9, "read"), (REST - 8, "too-complex")])
def test_of_what_counts_there_may_be_only_so_much(values, expected):
    requests = {str(number): "1" for number in range(values)}
    container = {"name": "a", "resources": {"requests": requests}}
    found = read_aside(patch({"spec": {"template": {"spec": {"containers": [container]}}}}))
    assert getattr(found, "code", "read") == expected
    assert found.ref.name == "web"


def test_what_is_no_write_or_cannot_be_read_stays():
    assert isinstance(read_aside(Request("GET", OBJECT, {}, b"")), NotAWrite)
    assert read_aside(Request("PUT", OBJECT, {}, b"{")).code == "json-syntax"


@pytest.mark.parametrize("amount", [b"0.5", b"1e2", b"3.0"])
def test_what_is_read_comes_through_a_pipe_with_the_spelling_of_its_numbers(amount):
    resources = b'{"name":"main","resources":{"requests":{"cpu":%s}}}' % amount
    body = b'{"spec":{"template":{"spec":{"containers":[%s]}}}}' % resources
    target = "/apis/apps/v1/namespaces/shop/deployments/web"
    found = read_aside(Request("PATCH", target, {"content-type": "application/merge-patch+json"}, body))
    back = pickle.loads(pickle.dumps(found, pickle.HIGHEST_PROTOCOL))
    (container,) = back.change.patch["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"].text == amount.decode()
