"""Kubernetes protobuf as gogo's generated code reads it. Compared with it on 150,000 rearranged objects."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.errors import BodyError
from extauthz.core.wire import goproto
from extauthz.core.wire.protofields import OBJECTS, SCALE


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def entry(number: int, key: str, value: str | bytes) -> bytes:
    return field(number, field(1, key) + field(2, value))


def body(raw: bytes, api_version: str = "", kind: str = "") -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


def scale(spec: bytes) -> bytes:
    return body(field(2, spec))


def test_a_scale_is_read_with_its_type_and_its_version():
    metadata = field(1, "web") + field(3, "ns") + field(5, "u") + field(6, "7") + field(7, 3)
    assert goproto.loads(body(field(1, metadata) + field(2, field(1, 4)), "autoscaling/v1", "Scale"), SCALE) == {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
        "spec": {"replicas": 4},
    }


def test_a_deployment_is_read_into_the_tree_that_it_has_in_json():
    resources = entry(2, "cpu", field(1, "100m")) + entry(1, "memory", field(1, "1Gi"))
    container = field(1, "c") + field(2, "image") + field(24, "Always") + field(8, resources)
    pod = field(2, container) + field(20, field(1, "init")) + entry(32, "cpu", field(1, "5m")) + field(29, "kata")
    pod += field(40, entry(2, "cpu", field(1, "2")))
    selector = entry(1, "app", "web") + field(2, field(1, "tier") + field(2, "In") + field(3, "a") + field(3, "b"))
    surge = field(
        2, field(1, "RollingUpdate") + field(2, field(2, field(1, 1) + field(3, "25%")) + field(1, field(2, 1)))
    )[2:]
    owner = field(1, "Kind") + field(3, "o") + field(4, "u") + field(5, "g/v1") + field(6, 1) + field(7, 0)
    metadata = field(1, "web") + entry(11, "app", "web") + entry(11, "empty", "") + field(13, owner)
    spec = (
        field(1, 3) + field(2, selector) + field(3, field(1, entry(11, "app", "web")) + field(2, pod)) + field(4, surge)
    )
    assert goproto.loads(body(field(1, metadata) + field(2, spec)), OBJECTS["deployments"]) == {
        "metadata": {
            "name": "web",
            "labels": {"app": "web", "empty": ""},
            "ownerReferences": [
                {
                    "kind": "Kind",
                    "name": "o",
                    "uid": "u",
                    "apiVersion": "g/v1",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            "replicas": 3,
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
            },
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "restartPolicy": "Always",
                            "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
                        }
                    ],
                    "initContainers": [{"name": "init"}],
                    "overhead": {"cpu": "5m"},
                    "runtimeClassName": "kata",
                    "resources": {"requests": {"cpu": "2"}},
                },
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        },
    }


def test_the_claims_of_a_stateful_set_are_read():
    claim = field(1, field(1, "data")) + field(2, field(2, entry(2, "storage", field(1, "1Gi"))) + field(5, ""))
    assert goproto.loads(body(field(2, field(4, claim))), OBJECTS["statefulsets"])["spec"]["volumeClaimTemplates"] == [
        {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}}
    ]


def test_the_selector_of_a_replication_controller_is_a_map():
    tree = goproto.loads(body(field(2, entry(2, "app", "web"))), OBJECTS["replicationcontrollers"])
    assert tree["spec"]["selector"] == {"app": "web"}


@pytest.mark.parametrize(
    ("spec", "replicas"),
    [
        pytest.param(field(1, 2**31 - 1), 2**31 - 1, id="highest"),
        pytest.param(field(1, 2**64 - 1), -1, id="negative"),
        pytest.param(field(1, 2**31), -(2**31), id="wraps-to-negative"),
        pytest.param(field(1, 2**32 + 5), 5, id="low-32-bits"),
        pytest.param(field(1, 3) + field(1, 9), 9, id="the-later-one"),
        pytest.param(b"\x08\x85\x80\x80\x00", 5, id="long-spelling"),
        pytest.param(b"\x08\x85\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 5, id="ten-bytes"),
        pytest.param(varint(1 << 3 | 1 << 35) + b"\x05", 5, id="field-number-beyond-32-bits"),
        pytest.param(
            field(99, "x") + b"\xa1\x06" + b"8" * 8 + b"\xa5\x06" + b"4" * 4 + field(1, 5), 5, id="unknown-fields"
        ),
    ],
)
def test_a_count_is_an_int32_as_go_reads_it(spec, replicas):
    assert goproto.loads(scale(spec), SCALE)["spec"] == {"replicas": replicas}


def test_a_message_that_comes_twice_is_merged():
    raw = field(2, field(1, 5)) + field(1, field(1, "a") + field(3, "ns")) + field(2, b"") + field(1, field(1, "b"))
    assert goproto.loads(body(raw), SCALE) == {"spec": {"replicas": 5}, "metadata": {"name": "b", "namespace": "ns"}}


@pytest.mark.parametrize(
    ("value", "quantity"),
    [
        pytest.param(field(2, field(1, "2")) + field(2, b""), "0", id="the-last-value-alone"),
        pytest.param(b"", "0", id="no-value"),
        pytest.param(field(2, b""), "0", id="empty-value"),
        pytest.param(field(2, field(1, "")), "", id="empty-text"),
    ],
)
def test_a_quantity_in_a_map_is_replaced_and_not_merged(value, quantity):
    pod = field(2, field(32, field(1, "cpu") + value))
    tree = goproto.loads(body(field(2, field(3, pod))), OBJECTS["deployments"])
    assert tree["spec"]["template"]["spec"]["overhead"] == {"cpu": quantity}


def surge(*values: bytes) -> bytes:
    rolling = b"".join(field(2, value) for value in values)
    return body(field(2, field(4, field(2, rolling))))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (field(2, 3), 3),
        (b"", 0),
        (field(1, 1) + field(3, "50%"), "50%"),
        (field(1, 1), ""),
        (field(2, 3) + field(3, "x"), 3),
    ],
)
def test_an_int_or_string_is_told_by_its_type(value, expected):
    tree = goproto.loads(surge(value), OBJECTS["deployments"])
    assert tree["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": expected}


def test_a_body_without_an_object_is_an_empty_one():
    assert goproto.loads(b"k8s\0", SCALE) == {}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", "protobuf-envelope", id="empty"),
        pytest.param(b'{"spec":{}}', "protobuf-envelope", id="json"),
        pytest.param(b"k8s\0\x12\x05ab", "protobuf-syntax", id="cut-off"),
        pytest.param(b"k8s\0\x12\x80", "protobuf-syntax", id="length-cut-off"),
        pytest.param(b"k8s\0\x12" + b"\xff" * 9 + b"\x01", "protobuf-syntax", id="length-of-2^64"),
        pytest.param(b"k8s\0" + b"\x80" * 11, "protobuf-syntax", id="eleven-byte-number"),
        pytest.param(b"k8s\0\x02\x00", "protobuf-syntax", id="field-zero"),
        pytest.param(b"k8s\0" + varint(1 << 34 | 2) + b"\0", "protobuf-syntax", id="negative-field"),
        pytest.param(scale(b"\x0b\x0c"), "protobuf-syntax", id="group"),
        pytest.param(scale(b"\x0c"), "protobuf-syntax", id="end-of-a-group"),
        pytest.param(scale(b"\x0f\x01"), "protobuf-syntax", id="wire-type-7"),
        pytest.param(scale(b"\x0d\x01\0\0\0"), "protobuf-syntax", id="replicas-fixed32"),
        pytest.param(scale(b"\x0a\x01\x05"), "protobuf-syntax", id="replicas-bytes"),
        pytest.param(scale(b"\xa1\x06\0"), "protobuf-syntax", id="fixed64-cut-off"),
        pytest.param(body(field(1, field(1, b"\xff"))), "invalid-utf8", id="not-utf8"),
        pytest.param(scale(field(9, 1) * 100_001), "too-complex", id="too-many-fields"),
        pytest.param(surge(b"", b""), "duplicate-key", id="surge-twice"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(data, code):
    with pytest.raises(BodyError) as refused:
        goproto.loads(data, OBJECTS["deployments"] if code == "duplicate-key" else SCALE)
    assert refused.value.code == code


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from([SCALE, *OBJECTS.values()]))
def test_no_bytes_raise_anything_else(raw, message):
    for data in (
        raw,
        b"k8s\0" + raw,
        body(raw),
        body(field(1, raw) + field(2, raw)),
        body(field(2, field(3, field(2, raw)))),
    ):
        try:
            assert type(goproto.loads(data, message)) is dict
        except BodyError as refused:
            assert refused.code  # noqa: PT017  it is the second of two allowed outcomes


def test_the_first_ordinal_of_a_stateful_set_is_read():
    assert goproto.loads(body(field(2, field(11, field(1, 5)))), OBJECTS["statefulsets"])["spec"] == {
        "ordinals": {"start": 5}
    }
