"""Reads JSON the way the API server does: ``sigs.k8s.io/json``, a case-sensitive ``encoding/json`` that keeps integers.

The scanner is the standard library's; its hooks and the checks here close the gap to Go's reading.

Whoever reaches Envoy can send any body, before the API server authenticates it. So what reading one takes is counted,
in units of about a quarter of a microsecond: everything that takes more than a few steps for each byte. limits.md is
the table.
"""

from __future__ import annotations

import json
from collections import Counter
from math import isinf
from typing import Final, NoReturn

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree

VALUE: Final = 4
"""A value that is decoded from JSON, and walked a few times later."""

COUNT: Final = 1_200
"""Units of the body of a count: about 0.3 ms."""

REVIEW: Final = 24_000
"""Units of any AdmissionReview, and half a unit more for each byte."""

MOST: Final = 400_000
"""Units of the longest AdmissionReview."""

SMALL_BYTES: Final = 256
"""Targets and bodies of so many bytes are remembered."""

AT_ONCE: Final = 2_500
"""Units of decoding an AdmissionReview before it is known to take long: about 0.6 ms."""

AT_ONCE_BYTES: Final = 16 * 1024
"""A longer one takes long, whatever is in it."""

TOO_COMPLEX: Final = "too-complex"

CURE: Final = "write less at once"


class Work:
    """Counts the units that one body has used."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit

    def spend(self, units: int, place: str, cure: str = CURE) -> None:
        """Use units for a place of the body. If none are left, raise BodyError with the code ``TOO_COMPLEX``."""
        self.left -= units
        if self.left < 0:
            raise BodyError(TOO_COMPLEX, f"{place}: more than {self.limit} units of work; {cure}")


def of_count() -> Work:
    """What decoding a Scale, or a patch of a count, may cost."""
    return Work(COUNT)


def of_review(size: int) -> Work:
    """What decoding an AdmissionReview of ``size`` bytes may cost: a fixed part and a share for each byte."""
    return Work(min(REVIEW + size // 2, MOST))


def of_review_at_once(size: int) -> Work:
    """What of it may be spent where others wait meanwhile."""
    return Work(min(of_review(size).limit, AT_ONCE))


MAX_DEPTH = 100
"""Deeper bodies are refused. The server allows 10,000 (``encoding/json`` ``maxNestingDepth``); a workload needs 20."""

MAX_CONTAINERS = 100_000
"""Objects and arrays in one body: bounds time and memory (an empty object costs two bytes to send and 64 to hold)."""

_FEW = 500
"""So many values that no budget runs out."""

MAX_NUMBER_CHARS = 400
"""Longer spellings of a fraction are refused: no float64 needs more than 330 characters to be written out in full."""


_SPACE = " \t\n\r"


class Number(float):
    """A JSON number that is not spelled as an integer (``3.0``, ``1e2``), with its source text.

    Where the server decodes into a typed integer, it refuses these; where it goes through an untyped tree (strategic
    merge patch, apply) it may take ``3.0`` for 3. A quantity (``cpu: 0.1``) is read from ``text``, as the server does.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        if len(text) > MAX_NUMBER_CHARS:
            raise BodyError("number-too-long", f"a number of {len(text)} characters")
        number = super().__new__(cls, text)
        if isinf(number):
            raise BodyError("number-out-of-range", f"{text} is outside the range of a float64")
        number.text = text
        return number

    def __reduce__(self) -> tuple[type[Number], tuple[str]]:
        """A copy is spelled the same."""
        return Number, (self.text,)


def _object(pairs: list[tuple[str, Tree]]) -> dict[str, Tree]:
    # Of duplicate keys Go merges structs and lets the last scalar win, differently in typed and untyped targets.
    members = dict(pairs)
    if len(members) != len(pairs):
        raise BodyError("duplicate-key", f"{_first_duplicate(pairs)[:40]!a} is given more than once in one object")
    return members


def _first_duplicate(pairs: list[tuple[str, Tree]]) -> str:
    return next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)


def _constant(name: str) -> NoReturn:
    raise BodyError("not-a-number", f"{name} is not JSON")


DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_float=Number, parse_constant=_constant)


def text(data: bytes) -> str:
    """The text of a body. Raises ``BodyError``: ``invalid-utf8``."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        # Go puts U+FFFD there and reads on.
        raise BodyError("invalid-utf8", f"byte {error.start} is not UTF-8") from None


def loads(data: bytes, work: Work | None = None) -> Tree:
    """Decodes one JSON text. Integers are ``int``, other numbers ``Number``.

    Raises ``BodyError``: ``json-syntax``, ``invalid-utf8``, ``duplicate-key``, ``too-deep``, ``too-many-values``,
    ``not-a-number``, ``number-out-of-range``, ``number-too-long``, ``lone-surrogate``, ``too-complex``.
    """
    # Each takes two bytes, so that short bodies, as those of scales are, need no counting.
    containers = data.count(b"{") + data.count(b"[") if len(data) > 2 * MAX_DEPTH else 0
    if work is not None:
        work.spend(VALUE * values(data), "the JSON values of the body")
    elif containers > MAX_CONTAINERS:
        raise BodyError("too-many-values", f"more than {MAX_CONTAINERS} objects and arrays")
    source = text(data)
    try:
        tree = _decode(source)
    except json.JSONDecodeError as error:
        raise BodyError("json-syntax", f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise BodyError("too-deep", f"nested more than {MAX_DEPTH} deep") from None
    except ValueError:
        raise BodyError("number-too-long", "an integer of more than 4,300 digits") from None
    if containers > MAX_DEPTH or b"\\u" in data:
        check(tree)
    return tree


def values(data: bytes) -> int:
    """How many values a JSON text has, keys left out, an empty list or object for two: counted before it is decoded.

    >>> values(b'{"a": [1, 2], "b": "xyz"}')
    5
    """
    most = _separators(data)
    if most <= _FEW or b'"' not in data:
        return most
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    strings = plain.count(b'"') // 2
    if strings > 2 * MAX_CONTAINERS:  # a key and a string for each value: not worth to take them apart
        return strings // 2
    return _separators(b"".join(plain.split(b'"')[::2]))


def _separators(data: bytes) -> int:
    return 1 + data.count(b",") + data.count(b"{") + data.count(b"[")


def _decode(source: str) -> Tree:
    """``DECODER.decode``, without its regular expressions for what nearly all send: no white space before an object,
    and at most a line break after it."""
    if source.startswith(("{", "[")):
        tree, end = DECODER.raw_decode(source)
        if end == len(source) or not source[end:].strip(_SPACE):
            return tree
    return DECODER.decode(source)


def check(tree: Tree) -> None:
    """Refuses trees nested deeper than ``MAX_DEPTH`` and strings that hold half a surrogate pair.

    Go reads a lone ``\\ud800`` as U+FFFD; Python keeps it, and cannot encode it again.
    """
    level, depth = [tree], 0
    while level:
        if depth > MAX_DEPTH:
            raise BodyError("too-deep", f"nested more than {MAX_DEPTH} deep")
        below: list[Tree] = []
        for node in level:
            if type(node) is dict:
                below += node
                below += node.values()
            elif type(node) is list:
                below += node
            elif type(node) is str and not _encodable(node):
                raise BodyError("lone-surrogate", f"{node[:40]!a} holds half a surrogate pair")
        level, depth = below, depth + 1


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
