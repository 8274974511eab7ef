"""A request from its first byte to its last: what ``read`` makes of it, and that nothing makes it raise or hang."""

from __future__ import annotations

import json

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.intake import read
from extauthz.core.intake.read import MAX_KEPT, Reader
from extauthz.core.model import (
    Apply,
    JsonPatch,
    MergePatch,
    NotAWrite,
    Operation,
    Precondition,
    Put,
    Request,
    StrategicMergePatch,
    Unreadable,
    WorkloadRef,
    Write,
)
from extauthz.core.wire.protofields import OBJECTS
from extauthz.testing.hanging import not_hanging

WEB = WorkloadRef("apps", "deployments", "ns", "web")
SCALE = "/apis/apps/v1/namespaces/ns/deployments/web/scale"
OBJECT = "/apis/apps/v1/namespaces/ns/deployments/web"
COLLECTION = "/apis/apps/v1/namespaces/ns/deployments"
THREE = {"spec": {"replicas": 3}}
THREE_JSON = json.dumps(THREE).encode()
OPERATION = b'{"op":"test","path":"/spec/replicas","value":1}'
THREE_PROTOBUF = b"k8s\0\x12\x04\x12\x02\x08\x03"


def request(method: str, target: str, content_type: str | None, body: bytes, *, truncated: bool = False) -> Request:
    return Request(method, target, {} if content_type is None else {"content-type": content_type}, body, truncated)


def code_of(method: str, target: str, content_type: str | None, body: bytes) -> str:
    found = read(request(method, target, content_type, body))
    assert isinstance(found, Unreadable), found
    assert found.ref == WorkloadRef("apps", "deployments", "ns", "" if method == "POST" else "web")
    return found.code


@pytest.mark.parametrize(
    ("method", "target", "content_type", "body", "operation", "change"),
    [
        pytest.param("PUT", SCALE, None, THREE_JSON, "update", Put(THREE), id="put-without-content-type"),
        pytest.param("PUT", SCALE, "application/json", THREE_JSON, "update", Put(THREE), id="put-json"),
        pytest.param("PUT", SCALE, "application/yaml", b"spec: {replicas: 3}", "update", Put(THREE), id="put-yaml"),
        pytest.param("PUT", SCALE, "application/cbor", cbor2.dumps(THREE), "update", Put(THREE), id="put-cbor"),
        pytest.param(
            "PUT", SCALE, "application/vnd.kubernetes.protobuf", THREE_PROTOBUF, "update", Put(THREE), id="put-protobuf"
        ),
        pytest.param(
            "PUT", OBJECT, "application/vnd.kubernetes.protobuf", THREE_PROTOBUF, "update", Put(THREE), id="put-object"
        ),
        pytest.param(
            "PATCH",
            SCALE,
            "application/json-patch+json",
            b'[{"op":"add","path":"/spec/replicas","value":3}]',
            "patch",
            JsonPatch(({"op": "add", "path": "/spec/replicas", "value": 3},)),
            id="json-patch",
        ),
        pytest.param(
            "PATCH", OBJECT, "application/merge-patch+json", THREE_JSON, "patch", MergePatch(THREE), id="merge"
        ),
        pytest.param(
            "PATCH",
            OBJECT,
            "application/strategic-merge-patch+json",
            THREE_JSON,
            "patch",
            StrategicMergePatch(THREE),
            id="strategic",
        ),
        pytest.param(
            "PATCH", OBJECT, "application/apply-patch+yaml", THREE_JSON, "apply", Apply(THREE), id="apply-json"
        ),
        pytest.param(
            "PATCH",
            OBJECT,
            "application/apply-patch+yaml",
            b"spec:\n  replicas: 3",
            "apply",
            Apply(THREE),
            id="apply-yaml",
        ),
        pytest.param(
            "PATCH", OBJECT, "application/apply-patch+cbor", cbor2.dumps(THREE), "apply", Apply(THREE), id="apply-cbor"
        ),
    ],
)
def test_a_write_is_read_whole(method, target, content_type, body, operation, change):
    expected = Write(WEB, Operation(operation), target == SCALE, dry_run=False, change=change)
    assert read(request(method, target, content_type, body)) == expected


