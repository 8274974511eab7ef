"""A request from its first byte to its last: what ``read`` makes of it; nothing makes it raise or cost much."""

from __future__ import annotations

import base64
import gc
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.intake import counts, read
from extauthz.core.intake.counts import MAX_BYTES, MAX_KEPT, Reader
from extauthz.core.model import (
    NotACount,
    NotAWrite,
    Operation,
    Precondition,
    Reading,
    Request,
    Unreadable,
    WorkloadRef,
    Write,
)
from extauthz.core.wire.gojson import COUNT, VALUE

WEB = WorkloadRef("apps", "deployments", "ns", "web")
OBJECT = "/apis/apps/v1/namespaces/ns/deployments/web"
SCALE = f"{OBJECT}/scale"
COLLECTION = "/apis/apps/v1/namespaces/ns/deployments"
JSON, PROTOBUF, YAML = "application/json", "application/vnd.kubernetes.protobuf", "application/yaml"
JSON_PATCH, MERGE, STRATEGIC, APPLY = (
    f"application/{kind}"
    for kind in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
)

THREE = b'{"spec":{"replicas":3}}'
BOUND = b'{"metadata":{"name":"web","uid":"u","resourceVersion":"7"},"spec":{"replicas":3}}'
OPERATIONS = (
    b'[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/spec/replicas","value":3}]'
)
THREE_PROTOBUF = b"k8s\0\x12\x04\x12\x02\x08\x03"


def request(method: str, target: str, content_type: str | None, body: bytes, *, truncated: bool = False) -> Request:
    return Request(method, target, {} if content_type is None else {"content-type": content_type}, body, truncated)


@pytest.mark.parametrize(
    ("target", "content_type", "body", "version"),
    [
        pytest.param(SCALE, None, THREE, Precondition(), id="put-without-content-type"),
        pytest.param(SCALE, JSON, BOUND, Precondition("7", "u"), id="put-on-what-it-read"),
        pytest.param(SCALE, PROTOBUF, THREE_PROTOBUF, Precondition(), id="put-protobuf"),
        pytest.param(SCALE, JSON_PATCH, OPERATIONS, Precondition("7"), id="json-patch"),
        pytest.param(OBJECT, JSON_PATCH, OPERATIONS, Precondition("7"), id="json-patch-of-the-object"),
        pytest.param(SCALE, MERGE, BOUND, Precondition("7"), id="merge"),
        pytest.param(OBJECT, MERGE, THREE, Precondition(), id="merge-of-the-object"),
        pytest.param(OBJECT, STRATEGIC, THREE, Precondition(), id="strategic"),
    ],
)
def test_a_count_is_read_with_its_precondition_in_whatever_form_it_comes(target, content_type, body, version):
    is_patch = bool(content_type) and "patch" in content_type
    operation = Operation.PATCH if is_patch else Operation.UPDATE
    for query in ("", "?dryRun=All"):
        asked = request("PATCH" if is_patch else "PUT", target + query, content_type, body)
        assert read(asked) == Write(WEB, operation, target == SCALE, bool(query), 3, None, version)


def test_an_update_takes_its_name_from_the_path():
    found = read(request("PUT", SCALE, None, b'{"metadata":{"name":"other","namespace":"elsewhere"}}'))
    assert found == Write(WEB, Operation.UPDATE, True, False, 0)


