"""Bodies that ask for fewer replicas: only count and version differ, in every encoding, or nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz.core.errors import BodyError
from extauthz.core.intake import rewritten as module
from extauthz.core.intake.read import read
from extauthz.core.intake.rewritten import rewritten
from extauthz.core.model import Operation, Request, Write
from extauthz.core.wire import goproto, protoedit
from extauthz.core.wire.protofields import OBJECTS, SCALE
from extauthz.testing.builders import create, patch, path, put_scale, scale, workload
from tests.unit.intake import test_recorded
from tests.unit.intake.test_protobuf import body, field

PROTOBUF = {"content-type": "application/vnd.kubernetes.protobuf"}
REPLICAS = {"op": "replace", "path": "/spec/replicas", "value": 9}
TEST = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
UNBOUND = workload("web", 9)
del UNBOUND["metadata"]["resourceVersion"]


def put(tree: dict[str, Any], **headers: str) -> Request:
    return create(tree)._replace(method="PUT", target=path("web"), headers=headers)


def said(request: Request) -> Any:
    made = rewritten(request, 4, "7")
    assert made is not None
    return json.loads(made)


@pytest.mark.parametrize("kind", ["merge", "strategic", "apply"])
@pytest.mark.parametrize("sub", ["", "scale"])
def test_a_patch_keeps_all_but_the_count_and_is_bound_to_the_version(kind: str, sub: str):
    given = {"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 9, "paused": True}}
    assert said(patch(path("web", sub=sub), given, kind)) == {
        "metadata": {"annotations": {"a": "b"}, "resourceVersion": "7"},
        "spec": {"replicas": 4, "paused": True},
    }


def test_a_json_patch_tests_the_version_first():
    annotate = {"op": "add", "path": "/metadata/annotations", "value": {}}
    assert said(patch(path("web"), [annotate, REPLICAS], "json")) == [TEST, annotate, REPLICAS | {"value": 4}]
    assert said(scale("web", 9)) == [TEST, {"op": "add", "path": "/spec/replicas", "value": 4}]


def test_what_is_bound_already_is_bound_as_it_was():
    assert said(put_scale("web", 9, "7"))["metadata"] == {
        "name": "web",
        "namespace": "team-a",
        "resourceVersion": "7",
    }
    bound = patch(path("web"), [TEST, REPLICAS], "json")
    assert said(bound) == [TEST, REPLICAS | {"value": 4}]


def test_a_whole_object_keeps_every_field():
    tree = UNBOUND | {"status": {"replicas": 2}, "extra": {"unknown": [1, None, True]}}
    made = said(put(tree))
    assert made.pop("metadata") == UNBOUND["metadata"] | {"resourceVersion": "7"}
    assert made.pop("spec") == UNBOUND["spec"] | {"replicas": 4}
    assert made == {key: tree[key] for key in ("apiVersion", "kind", "status", "extra")}


def test_yaml_becomes_json_which_is_yaml_too():
    text = b"metadata: {name: web}\nspec:\n  replicas: 9\n  # a comment\n  paused: yes\n"
    request = Request("PATCH", path("web"), {"content-type": "application/apply-patch+yaml"}, text)
    assert said(request) == {
        "metadata": {"name": "web", "resourceVersion": "7"},
        "spec": {"replicas": 4, "paused": True},
    }


def test_protobuf_keeps_every_byte_that_is_not_the_count_or_the_version():
    metadata = field(1, "web") + field(12, b"\x0a\x01a") + field(3, "team-a")
    unknown = field(99, b"\x01\x02")
    raw = field(1, metadata) + unknown + field(2, field(2, "x") + field(1, 900) + field(7, 5)) + field(3, b"")
    request = Request("PUT", path("web", sub="scale"), PROTOBUF, body(raw, "autoscaling/v1", "Scale"))
    lowered = field(1, metadata + field(6, "7")) + unknown + field(2, field(2, "x") + field(1, 4) + field(7, 5))
    assert rewritten(request, 4, "7") == body(lowered + field(3, b""), "autoscaling/v1", "Scale")
    bound = body(field(1, metadata + field(6, "7")) + field(2, field(1, 900)))
    assert rewritten(request._replace(body=bound), 4, "7") == body(
        field(1, metadata + field(6, "7")) + field(2, field(1, 4))
    )


def test_a_whole_object_in_protobuf_is_lowered_too():
    raw = field(1, field(1, "web")) + field(2, field(1, 9) + field(2, field(1, field(1, "app") + field(2, "web"))))
    made = rewritten(Request("PUT", path("web"), PROTOBUF, body(raw)), 300, "7")
    assert made is not None
    tree = goproto.loads(made, OBJECTS["deployments"])
    assert (tree["spec"]["replicas"], tree["metadata"]) == (300, {"name": "web", "resourceVersion": "7"})
    assert tree["spec"]["selector"] == {"matchLabels": {"app": "web"}}


def patched(kind: str, data: bytes) -> Request:
    return Request("PATCH", path("web"), {"content-type": f"application/{kind}"}, data)


def scaled(data: bytes) -> Request:
    return Request("PUT", path("web", sub="scale"), PROTOBUF, body(data))


COUNT = field(2, field(1, 9))


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(Request("GET", path("web"), {}, b""), id="no write"),
        pytest.param(patch(path("web"), {"spec": {"paused": True}}), id="no count"),
        pytest.param(patch(path("web"), {"spec": 9}), id="no spec"),
        pytest.param(patch(path("web"), {"spec": {"replicas": 9}, "metadata": {"$patch": "merge"}}), id="a directive"),
        pytest.param(put(workload("web", 9) | {"x": 2**70}), id="a number that JSON writers differ about"),
        pytest.param(patched("merge-patch+json", b'{"spec":{"replicas":9,"x":0.10}}'), id="a fraction"),
        pytest.param(patched("apply-patch+cbor", b"\xa1dspec\xa1hreplicas\x09"), id="cbor"),
        pytest.param(scaled(field(1, field(1, "web")) + COUNT + COUNT), id="parts"),
        pytest.param(scaled(COUNT), id="no metadata"),
        pytest.param(scaled(field(1, b"") + field(2, field(1, 9) + field(1, 9))), id="twice"),
    ],
)
def test_what_cannot_be_written_for_sure_is_left_alone(request_: Request):
    assert rewritten(request_, 4, "7") is None


def test_what_does_not_read_as_it_should_is_not_sent(monkeypatch: pytest.MonkeyPatch):
    request = put_scale("web", 9, "7")
    assert rewritten(request, 4, "7") is not None
    assert rewritten(request, 4, "8") is None, "it is bound to another version"
    monkeypatch.setattr(module, "_encoded", lambda *_: b'{"spec": {"replicas": 5}}')
    assert rewritten(request, 4, "7") is None
    monkeypatch.setattr(module, "_encoded", lambda *_: b'{"spec"')
    assert rewritten(request, 4, "7") is None


def test_the_given_reading_is_not_changed():
    request = patch(path("web"), {"spec": {"replicas": 9}})
    before = read(request)
    rewritten(request, 4, "7")
    assert isinstance(before, Write)
    assert before.change.patch == {"spec": {"replicas": 9}}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"{}", "protobuf-envelope", id="json"),
        pytest.param(body(field(2, 5)), "protobuf-syntax", id="a number in place of a message"),
        pytest.param(body(b""), "protobuf-parts", id="no spec"),
    ],
)
def test_only_protobuf_of_one_piece_is_edited(data: bytes, code: str):
    with pytest.raises(BodyError) as error:
        protoedit.edited(data, SCALE, ("spec", "replicas"), 4)
    assert error.value.code == code


def counts() -> list[Request]:
    """What autoscalers and kubectl were recorded to send that asks for a count of something that is there."""
    found = [(test_recorded.request_of(row), read(test_recorded.request_of(row))) for row in test_recorded.RECORDED]
    writes = [(request, write) for request, write in found if isinstance(write, Write)]
    updates = [(request, write) for request, write in writes if write.operation is not Operation.CREATE]
    return [request for request, write in updates if (test_recorded.replicas_of(write.change) or 0) > 1]


def test_every_recorded_count_of_an_autoscaler_can_be_lowered():
    bound = 0
    for request in counts():
        before = read(request)
        assert isinstance(before, Write)
        version = before.precondition.resource_version
        made = rewritten(request, 1, version or "7")
        assert made is not None, request
        after = read(request._replace(body=made))
        assert isinstance(after, Write)
        assert test_recorded.replicas_of(after.change) == 1
        bound += version is not None
    assert (len(counts()), bound) == (16, 4)
