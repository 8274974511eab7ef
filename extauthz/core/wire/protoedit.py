"""Sets single fields of a Kubernetes protobuf body, and keeps every other byte as it came.

What a field is called in JSON, ``protofields`` says. A body that spells a message in several parts, or a field twice,
is not edited: the parts are merged by whoever reads it, so one of them does not say it.
"""

from __future__ import annotations

from collections.abc import Sequence

from extauthz.core.errors import BodyError
from extauthz.core.wire.goproto import MAGIC, fields
from extauthz.core.wire.protofields import UNKNOWN, Field, Message

_LENGTH, _VARINT = 2, 0


def edited(data: bytes, message: Message, path: Sequence[str], value: int | str) -> bytes:
    """The body with ``value`` at ``path``. A message on the way must be there; the field itself may be new.

    Raises:
        BodyError: it is no such body, or something on the way is there twice, or not at all.
    """
    if not data.startswith(MAGIC):
        raise BodyError("protobuf-envelope", "the body does not begin with the four bytes k8s\\0")
    wrapped = {2: UNKNOWN[2]._replace(message=message)}
    return MAGIC + _set(data[len(MAGIC) :], wrapped, ("raw", *path), value)


def _set(data: bytes, message: Message, path: Sequence[str], value: int | str) -> bytes:
    number, field = _field(message, path[0])
    places = [(start, end, was) for start, end, found, was in fields(data) if found == number]
    if len(places) > 1 or (not places and len(path) > 1):
        raise BodyError("protobuf-parts", f"{path[0]} is there {len(places)} times")
    start, end, was = places[0] if places else (len(data), len(data), b"")
    if len(path) > 1:
        if type(was) is not bytes:
            raise BodyError("protobuf-syntax", f"{path[0]} is no message")
        new = _delimited(number, _set(was, field.message, path[1:], value))
    elif type(value) is int:
        new = _varint(number << 3 | _VARINT) + _varint(value)
    else:
        new = _delimited(number, str(value).encode())
    return data[:start] + new + data[end:]


def _field(message: Message, key: str) -> tuple[int, Field]:
    return next((number, field) for number, field in message.items() if field.key == key)


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