class TestReader:
    """It says what ``read`` says, the second time as the first."""

    LONG = b'{"spec":{"replicas":3},"metadata":{"annotations":{"note":"%b"}}}' % (b"x" * MAX_KEPT)

    @pytest.mark.parametrize(
        "asked",
        [
            request("PATCH", SCALE, "application/merge-patch+json", THREE_JSON),
            request("PATCH", SCALE + "?dryRun=All&x=" + "y" * MAX_KEPT, "application/merge-patch+json", THREE_JSON),
            request("PATCH", OBJECT, "application/merge-patch+json", LONG),
            request("PATCH", SCALE, "application/merge-patch+json", b'{"spec":'),
            request("PATCH", SCALE, "text/plain", THREE_JSON),
            request("PATCH", SCALE, "application/merge-patch+json", THREE_JSON, truncated=True),
            request("PUT", SCALE, None, THREE_JSON),
            request("GET", SCALE, None, b""),
        ],
    )
    def test_it_reads_as_read_does(self, asked):
        reader = Reader()
        assert [reader(asked), reader(asked)] == [read(asked)] * 2

    def test_what_differs_in_anything_is_read_for_itself(self):
        """Method, target, content type and body: in any order, one after the other."""
        methods, types = ("PATCH", "PUT", "POST", "GET"), ("merge-patch", "strategic-merge-patch", "json-patch")
        bodies = (THREE_JSON, THREE_JSON.replace(b"3", b"4"), b'[{"op":"add","path":"/spec/replicas","value":3}]')
        asked = [
            request(method, target, f"application/{kind}+json", body)
            for method in methods
            for target in (SCALE, OBJECT, COLLECTION, SCALE + "?dryRun=All")
            for kind in types
            for body in bodies
        ]
        reader = Reader()
        for order in (asked, asked[::-1]):
            assert [reader(one) for one in order] == [read(one) for one in order]

    def test_a_patch_is_decoded_once_whatever_it_is_sent_to(self):
        reader = Reader()
        one, other = (
            reader(request("PATCH", target, "application/merge-patch+json", THREE_JSON)) for target in (SCALE, OBJECT)
        )
        assert one.change is other.change
        assert (one.scale, other.scale) == (True, False)
        assert read(request("PATCH", SCALE, "application/merge-patch+json", THREE_JSON)).change is not one.change

    @pytest.mark.parametrize(
        "content_type", ["application/merge-patch+json", "application/merge-patch+json;" + "x" * MAX_KEPT]
    )
    def test_what_is_long_is_not_kept(self, content_type):
        reader = Reader()
        body = THREE_JSON if len(content_type) > MAX_KEPT else self.LONG
        one, other = (reader(request("PATCH", OBJECT, content_type, body)) for _ in range(2))
        assert one.change is not other.change


def test_a_dry_run_is_told():
    found = read(request("PATCH", f"{SCALE}?dryRun=All", "application/merge-patch+json", THREE_JSON))
    assert isinstance(found, Write)
    assert found.dry_run


def test_an_autoscalers_put_is_bound_to_what_it_read():
    document = {"metadata": {"name": "web", "uid": "u", "resourceVersion": "7"}, **THREE}
    found = read(request("PUT", SCALE, None, json.dumps(document).encode()))
    assert found == Write(WEB, Operation.UPDATE, True, False, Put(document), Precondition("7", "u"))


@pytest.mark.parametrize(
    ("metadata", "name"), [({"name": "new"}, "new"), ({"generateName": "new-"}, ""), ({"name": None}, ""), ({}, "")]
)
def test_a_create_takes_its_name_from_the_body(metadata, name):
    found = read(request("POST", COLLECTION, None, json.dumps({"metadata": metadata}).encode()))
    assert isinstance(found, Write)
    assert (found.ref, found.operation) == (WEB._replace(name=name), Operation.CREATE)


def test_an_update_takes_its_name_from_the_path():
    found = read(request("PUT", OBJECT, None, b'{"metadata":{"name":"other","namespace":"elsewhere"}}'))
    assert isinstance(found, Write)
    assert found.ref == WEB