LONG = THREE[:-1] + b',"metadata":{"annotations":{"note":"%b"}}}' % (b"x" * MAX_BYTES)
MANY = THREE[:-1] + b',"x":[%b0]}' % (b"0," * (COUNT // VALUE))


@pytest.mark.parametrize(
    ("method", "target", "content_type", "body", "why"),
    [
        pytest.param("POST", COLLECTION, None, THREE, "a whole object", id="create"),
        pytest.param("PUT", OBJECT, PROTOBUF, b"", "a whole object", id="replace"),
        pytest.param("PATCH", OBJECT, APPLY, THREE, "content type", id="apply"),
        pytest.param("PATCH", SCALE, APPLY, THREE, "content type", id="apply-of-a-scale"),
        pytest.param("PUT", SCALE, YAML, b"spec: {replicas: 3}", "content type", id="a-scale-in-yaml"),
        pytest.param("PATCH", OBJECT, MERGE, b'{"spec":{"template":{}}}', "spec.template", id="a-template"),
        pytest.param("PATCH", SCALE, STRATEGIC, b'{"$patch":"replace"}', "directives", id="a-directive"),
        pytest.param("PATCH", OBJECT, MERGE, LONG, "at most 16384 bytes", id="a-long-patch"),
        pytest.param("PATCH", OBJECT, MERGE, MANY, "few values", id="a-patch-of-many-values"),
    ],
)
def test_what_may_be_more_than_a_count_is_told_and_not_read(method, target, content_type, body, why):
    found = read(request(method, target, content_type, body))
    assert isinstance(found, NotACount)
    assert found.ref == WEB._replace(name="" if method == "POST" else "web")
    assert why in found.why


def test_a_patch_of_which_only_a_part_came_may_be_more_than_a_count():
    assert isinstance(read(request("PATCH", OBJECT, MERGE, THREE, truncated=True)), NotACount)


@pytest.mark.parametrize(
    ("method", "content_type", "body", "code"),
    [
        pytest.param("PUT", "text/plain", THREE, "unsupported-media-type", id="put-text"),
        pytest.param("PATCH", None, THREE, "unsupported-media-type", id="patch-without-content-type"),
        pytest.param("PUT", None, b"[]", "not-an-object", id="put-array"),
        pytest.param("PATCH", MERGE, b"null", "not-an-object", id="merge-null"),
        pytest.param("PATCH", STRATEGIC, b"5", "not-an-object", id="strategic-number"),
        pytest.param("PATCH", JSON_PATCH, b"{}", "not-an-array", id="json-patch-object"),
        pytest.param("PATCH", JSON_PATCH, b'[{"op":"x","path":""}]', "patch-malformed", id="json-patch-operation"),
        pytest.param("PUT", None, b'{"spec":{"replicas":3,"replicas":4}}', "duplicate-key", id="duplicate"),
        pytest.param("PUT", None, b'{"spec":{"replicas":-3}}', "replicas-negative", id="negative"),
        pytest.param("PUT", PROTOBUF, b"{}", "protobuf-envelope", id="json-as-protobuf"),
        pytest.param("PUT", None, LONG, "body-too-large", id="too-large"),
        pytest.param("PUT", None, MANY, "too-complex", id="too-many-values"),
        pytest.param("PATCH", MERGE, LONG, "body-too-large", id="a-patch-too-large"),
    ],
)
def test_a_scale_that_cannot_be_read_is_refused_by_name_and_workload(method, content_type, body, code):
    found = read(request(method, SCALE, content_type, body))
    assert isinstance(found, Unreadable)
    assert (found.code, found.ref) == (code, WEB)
    assert len(found.detail) < 200


def test_a_truncated_scale_is_unreadable_even_if_it_parses():
    found = read(request("PUT", SCALE, None, THREE, truncated=True))
    assert isinstance(found, Unreadable)
    assert (found.code, found.ref) == ("truncated", WEB)


def test_a_body_of_exactly_16_kibibytes_is_read():
    most = THREE.ljust(MAX_BYTES)
    assert isinstance(read(request("PUT", SCALE, None, most)), Write)
    assert isinstance(read(request("PATCH", OBJECT, MERGE, most)), Write)


def test_the_body_of_what_is_no_write_is_never_looked_at():
    found = read(request("PUT", f"{OBJECT}/status", "text/plain", b"\xff", truncated=True))
    assert isinstance(found, NotAWrite)


def test_what_leaves_the_count_as_it_is_is_no_write():
    found = read(request("PATCH", OBJECT, MERGE, b'{"metadata":{"annotations":{"a":"b"}}}'))
    assert isinstance(found, NotAWrite)
    assert found.code == "no-count"


class TestReader:
    """It says what ``read`` says, the second time as the first."""

    @pytest.mark.parametrize(
        "asked",
        [
            request("PATCH", SCALE, MERGE, THREE),
            request("PATCH", SCALE + "?dryRun=All&x=" + "y" * MAX_KEPT, MERGE, THREE),
            request("PATCH", OBJECT, MERGE, LONG),
            request("PATCH", SCALE, MERGE, b'{"spec":'),
            request("PATCH", SCALE, "text/plain", THREE),
            request("PATCH", SCALE, MERGE, THREE, truncated=True),
            request("PUT", SCALE, None, THREE),
            request("GET", SCALE, None, b""),
        ],
    )
    def test_it_reads_as_read_does(self, asked):
        reader = Reader()
        assert [reader(asked), reader(asked)] == [read(asked)] * 2

    def test_what_differs_in_anything_is_read_for_itself(self):
        """Method, target, content type and body: in any order, one after the other."""
        bodies = (THREE, THREE.replace(b"3", b"4"), OPERATIONS, b'{"spec":null}')
        asked = [
            request(method, target, content_type, body)
            for method in ("PATCH", "PUT", "POST", "GET")
            for target in (SCALE, OBJECT, COLLECTION, SCALE + "?dryRun=All")
            for content_type in (MERGE, STRATEGIC, JSON_PATCH, None)
            for body in bodies
        ]
        reader = Reader()
        for order in (asked, asked[::-1]):
            assert [reader(one) for one in order] == [read(one) for one in order]

    @pytest.mark.parametrize(
        ("content_type", "body", "is_kept"),
        [
            pytest.param(MERGE, BOUND, True, id="small"),
            pytest.param(MERGE, BOUND.ljust(MAX_KEPT), False, id="a-long-body"),
            pytest.param(f"{MERGE};{'x' * MAX_KEPT}", BOUND, False, id="a-long-type"),
        ],
    )
    def test_what_is_small_is_decoded_once_whatever_it_is_sent_to(self, content_type, body, is_kept):
        reader = Reader()
        one, other = (
            reader(request("PATCH", SCALE.replace("web", name), content_type, body)) for name in ("web", "db")
        )
        assert (one.ref.name, other.ref.name) == ("web", "db")
        assert (one.precondition is other.precondition) == is_kept

    def test_it_keeps_nothing_of_what_is_no_write_or_cannot_be_read(self):
        reader = Reader()

        def ask() -> None:
            for n in range(400):
                padding = "x" * 100 + str(n)
                reader(request("PATCH", f"/apis/example.dev/v1/{padding}", MERGE, b"{}"))
                reader(request("GET", f"{OBJECT}{padding}", None, b""))
                reader(request("PATCH", f"/apis/apps/v1/namespaces//{padding}/scale", MERGE, b"{}"))
                reader(request("PATCH", OBJECT, MERGE, b'{"%s":' % padding.encode()))
                reader(request("PATCH", OBJECT, MERGE, b'{"spec":{"template":"%s"}}' % padding.encode()))

        assert growth(ask) < 40_000

    def test_of_routes_it_keeps_so_many(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(counts, "_KEPT_ROUTES", 3)
        reader = Reader()
        for n in range(9):
            assert reader(request("PATCH", SCALE.replace("web", f"web-{n}"), MERGE, THREE)).ref.name == f"web-{n}"
            assert len(reader._routes) <= 3

    def test_what_it_keeps_of_one_patch_is_bounded(self):
        reader, count = Reader(), 300

        def ask() -> None:
            for n in range(count):
                body = b'{"a":[%b{}],"spec":{"replicas":%d}}' % (b"{}," * 60, n)
                assert len(body) + len(MERGE) <= MAX_KEPT
                assert isinstance(reader(request("PATCH", OBJECT, MERGE, body)), Write)

        assert growth(ask) / count < 1024


def growth(act: Callable[[], None]) -> int:
    """Bytes that are held afterwards."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        act()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


# What stands in the path.


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/apis/apps/v1/namespaces/shop/deployments/" + "w" * 253, "read"),
        ("/apis/apps/v1/namespaces/shop/deployments/" + "w" * 254, "target-too-long"),
        ("/apis/apps/v1/namespaces/" + "n" * 254 + "/deployments/web", "target-too-long"),
        ("/apis/example.dev/v1/namespaces/shop/" + "w" * 254 + "/a/scale", "target-too-long"),
        (OBJECT + "?x=" + "x" * 32_766, "read"),
        (OBJECT + "?x=" + "x" * 32_767, "target-too-long"),
        (OBJECT + "/" * 8_192, "target-too-long"),
        (OBJECT + "%2F" * 3_000, "target-too-long"),
        ("/apis/example.dev/v1/%73" + "x" * 8_192, "target-too-long"),
        ("/apis/example.dev/v1/" + "x" * 8_192, "other-resource"),
    ],
)
def test_a_target_is_as_long_as_the_api_server_could_need(target, expected):
    found = read(Request("PUT", target, {}, b"{}"))
    assert getattr(found, "code", "read") == expected
    if expected == "target-too-long":
        assert found.ref is None
        assert len(found.detail) < 200


def test_a_long_method_is_cut():
    assert len(read(Request("X" * 10_000, OBJECT, {}, b"")).detail) < 200


TYPES = st.sampled_from([None, JSON, PROTOBUF, YAML, JSON_PATCH, MERGE, STRATEGIC, APPLY]) | st.text(max_size=20)
TREES = st.recursive(
    st.none() | st.integers() | st.sampled_from(["/spec/replicas", "/spec", "", "add", "move", "$patch"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "replicas", "metadata", "op", "path", "from", "value", "$patch", "labels"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
BODIES = (
    st.binary(max_size=80)
    | st.sampled_from([THREE, BOUND, OPERATIONS, THREE_PROTOBUF, b"[{}]"])
    | TREES.map(lambda tree: json.dumps(tree).encode())
)
TARGETS = st.sampled_from([SCALE, OBJECT, COLLECTION, "/", "//", "/apis", f"{SCALE}?dryRun=All"]) | st.text(max_size=40)


@settings(deadline=None)
@given(st.sampled_from(["PUT", "PATCH", "POST", "GET"]) | st.text(max_size=6), TARGETS, TYPES, BODIES, st.booleans())
def test_read_never_raises(method, target, content_type, body, truncated):
    found = read(request(method, target, content_type, body, truncated=truncated))
    assert isinstance(found, Write | NotAWrite | NotACount | Unreadable)
    if not isinstance(found, Write | NotACount):
        assert found.code
        assert found.code == found.code.lower()


DATA = Path(__file__).parents[2] / "data"
RECORDED = [json.loads(line) for line in (DATA / "recorded.jsonl").read_text().splitlines()]
EXPECTED = [json.loads(line) for line in (DATA / "recorded.expected.jsonl").read_text().splitlines()]


def request_of(row: dict[str, Any]) -> Request:
    body = base64.b64decode(row["body_base64"]) if "body_base64" in row else row.get("body", "").encode()
    return Request(row["method"], row["path"], row["headers"], body)


def described(reading: Reading) -> dict[str, Any]:
    name = type(reading).__name__
    if isinstance(reading, NotACount):
        return {"reading": name, "ref": str(reading.ref), "more": reading.why}
    if not isinstance(reading, Write):
        return {"reading": name, "code": reading.code}
    return {
        "reading": name,
        "ref": str(reading.ref),
        "operation": reading.operation,
        "scale": reading.scale,
        "dry_run": reading.dry_run,
        "replicas": reading.replicas,
        "precondition": list(reading.precondition) if any(reading.precondition) else None,
    }


def test_every_recorded_request_has_its_expected_reading():
    named = [(row["client"], f"{row['method']} {row['path']}") for row in RECORDED]
    assert named == [(row["client"], row["request"]) for row in EXPECTED]
    assert len(named) == 67
    assert all(row["why"] for row in EXPECTED)


@pytest.mark.parametrize("line", range(1, 68))
def test_a_recorded_request_is_read_as_what_it_is(line):
    row, expected = RECORDED[line - 1], EXPECTED[line - 1]
    assert expected["line"] == line
    stated = {key: value for key, value in expected.items() if key not in ("line", "client", "request", "why")}
    assert described(read(request_of(row))) == stated


def test_autoscalers_write_counts_and_nothing_else():
    sent = [row for row in EXPECTED if any(name in row["client"] for name in ("pod-autoscaler", "knative-autoscaler"))]
    writes = [row["reading"] for row in sent if row["reading"] != NotAWrite.__name__]
    assert writes == [Write.__name__] * 9


def test_no_recorded_request_holds_a_credential():
    secret = {"authorization", "cookie", "proxy-authorization"}
    assert not any(secret & set(row["headers"]) for row in RECORDED)


def test_what_controllers_write_all_day_passes_unread():
    kinds = {row["code"] for row in EXPECTED if row["reading"] == NotAWrite.__name__}
    assert kinds == {"other-resource", "status", "delete"}
