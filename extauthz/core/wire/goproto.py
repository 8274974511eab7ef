"""Reads a Scale in ``application/vnd.kubernetes.protobuf`` into the tree that it has in JSON.

A body is ``k8s\\0`` and a ``runtime.Unknown`` around the object (``apimachinery/pkg/runtime/serializer/protobuf``). The
rules of the wire are those of the ``Unmarshal`` methods that gogo generates (``k8s.io/api/*/v1/generated.pb.go``): a
message that comes twice is merged, a scalar that comes twice is replaced, an ``int32`` keeps the low 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire.gojson import VALUE, Work

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_FIXED_LENGTHS = {_FIXED64: 8, _FIXED32: 4}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BodyError("invalid-utf8", f"{data[:40]!r} is not UTF-8") from None


def _int32(value: int) -> int:
    low = value & 0xFFFF_FFFF
    return low - (1 << 32) if low >> 31 else low


# Field numbers of a ``Scale`` in protobuf, as far as a count and its preconditions go.
#
# From ``generated.proto`` of ``k8s.io/apimachinery`` (``meta/v1``, ``runtime``) and ``k8s.io/api``
# (``autoscaling/v1``). Numbers never change; what a table does not name is stepped over.


class Field(NamedTuple):
    """One field."""

    key: str
    """What it is called in JSON."""
    wire_type: int
    scalar: Callable[[Any], Tree] = bytes
    """Its value in JSON."""
    message: Mapping[int, Field] = {}
    """In place of that: the type of a message."""


Message: TypeAlias = Mapping[int, Field]
"""A message type: field number to field."""


def _strings(**numbers: int) -> dict[int, Field]:
    return {number: Field(key, _BYTES, _text) for key, number in numbers.items()}


ENVELOPE: Final[Message] = {2: Field("raw", _BYTES)}
"""``runtime.Unknown``. What kind it names makes no difference: the path decides that."""

SCALE: Final[Message] = {
    1: Field("metadata", _BYTES, message=_strings(name=1, namespace=3, uid=5, resourceVersion=6)),
    2: Field("spec", _BYTES, message={1: Field("replicas", _VARINT, _int32)}),
}


MAGIC = b"k8s\x00"


def loads(data: bytes, message: Message, work: Work) -> dict[str, Tree]:
    """Decodes one object of the type ``message``.

    Raises ``BodyError``: ``protobuf-envelope``, ``protobuf-syntax``, ``invalid-utf8``, ``too-complex``.
    """
    if not data.startswith(MAGIC):
        raise BodyError("protobuf-envelope", "the body does not begin with the four bytes k8s\\0")
    envelope: dict[str, Tree] = {}
    _merge(ENVELOPE, data[len(MAGIC) :], envelope, work)
    tree: dict[str, Tree] = {}
    _merge(message, envelope.get("raw", b""), tree, work)
    return tree


def _merge(message: Message, data: bytes, tree: dict[str, Tree], work: Work) -> None:
    """Merges an encoded message into ``tree``."""
    for _, _, number, wire_type, value in fields(data):
        work.spend(VALUE, "the protobuf fields of the body")
        field = message.get(number)
        if field is None:
            continue
        work.spend(2 * VALUE, "the protobuf fields of the body")
        if wire_type != field.wire_type:
            raise BodyError("protobuf-syntax", f"field {field.key} has wire type {wire_type}")
        if field.message:
            _merge(field.message, value, tree.setdefault(field.key, {}), work)
        else:
            tree[field.key] = field.scalar(value)


def fields(data: bytes) -> Iterator[tuple[int, int, int, int, Any]]:
    """Each field of an encoded message: where it begins and ends, its number, its wire type, its value. Raises
    ``BodyError``."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        number = (tag >> 3) & 0xFFFF_FFFF  # int32(wire >> 3)
        if not 0 < number < 1 << 31:
            raise BodyError("protobuf-syntax", f"field number {number}")
        value, at = _value(data, at, tag & 7)
        yield start, at, number, tag & 7, value


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
