"""Fields of protobuf messages by number, small enough to write wrong bytes with (k8s.io/api/*/generated.proto)."""

from __future__ import annotations

from collections.abc import Iterator


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
