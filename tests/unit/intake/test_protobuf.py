"""A Scale in Kubernetes protobuf as gogo's generated code reads it. Compared with it on 150,000 rearranged objects."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.errors import BodyError
from extauthz.core.wire.goproto import loads


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


def body(raw: bytes, api_version: str = "", kind: str = "") -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


def scale(spec: bytes) -> bytes:
    return body(field(2, spec))


def test_a_scale_is_read_with_its_version_whatever_kind_its_envelope_names():
    metadata = field(1, "web") + field(3, "ns") + field(5, "u") + field(6, "7") + field(7, 3)
    assert loads(body(field(1, metadata) + field(2, field(1, 4)), "autoscaling/v1", "Scale")) == {
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "spec": {"replicas": 4},
    }


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
        pytest.param(
            field(99, "x") + b"\xa1\x06" + b"8" * 8 + b"\xa5\x06" + b"4" * 4 + field(1, 5), 5, id="unknown-fields"
        ),
    ],
)
def test_a_count_is_an_int32_as_go_reads_it(spec, replicas):
    assert loads(scale(spec))["spec"] == {"replicas": replicas}


def test_a_message_that_comes_twice_is_merged():
    raw = field(2, field(1, 5)) + field(1, field(5, "a") + field(6, "7")) + field(2, b"") + field(1, field(5, "b"))
    assert loads(body(raw)) == {"spec": {"replicas": 5}, "metadata": {"uid": "b", "resourceVersion": "7"}}


def test_a_body_without_an_object_is_an_empty_one():
    assert loads(b"k8s\0") == {"spec": {"replicas": 0}, "metadata": {"uid": "", "resourceVersion": ""}}


@pytest.mark.parametrize("spec", [b"\x0b\x0c", b"\x0d\x01\0\0\0", b"\x0a\x01\x05"], ids=["group", "fixed32", "bytes"])
def test_a_count_of_another_type_is_none(spec):
    """The API server answers 400."""
    assert loads(scale(spec))["spec"] == {"replicas": 0}


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
        pytest.param(scale(b"\x0c"), "protobuf-syntax", id="end-of-a-group"),
        pytest.param(scale(b"\x0f\x01"), "protobuf-syntax", id="wire-type-7"),
        pytest.param(scale(b"\xa1\x06\0"), "protobuf-syntax", id="fixed64-cut-off"),
        pytest.param(body(field(1, field(5, b"\xff"))), "protobuf-syntax", id="not-utf8"),
        pytest.param(scale(varint(1 << 3 | 1 << 35) + b"\x05"), "protobuf-syntax", id="field-beyond-32-bits"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(data, code):
    with pytest.raises(BodyError) as refused:
        loads(data)
    assert refused.value.code == code


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(raw):
    for data in (raw, b"k8s\0" + raw, body(raw), body(field(1, raw) + field(2, raw))):
        try:
            assert type(loads(data)) is dict
        except BodyError as refused:
            assert refused.code  # noqa: PT017  it is the second of two allowed outcomes
