"""Reads CBOR (RFC 8949) as the API server does: ``apimachinery/pkg/runtime/serializer/cbor/internal/modes/decode.go``.

Written out here because a general decoder builds what the server refuses: shared and cyclic values, big integers,
maps with duplicate keys, ``undefined``, NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from math import isfinite

from extauthz.core.budget import VALUE, Work
from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire.gojson import MAX_CONTAINERS, MAX_DEPTH, Number

_BREAK = object()

_BIGNUMS = frozenset({2, 3})  # BignumTagForbidden
_TIMES = frozenset({0, 1})  # become RFC 3339 text, or the number, depending on the target
_LATER_ENCODINGS = frozenset({21, 22, 23})  # make base64 or hexadecimal text of a byte string, depending on the target
_SPECIAL_TAGS = _BIGNUMS | _TIMES | _LATER_ENCODINGS

_SIMPLE = {20: False, 21: True, 22: None}
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}


def loads(data: bytes, work: Work | None = None) -> Tree:
    """Decodes one data item. Integers are ``int``, floats ``Number``, byte strings text.

    Raises ``BodyError``: ``cbor-syntax``, ``cbor-tag``, ``cbor-value``, ``duplicate-key``, ``invalid-utf8``,
    ``not-a-number``, ``number-out-of-range``, ``too-complex``, ``too-deep``.
    """
    reader = _Reader(data, work or Work(VALUE * MAX_CONTAINERS))
    tree = reader.item(0)
    if tree is _BREAK or reader.at != len(data):
        raise BodyError("cbor-syntax", f"the data item ends at byte {reader.at} of {len(data)}")
    return tree


class _Reader:
    def __init__(self, data: bytes, work: Work) -> None:
        self.at = 0
        self._data = data
        self._work = work

    def item(self, depth: int) -> Tree:
        """The next data item, or ``_BREAK``."""
        self._work.spend(VALUE, "the CBOR data items of the body")
        if depth > MAX_DEPTH:
            raise BodyError("too-deep", f"nested more than {MAX_DEPTH} deep")
        initial = self._take(1)[0]
        if initial == 0xFF:
            return _BREAK
        return _MAJOR_TYPES[initial >> 5](self, initial & 31, depth)

    def _take(self, count: int) -> bytes:
        taken = self._data[self.at : self.at + count]
        if len(taken) < count:
            raise BodyError("cbor-syntax", f"the body ends at byte {len(self._data)}, inside a data item")
        self.at += count
        return taken

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise BodyError("cbor-syntax", f"reserved additional information {info} before byte {self.at}")
        return int.from_bytes(self._take(1 << (info - 24)), "big")

    def unsigned(self, info: int, depth: int) -> int:
        number = self._argument(info)
        if number >> 63:  # IntDecConvertSignedOrFail
            raise BodyError("number-out-of-range", "an integer of more than 63 bits")
        return number

    def negative(self, info: int, depth: int) -> int:
        return -1 - self.unsigned(info, depth)

    def string(self, info: int, depth: int) -> str:
        raw = b"".join(self._chunks(self._data[self.at - 1] >> 5)) if info == 31 else self._take(self._argument(info))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise BodyError("invalid-utf8", f"a string before byte {self.at} is not UTF-8") from None

    def _chunks(self, major_type: int) -> list[bytes]:
        chunks: list[bytes] = []
        while (initial := self._take(1)[0]) != 0xFF:
            self._work.spend(VALUE, "the chunks of a CBOR string")
            if initial >> 5 != major_type or initial & 31 == 31:
                raise BodyError("cbor-syntax", f"a chunk of another kind before byte {self.at}")
            chunks.append(self._take(self._argument(initial & 31)))
        return chunks

    def array(self, info: int, depth: int) -> list[Tree]:
        return list(self._members(info, depth))

    def map(self, info: int, depth: int) -> dict[str, Tree]:
        members: dict[str, Tree] = {}
        for key in self._members(info, depth):
            self._put(members, key, self._inside(self.item(depth + 1)))
        return members

    def _members(self, info: int, depth: int) -> Iterator[Tree]:
        """The items of an array, or the keys of a map: whoever takes a key reads its value before the next."""
        left = -1 if info == 31 else self._argument(info)
        while left and (member := self.item(depth + 1)) is not _BREAK:
            yield member
            left -= 1
        if left > 0:  # a break is the end of what has no length, and of nothing else
            self._inside(_BREAK)

    def _put(self, members: dict[str, Tree], key: Tree, value: Tree) -> None:
        if type(key) is int:  # names no field of a struct, and an untyped map refuses it
            return
        if type(key) is not str:
            raise BodyError("cbor-value", f"a map key before byte {self.at} is not a string")
        if key in members:
            raise BodyError("duplicate-key", f"{key[:40]!a} is given more than once in one map")
        members[key] = value

    def _inside(self, item: Tree) -> Tree:
        if item is _BREAK:
            raise BodyError("cbor-syntax", f"a break out of place before byte {self.at}")
        return item

    def tagged(self, info: int, depth: int) -> Tree:
        tag = self._argument(info)
        if tag in _SPECIAL_TAGS:
            raise BodyError("cbor-tag", f"tag {tag} before byte {self.at} is read differently by different fields")
        return self._inside(self.item(depth + 1))

    def simple(self, info: int, depth: int) -> Tree:
        if info in _FLOATS:
            layout = _FLOATS[info]
            (value,) = struct.unpack(layout, self._take(struct.calcsize(layout)))
            if not isfinite(value):
                raise BodyError("not-a-number", f"NaN or infinity before byte {self.at}")
            return Number(repr(value))
        if info not in _SIMPLE:
            raise BodyError("cbor-value", f"a simple value other than false, true and null before byte {self.at}")
        return _SIMPLE[info]


_MAJOR_TYPES: tuple[Callable[[_Reader, int, int], Tree], ...] = (
    _Reader.unsigned,
    _Reader.negative,
    _Reader.string,
    _Reader.string,
    _Reader.array,
    _Reader.map,
    _Reader.tagged,
    _Reader.simple,
)
