"""Reads a Scale in ``application/vnd.kubernetes.protobuf`` into the tree that it has in JSON.

A body is ``k8s\\0`` and a ``runtime.Unknown`` around the object (``apimachinery/pkg/runtime/serializer/protobuf``). The
rules of the wire are those of the ``Unmarshal`` methods that gogo generates (``k8s.io/api/*/v1/generated.pb.go``): a
message that comes twice is merged, a scalar that comes twice is replaced, an ``int32`` keeps the low 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire.gojson import VALUE, Work

# Field numbers of a ``Scale`` in protobuf, as far as a count and its preconditions go.
#
# From ``generated.proto`` of ``k8s.io/apimachinery`` (``meta/v1``, ``runtime``) and ``k8s.io/api``
# (``autoscaling/v1``). Numbers never change; what a table does not name is stepped over.


class Kind(Enum):
    """How a field is encoded, and what it becomes in JSON."""

    STRING = auto()
    RAW = auto()
    INT32 = auto()
    MESSAGE = auto()


class Field(NamedTuple):
    """One field: its key in JSON, its encoding, and the type of a message."""

    key: str
    kind: Kind
    message: Mapping[int, Field] = {}


Message: TypeAlias = Mapping[int, Field]
"""A message type: field number to field."""


def _strings(**numbers: int) -> dict[int, Field]:
    return {number: Field(key, Kind.STRING) for key, number in numbers.items()}


UNKNOWN: Message = {1: Field("typeMeta", Kind.MESSAGE, _strings(apiVersion=1, kind=2)), 2: Field("raw", Kind.RAW)}

SCALE: Message = {
    1: Field("metadata", Kind.MESSAGE, _strings(name=1, namespace=3, uid=5, resourceVersion=6)),
    2: Field("spec", Kind.MESSAGE, {1: Field("replicas", Kind.INT32)}),
}


MAGIC = b"k8s\x00"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_FIXED_LENGTHS = {_FIXED64: 8, _FIXED32: 4}


def loads(data: bytes, message: Message, work: Work) -> dict[str, Tree]:
    """Decodes one object of the type ``message``, whatever kind the envelope names: the path decides that.

    Raises ``BodyError``: ``protobuf-envelope``, ``protobuf-syntax``, ``invalid-utf8``, ``too-complex``.
    """
    if not data.startswith(MAGIC):
        raise BodyError("protobuf-envelope", "the body does not begin with the four bytes k8s\\0")
    reader = _Reader(work)
    envelope = reader.message(UNKNOWN, data[len(MAGIC) :], {})
    tree = {key: value for key, value in envelope.get("typeMeta", {}).items() if value}
    return reader.message(message, envelope.get("raw", b""), tree)


class _Reader:
    """Reads the messages of one body and counts their fields."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def message(self, message: Message, data: bytes, tree: dict[str, Tree]) -> dict[str, Tree]:
        """Merges an encoded message into ``tree``."""
        for number, wire_type, value in self._fields(data):
            field = message.get(number)
            if field is None:
                continue
            self._work.spend(2 * VALUE, "the protobuf fields of the body")
            expected, put = _PUT[field.kind]
            if wire_type != expected:
                raise BodyError("protobuf-syntax", f"field {field.key} has wire type {wire_type}")
            put(self, tree, field.key, value, field.message)
        return tree

    def _fields(self, data: bytes) -> Iterator[tuple[int, int, Any]]:
        at = 0
        while at < len(data):
            self._work.spend(VALUE, "the protobuf fields of the body")
            number, wire_type, value, at = _one(data, at)
            yield number, wire_type, value


def fields(data: bytes) -> Iterator[tuple[int, int, int, int | bytes]]:
    """Each field of an encoded message: where it begins and ends, its number, its value. Raises ``BodyError``."""
    at = 0
    while at < len(data):
        start = at
        number, _, value, at = _one(data, at)
        yield start, at, number, value


def _one(data: bytes, at: int) -> tuple[int, int, int | bytes, int]:
    """The field at ``at``: number, wire type, value; and where it ends."""
    tag, at = _varint(data, at)
    number = (tag >> 3) & 0xFFFF_FFFF  # int32(wire >> 3)
    if not 0 < number < 1 << 31:
        raise BodyError("protobuf-syntax", f"field number {number}")
    value, at = _value(data, at, tag & 7)
    return number, tag & 7, value, at


def _value(data: bytes, at: int, wire_type: int) -> tuple[int | bytes, int]:
    if wire_type == _VARINT:
        return _varint(data, at)
    if wire_type == _BYTES:
        length, at = _varint(data, at)
    elif wire_type in _FIXED_LENGTHS:
        length = _FIXED_LENGTHS[wire_type]
    else:
        # Groups too: Go steps over unknown ones, and no type of the Kubernetes API has any.
        raise BodyError("protobuf-syntax", f"wire type {wire_type} at byte {at}")
    if length > len(data) - at:
        raise BodyError("protobuf-syntax", f"{length} bytes announced at byte {at}, {len(data) - at} are there")
    return data[at : at + length], at + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned 64-bit number and where it ends; as in Go, bits beyond the 64th are dropped."""
    number = shift = 0
    for byte in data[at : at + 10]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at + shift // 7
    raise BodyError("protobuf-syntax", f"the number at byte {at} is cut off or too long")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BodyError("invalid-utf8", f"{data[:40]!r} is not UTF-8") from None


def _int32(value: int) -> int:
    low = value & 0xFFFF_FFFF
    return low - (1 << 32) if low >> 31 else low


# One function a kind. All take (reader, tree, key, value, message type of the value).


def _put_string(reader: _Reader, tree: dict[str, Tree], key: str, value: bytes, message: Message) -> None:
    tree[key] = _text(value)


def _put_raw(reader: _Reader, tree: dict[str, Tree], key: str, value: bytes, message: Message) -> None:
    tree[key] = value


def _put_int32(reader: _Reader, tree: dict[str, Tree], key: str, value: int, message: Message) -> None:
    tree[key] = _int32(value)


def _put_message(reader: _Reader, tree: dict[str, Tree], key: str, value: bytes, message: Message) -> None:
    reader.message(message, value, tree.setdefault(key, {}))


_PUT: dict[Kind, tuple[int, Callable[[_Reader, dict[str, Tree], str, Any, Message], None]]] = {
    Kind.STRING: (_BYTES, _put_string),
    Kind.RAW: (_BYTES, _put_raw),
    Kind.INT32: (_VARINT, _put_int32),
    Kind.MESSAGE: (_BYTES, _put_message),
}
"""Kind to its wire type and how its value gets into the tree."""
