"""Bodies that ask for fewer replicas: only count and version differ, in every encoding, or nothing is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz.core.intake import rewritten as module
from extauthz.core.intake.counts import read
from extauthz.core.intake.rewritten import rewritten
from extauthz.core.model import Request, Write
from extauthz.testing import create, patch, path, put_scale, scale, workload
from tests.unit.intake import test_read
from tests.unit.intake.test_protobuf import body, field

PROTOBUF = {"content-type": "application/vnd.kubernetes.protobuf"}
REPLICAS = {"op": "replace", "path": "/spec/replicas", "value": 9}
TEST = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}


def said(request: Request) -> Any:
    made = rewritten(request, 4, "7")
    assert made is not None
    return json.loads(made)


@pytest.mark.parametrize("kind", ["merge", "strategic"])
@pytest.mark.parametrize("sub", ["", "scale"])
def test_a_patch_keeps_all_but_the_count_and_is_bound_to_the_version(kind: str, sub: str):
    given = {"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 9, "minReadySeconds": 5}}
    assert said(patch(path("web", sub=sub), given, kind)) == {
        "metadata": {"annotations": {"a": "b"}, "resourceVersion": "7"},
        "spec": {"replicas": 4, "minReadySeconds": 5},
    }


def test_a_json_patch_tests_the_version_first():
    annotate = {"op": "add", "path": "/metadata/annotations", "value": {}}
    assert said(patch(path("web"), [annotate, REPLICAS], "json")) == [TEST, annotate, REPLICAS | {"value": 4}]
    assert said(scale("web", 9)) == [TEST, {"op": "add", "path": "/spec/replicas", "value": 4}]


def test_what_is_bound_already_is_bound_as_it_was():
    assert said(put_scale("web", 9, "7"))["metadata"] == {"name": "web", "namespace": "team-a", "resourceVersion": "7"}
    bound = patch(path("web"), [TEST, REPLICAS], "json")
    assert said(bound) == [TEST, REPLICAS | {"value": 4}]


def test_a_scale_keeps_every_field():
    tree = {"status": {"replicas": 2}, "spec": {"replicas": 9, "x": [1, None, True]}}
    request = put_scale("web", 9)._replace(body=json.dumps(tree).encode())
    assert said(request) == {
        "status": {"replicas": 2},
        "spec": {"replicas": 4, "x": [1, None, True]},
        "metadata": {"resourceVersion": "7"},
    }


def test_protobuf_keeps_every_field_that_is_not_the_count_or_the_version():
    metadata = field(1, "web") + field(12, b"\x0a\x01a") + field(3, "team-a")
    unknown = field(99, b"\x01\x02")
    raw = unknown + field(1, metadata) + field(2, field(2, "x") + field(1, 900) + field(7, 5)) + field(3, b"")
    request = Request("PUT", path("web", sub="scale"), PROTOBUF, body(raw, "autoscaling/v1", "Scale"))
    lowered = field(1, field(6, "7") + metadata) + field(2, field(1, 300) + field(2, "x") + field(7, 5))
    kind = field(1, field(1, "autoscaling/v1") + field(2, "Scale")) + field(3, "") + field(4, "")
    assert rewritten(request, 300, "7") == b"k8s\0" + field(2, lowered + unknown + field(3, b"")) + kind
    bound = body(field(1, metadata + field(6, "7")) + field(2, field(1, 900)))
    assert read(request._replace(body=rewritten(request._replace(body=bound), 300, "7"))).replicas == 300


def patched(kind: str, data: bytes) -> Request:
    return Request("PATCH", path("web"), {"content-type": f"application/{kind}"}, data)


def scaled(data: bytes) -> Request:
    return Request("PUT", path("web", sub="scale"), PROTOBUF, body(data))


COUNT = field(2, field(1, 9))


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(Request("GET", path("web"), {}, b""), id="no write"),
        pytest.param(patch(path("web"), {"spec": {"minReadySeconds": 5}}), id="no count"),
        pytest.param(patch(path("web"), {"spec": 9}), id="no spec"),
        pytest.param(
            patch(path("web"), {"spec": {"replicas": 9}, "metadata": {"$patch": "merge"}}, "strategic"),
            id="a directive",
        ),
        pytest.param(
            patch(path("web"), {"spec": {"replicas": 9, "x": 2**70}}), id="a number that JSON writers differ about"
        ),
        pytest.param(create(workload("web", 9)), id="a whole object"),
        pytest.param(patch(path("web"), {"spec": {"replicas": None}}), id="the default"),
        pytest.param(patch(path("web"), {"spec": {"replicas": 9}, "metadata": 5}), id="odd metadata"),
        pytest.param(patch(path("web"), [REPLICAS, REPLICAS], "json"), id="a count twice"),
        pytest.param(patch(path("web"), [{"op": "remove", "path": "/spec/replicas"}], "json"), id="a count removed"),
        pytest.param(patched("merge-patch+json", b'{"spec":{"replicas":9,"x":0.10}}'), id="a fraction"),
        pytest.param(patched("apply-patch+cbor", b"\xa1dspec\xa1hreplicas\x09"), id="cbor"),
        pytest.param(scaled(b"\x02"), id="no protobuf"),
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


@pytest.mark.parametrize(
    "raw",
    [field(1, field(1, "web")) + COUNT + COUNT, COUNT, field(1, b"") + field(2, field(1, 9) + field(1, 9))],
    ids=["parts", "no metadata", "twice"],
)
def test_protobuf_that_says_it_in_parts_is_written_in_one(raw: bytes):
    request = scaled(raw)
    found = read(request._replace(body=rewritten(request, 4, "7")))
    assert (found.replicas, found.precondition.resource_version) == (4, "7")


def recorded_counts() -> list[tuple[Request, Write]]:
    """What autoscalers and kubectl were recorded to send that asks for a count above 1."""
    requests = [test_read.request_of(row) for row in test_read.RECORDED]
    return [(one, found) for one in requests if isinstance(found := read(one), Write) and found.replicas > 1]


def test_every_recorded_count_can_be_lowered():
    recorded = recorded_counts()
    for request, before in recorded:
        version = before.precondition.resource_version or "7"
        made = rewritten(request, 1, version)
        assert made is not None, request
        after = read(request._replace(body=made))
        wanted = before.precondition._replace(resource_version=version)
        assert after == before._replace(replicas=1, precondition=wanted)
    assert len(recorded) == 14
