"""What a plain YAML scalar is to go-yaml v2 (``resolve.go``), and how ``encoding/json`` then spells it."""

from __future__ import annotations

import re
from math import isinf

from extauthz.core.model import Tree

from .errors import BodyError
from .gojson import MAX_NUMBER_CHARS, Number

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}

_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO](?P<octal>[0-7]+)"
    r"|(?P<old_octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "old_octal": 8, "decimal": 10}
_SIGNED_BINARY = re.compile(r"0b([-+][01]+)")  # go-yaml hands what follows 0b to ParseInt, sign and all
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_NUMBER_START = frozenset("0123456789+-.")

_LONG = "tag:yaml.org,2002:"
_TYPES: dict[str, type | tuple[type, ...]] = {
    _LONG + "bool": bool,
    _LONG + "int": int,
    _LONG + "null": type(None),
}


def resolve(tag: str, text: str) -> Tree:
    """The value of a plain scalar, or of one with a tag; ``BodyError`` where go-yaml or ``encoding/json`` refuses."""
    if not tag:
        return _plain(text)
    if tag == _LONG + "str":
        return text
    if tag in _TYPES or tag == _LONG + "float":
        return _tagged(tag, text)
    if tag.startswith(_LONG):
        raise BodyError("yaml-tag", f"the tag {tag[:60]!a} is not read here")
    return text


def _tagged(tag: str, text: str) -> Tree:
    value = _plain(text)
    if tag == _LONG + "float":
        matches = type(value) in (int, Number)
    else:
        # _plain makes an integer of a whole float; the tag tells them apart.
        matches = isinstance(value, _TYPES[tag]) and not (
            tag == _LONG + "int" and _integer(text.replace("_", "")) is None
        )
    if not matches:
        raise BodyError("yaml-tag", f"{text[:40]!a} is not a {tag[len(_LONG) :]}")
    return value


def _plain(text: str) -> Tree:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise BodyError("not-a-number", f"{text} has no spelling in JSON")
    if len(text) > MAX_NUMBER_CHARS:
        return _long(text)
    digits = text if text[0] == "." else text.replace("_", "")
    value = _integer(digits) if text[0] != "." else None
    if value is not None:
        return value
    return number(digits) if _FLOAT.fullmatch(digits) else text


def _long(text: str) -> str:
    if _FLOAT.fullmatch(text.replace("_", "")) or _INTEGER.fullmatch(text.replace("_", "")):
        raise BodyError("number-too-long", f"a number of {len(text)} characters")
    return text


def _integer(digits: str) -> int | None:
    """``strconv.ParseInt`` and ``ParseUint`` with base 0, then go-yaml's own second try at binary numbers."""
    found = _INTEGER.fullmatch(digits)
    if found is None:
        binary = _SIGNED_BINARY.fullmatch(digits)
        return int(binary[1], 2) if binary else None
    base = found.lastgroup
    assert base is not None
    value = int(found[base], _BASES[base])
    if found["sign"] == "-":
        value = -value
    highest = 1 << 63 if found["sign"] else 1 << 64
    return value if -(1 << 63) <= value < highest else None


def number(text: str) -> int | Number | str:
    """A float as it comes back from YAML through JSON: whole ones below 1e21 are spelled as integers.

    What is outside the range of a float64 stays text, as ``ParseFloat`` fails on it.
    """
    value = float(text)
    if isinf(value):
        return text
    if value.is_integer() and abs(value) < 1e21:
        return int(value)
    return Number(repr(value))
