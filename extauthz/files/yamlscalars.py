"""What a plain YAML scalar is to go-yaml v2 (``resolve.go``), and how ``encoding/json`` then spells it."""

from __future__ import annotations

import re
from decimal import Decimal
from math import inf, isfinite, nan
from typing import TypeAlias

from extauthz.core.errors import BodyError
from extauthz.core.wire.gojson import MAX_NUMBER_CHARS, Number

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}

_NOT_FINITE: dict[str, float] = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), nan),
}

_INTEGER = re.compile(
    r"[-+]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO](?P<octal>[0-7]+)"
    r"|(?P<old_octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))"
)
_SIGNED_BINARY = re.compile(r"0b(?P<signed>[-+][01]+)")  # go-yaml hands what follows 0b to ParseInt, sign and all
_BASES = {"hex": 16, "binary": 2, "octal": 8, "old_octal": 8, "decimal": 10, "signed": 2}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FLOAT = re.compile(r"\.[0-9](?:_?[0-9])*(?:[eE][-+]?[0-9](?:_?[0-9])*)?")  # ParseFloat takes single underscores

_NUMBER_START = frozenset("0123456789+-.")

_LONG = "tag:yaml.org,2002:"
_TYPES: dict[str, tuple[type, ...]] = {
    _LONG + "bool": (bool,),
    _LONG + "int": (int,),
    _LONG + "float": (float, int),
    _LONG + "null": (type(None),),
}
_UNREAD = frozenset({_LONG + "binary", _LONG + "timestamp"})

Scalar: TypeAlias = bool | int | float | str | None


def resolve(tag: str, text: str) -> Scalar:
    """The value of a plain scalar (no tag), or of one with a tag. ``BodyError``: ``yaml-tag``, ``number-too-long``."""
    if not tag:
        return _plain(text)
    if tag in _UNREAD:
        raise BodyError("yaml-tag", f"{tag[len(_LONG) :]} is not read here: write it as a string")
    if tag not in _TYPES:
        return text
    value = _plain(text)
    if type(value) not in _TYPES[tag]:
        raise BodyError("yaml-tag", f"{text[:40]!a} is not of the type {tag[len(_LONG) :]}")
    return value


def _plain(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    digits, float_syntax = (text, _POINT_FLOAT) if text[0] == "." else (text.replace("_", ""), _FLOAT)
    found = _INTEGER.fullmatch(digits) or _SIGNED_BINARY.fullmatch(digits)
    is_float = float_syntax.fullmatch(digits) is not None
    if len(digits) > MAX_NUMBER_CHARS and (found or is_float):
        raise BodyError("number-too-long", f"a number of {len(digits)} characters")
    value = _integer(found) if found else None
    if value is None and is_float:
        value = float(digits)
    # ParseFloat fails on what is outside the range of a float64.
    return text if value is None or value in (inf, -inf) else value


def _integer(found: re.Match[str]) -> int | float | None:
    """``strconv.ParseInt`` and ``ParseUint``; ``None`` where both overflow."""
    base = found.lastgroup
    assert base is not None
    value = int(found[base], _BASES[base])
    if found.string[0] == "-":
        value = -value
    highest = 1 << 63 if found.string[0] in "+-" else 1 << 64
    return value if -(1 << 63) <= value < highest else None


def spell(value: Scalar) -> Scalar:
    """A scalar as it comes back from its spelling in JSON: a whole float below 1e21 is spelled as an integer."""
    if type(value) is not float:
        return value
    if not isfinite(value):
        raise BodyError("not-a-number", f"{value} has no spelling in JSON")
    if value.is_integer() and abs(value) < 1e21:
        return int(Decimal(repr(value)))
    return Number(repr(value))