@pytest.mark.parametrize(
    ("method", "target", "content_type", "body", "code"),
    [
        pytest.param("PUT", SCALE, "text/plain", THREE_JSON, "unsupported-media-type", id="put-text"),
        pytest.param("PATCH", SCALE, None, THREE_JSON, "unsupported-media-type", id="patch-without-content-type"),
        pytest.param("PUT", SCALE, None, b"[]", "not-an-object", id="put-array"),
        pytest.param("PUT", SCALE, "application/yaml", b"", "not-an-object", id="put-empty-yaml"),
        pytest.param("PATCH", SCALE, "application/merge-patch+json", b"null", "not-an-object", id="merge-null"),
        pytest.param(
            "PATCH", SCALE, "application/strategic-merge-patch+json", b"5", "not-an-object", id="strategic-number"
        ),
        pytest.param("PATCH", SCALE, "application/apply-patch+yaml", b"- a", "not-an-object", id="apply-list"),
        pytest.param("PATCH", SCALE, "application/json-patch+json", b"{}", "not-an-array", id="json-patch-object"),
        pytest.param(
            "PATCH", SCALE, "application/json-patch+json", b"[[]]", "not-an-object", id="json-patch-of-arrays"
        ),
        pytest.param(
            "PATCH",
            OBJECT,
            "application/json-patch+json",
            b"[" + b",".join([OPERATION] * 10_001) + b"]",
            "too-many-operations",
            id="operations",
        ),
        pytest.param("POST", COLLECTION, None, b'{"metadata":{"name":5}}', "name-not-a-string", id="name"),
        pytest.param("PUT", SCALE, None, b" " * (3 * 1024 * 1024 + 1), "body-too-large", id="too-large"),
        pytest.param("PUT", SCALE, None, b'{"spec":{"replicas":3,"replicas":4}}', "duplicate-key", id="duplicate"),
        pytest.param("PUT", SCALE, "application/cbor", b"{}", "cbor-syntax", id="json-as-cbor"),
        pytest.param(
            "PUT", SCALE, "application/vnd.kubernetes.protobuf", b"{}", "protobuf-envelope", id="json-as-protobuf"
        ),
        pytest.param("PUT", SCALE, "application/yaml", b"a: *b", "yaml-alias", id="yaml"),
    ],
)
def test_what_cannot_be_told_is_unreadable_with_its_reason_and_workload(method, target, content_type, body, code):
    assert code_of(method, target, content_type, body) == code


def test_a_truncated_body_is_unreadable_even_if_it_parses():
    found = read(request("PUT", SCALE, None, THREE_JSON, truncated=True))
    assert isinstance(found, Unreadable)
    assert (found.code, found.ref) == ("truncated", WEB)


def test_a_body_of_exactly_three_mebibytes_is_read():
    found = read(request("PUT", OBJECT, None, THREE_JSON.ljust(3 * 1024 * 1024)))
    assert isinstance(found, Write)


def test_the_body_of_a_scale_is_read_up_to_64_kibibytes():
    most = THREE_JSON.ljust(64 * 1024)
    assert isinstance(read(request("PUT", SCALE, None, most)), Write)
    assert code_of("PUT", SCALE, None, most + b" ") == "body-too-large"


def test_ten_thousand_operations_are_read():
    body = b"[" + b",".join([OPERATION] * 10_000) + b"]"
    found = read(request("PATCH", OBJECT, "application/json-patch+json", body))
    assert isinstance(found, Write)


def test_the_body_of_what_is_no_write_is_never_looked_at():
    found = read(request("PUT", f"{OBJECT}/status", "text/plain", b"\xff", truncated=True))
    assert isinstance(found, NotAWrite)


@pytest.mark.parametrize("resource", sorted(OBJECTS))
def test_every_built_in_workload_is_read_from_protobuf(resource):
    group = "api/v1" if resource == "replicationcontrollers" else "apis/apps/v1"
    target = f"/{group}/namespaces/ns/{resource}/web"
    found = read(request("PUT", target, "application/vnd.kubernetes.protobuf", THREE_PROTOBUF))
    assert isinstance(found, Write)
    assert found.change == Put(THREE)


