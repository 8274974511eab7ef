"""A protobuf encoder by field numbers, small enough to write wrong bytes with (k8s.io/api/*/generated.proto)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Tree = Any
MAGIC = b"k8s\x00"

QUANTITY_MAP = "quantities"
STRING_MAP = "strings"

OBJECT_META = {"name": 1, "generateName": 2, "namespace": 3, "uid": 5, "resourceVersion": 6, "labels": (11, STRING_MAP)}
RESOURCES = {"limits": (1, QUANTITY_MAP), "requests": (2, QUANTITY_MAP)}
CONTAINER = {"name": 1, "image": 2, "resources": (8, RESOURCES), "restartPolicy": 24}
POD_SPEC = {"containers": (2, CONTAINER), "initContainers": (20, CONTAINER), "overhead": (32, QUANTITY_MAP)}
TEMPLATE = {"metadata": (1, OBJECT_META), "spec": (2, POD_SPEC)}
SELECTOR = {"matchLabels": (1, STRING_MAP)}
CLAIM_SPEC = {"accessModes": 1, "resources": (2, RESOURCES)}
CLAIM = {"metadata": (1, OBJECT_META), "spec": (2, CLAIM_SPEC)}
DEPLOYMENT_SPEC = {"replicas": 1, "selector": (2, SELECTOR), "template": (3, TEMPLATE)}
STATEFUL_SET_SPEC = {**DEPLOYMENT_SPEC, "volumeClaimTemplates": (4, CLAIM), "serviceName": 5}
REPLICATION_CONTROLLER_SPEC = {"replicas": 1, "selector": (2, STRING_MAP), "template": (3, TEMPLATE)}
SPECS = {
    "Deployment": DEPLOYMENT_SPEC,
    "StatefulSet": STATEFUL_SET_SPEC,
    "ReplicaSet": DEPLOYMENT_SPEC,
    "ReplicationController": REPLICATION_CONTROLLER_SPEC,
    "Scale": {"replicas": 1},
}


def varint(number: int) -> bytes:
    """Negative numbers as ten bytes, as protobuf writes them."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number_field(tag: int, value: int) -> bytes:
    """A varint field."""
    return varint(tag << 3) + varint(value)


def bytes_field(tag: int, value: bytes) -> bytes:
    """A length-delimited field."""
    return varint(tag << 3 | 2) + varint(len(value)) + value


def encode(tree: Tree, table: Any) -> bytes:
    """A message by its table: name to field number, or to (number, table of the submessage)."""
    if table == STRING_MAP:
        raise TypeError("maps are encoded by their field")
    return b"".join(_field(table[name], value) for name, value in tree.items())


def _field(entry: Any, value: Tree) -> bytes:
    tag, table = entry if isinstance(entry, tuple) else (entry, None)
    if isinstance(value, list):
        return b"".join(_field(entry, each) for each in value)
    if table in (STRING_MAP, QUANTITY_MAP):
        return b"".join(bytes_field(tag, _pair(key, each, table)) for key, each in value.items())
    if table is not None:
        return bytes_field(tag, encode(value, table))
    return number_field(tag, value) if isinstance(value, int) else bytes_field(tag, value.encode())


def _pair(key: str, value: str, table: str) -> bytes:
    raw = value.encode()
    return bytes_field(1, key.encode()) + bytes_field(2, bytes_field(1, raw) if table == QUANTITY_MAP else raw)


def raw_object(tree: Tree) -> bytes:
    """The message of a whole object, without its envelope."""
    table = {"metadata": (1, OBJECT_META), "spec": (2, SPECS[tree["kind"]])}
    return encode({key: value for key, value in tree.items() if key in table}, table)


def envelope(raw: bytes, api_version: str, kind: str, more: bytes = b"") -> bytes:
    """``k8s\\0`` and runtime.Unknown (k8s.io/apimachinery/pkg/runtime/generated.proto)."""
    type_meta = bytes_field(1, api_version.encode()) + bytes_field(2, kind.encode())
    return MAGIC + bytes_field(1, type_meta) + bytes_field(2, raw) + more


def document(tree: Tree) -> bytes:
    """A whole object in its envelope."""
    return envelope(raw_object(tree), tree["apiVersion"], tree["kind"])


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message, varints left out."""
    at = 0
    while at < len(message):
        key, at = _varint_at(message, at)
        length, after = _varint_at(message, at)
        if key & 7 == 0:  # a varint: the value, not a length
            at = after
            continue
        assert key & 7 == 2, "no other wire type is read here"
        at = after + length
        yield key >> 3, message[after:at]


def _varint_at(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