def test_the_scale_of_a_custom_resource_is_read_from_protobuf():
    target = "/apis/argoproj.io/v1/namespaces/ns/rollouts/web/scale"
    found = read(request("PUT", target, "application/vnd.kubernetes.protobuf", THREE_PROTOBUF))
    assert isinstance(found, Write)
    assert (found.ref, found.change) == (WorkloadRef("argoproj.io", "rollouts", "ns", "web"), Put(THREE))


MEBIBYTES = 3 * 1024 * 1024


@pytest.mark.parametrize(
    ("content_type", "unit"),
    [
        pytest.param("application/json", b"[", id="json-nested"),
        pytest.param("application/json", b"{},", id="json-objects"),
        pytest.param("application/json", b"1,", id="json-numbers"),
        pytest.param("application/json", b'"",', id="json-strings"),
        pytest.param("application/json", b"9", id="json-digits"),
        pytest.param("application/json", b"\\ud800", id="json-escapes"),
        pytest.param("application/yaml", b"- ", id="yaml-nested"),
        pytest.param("application/yaml", b"[", id="yaml-flow-nested"),
        pytest.param("application/yaml", b"{a: ", id="yaml-maps-nested"),
        pytest.param("application/yaml", b"- a\n", id="yaml-list"),
        pytest.param("application/yaml", b"#\n", id="yaml-comments"),
        pytest.param("application/yaml", b"%A\n", id="yaml-directives"),
        pytest.param("application/yaml", b"? ", id="yaml-keys"),
        pytest.param("application/yaml", b"&a ", id="yaml-anchors"),
        pytest.param("application/yaml", b"x\n\n", id="yaml-folded"),
        pytest.param("application/yaml", b"!", id="yaml-tag"),
        pytest.param("application/yaml", b"9", id="yaml-digits"),
        pytest.param("application/yaml", b"---\n", id="yaml-documents"),
        pytest.param("application/cbor", b"\x81", id="cbor-nested"),
        pytest.param("application/cbor", b"\x9f", id="cbor-indefinite"),
        pytest.param("application/cbor", b"\xc6", id="cbor-tags"),
        pytest.param("application/cbor", b"\x7f\x60", id="cbor-chunks"),
        pytest.param("application/vnd.kubernetes.protobuf", b"\x12\x00", id="protobuf-fields"),
        pytest.param("application/vnd.kubernetes.protobuf", b"\x80", id="protobuf-number"),
    ],
)
@pytest.mark.parametrize("prefix", [b"", b"[", b'["', b"k8s\0", b"\x9f", b"\x7f", b"a: "])
def test_three_mebibytes_of_anything_are_answered_and_hang_nothing(content_type, unit, prefix):
    body = (prefix + unit * (MEBIBYTES // len(unit)))[:MEBIBYTES]
    with not_hanging():
        assert read(request("PUT", OBJECT, content_type, body))


TYPES = st.sampled_from(
    [
        None,
        "application/json",
        "application/yaml",
        "application/cbor",
        "application/vnd.kubernetes.protobuf",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/apply-patch+cbor",
    ]
) | st.text(max_size=20)
BODIES = st.binary(max_size=80) | st.sampled_from([THREE_JSON, THREE_PROTOBUF, cbor2.dumps(THREE), b"[{}]", b"a: *b"])
TARGETS = st.sampled_from([SCALE, OBJECT, COLLECTION, "/", "//", "/apis", f"{SCALE}?dryRun=All"]) | st.text(max_size=40)


@settings(deadline=None)
@given(st.sampled_from(["PUT", "PATCH", "POST", "GET"]) | st.text(max_size=6), TARGETS, TYPES, BODIES, st.booleans())
def test_read_never_raises(method, target, content_type, body, truncated):
    found = read(request(method, target, content_type, body, truncated=truncated))
    assert isinstance(found, Write | NotAWrite | Unreadable)
    if not isinstance(found, Write):
        assert found.code
        assert found.code == found.code.lower()
