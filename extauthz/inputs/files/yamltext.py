"""Reads YAML as ``sigs.k8s.io/yaml`` over ``go.yaml.in/yaml/v2`` has it, a YAML 1.1 dialect, from libyaml's events.

The items of a List are read each on their own. Plain scalars are what go-yaml takes them for (``resolve.go``), spelled
as ``encoding/json`` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from math import inf, isfinite, nan
from typing import Protocol, TypeAlias

import yaml

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire import gojson
from extauthz.core.wire.gojson import MAX_NUMBER_CHARS, Number

from .content import Piece, Span, TextError

_MERGE = "<<"
_MERGE_TAG = "tag:yaml.org,2002:merge"


class Composer:
    """Makes trees of one document's events. More than ``limit`` values, aliases counted in full, are refused."""

    def __init__(self, events: Iterator[yaml.Event], limit: int) -> None:
        self._events = events
        self._anchors: dict[str, tuple[Tree, int] | None] = {}
        self._limit = self._left = limit
        self._depth = 0

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise BodyError("too-many-values", f"more than {self._limit} YAML values, aliases counted in full")

    def node(self, event: yaml.Event) -> Tree:
        """The value that begins with ``event``, read to its end. Raises ``BodyError``, and what the events raise."""
        assert isinstance(event, yaml.NodeEvent)
        if event.anchor is None:
            return self._value(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor)
        before = self._left
        self._anchors[event.anchor] = None
        tree = self._value(event)
        self._anchors[event.anchor] = tree, before - self._left
        return tree

    def _value(self, event: yaml.NodeEvent) -> Tree:
        self._spend(1)
        if isinstance(event, yaml.ScalarEvent):
            return spell(_scalar(event))
        if self._depth > gojson.MAX_DEPTH:
            raise BodyError("too-deep", f"nested more than {gojson.MAX_DEPTH} deep")
        self._depth += 1
        tree = self._mapping() if isinstance(event, yaml.MappingStartEvent) else self._sequence()
        self._depth -= 1
        return tree

    def _alias(self, anchor: str) -> Tree:
        if anchor not in self._anchors:
            raise BodyError("yaml-alias", f"unknown anchor {anchor[:40]!a}")
        known = self._anchors[anchor]
        if known is None:
            raise BodyError("yaml-alias", f"the value of anchor {anchor[:40]!a} contains itself")
        tree, values = known
        self._spend(values)
        return _copy(tree)

    def _sequence(self) -> list[Tree]:
        members: list[Tree] = []
        while not isinstance(member := next(self._events), yaml.SequenceEndEvent):
            members.append(self.node(member))
        return members

    def _mapping(self) -> dict[str, Tree]:
        members: dict[str, Tree] = {}
        given: set[str] = set()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if _is_merge(event):
                self._merge(members)
                continue
            key = self.key(event)
            if key in given:
                raise BodyError("duplicate-key", f"{key[:40]!a} is given more than once in one mapping")
            given.add(key)
            members[key] = self.node(next(self._events))
        return members

    def key(self, event: yaml.Event) -> str:
        """The mapping key that begins with ``event``, as text."""
        value = self.node(event)
        if type(value) is int:  # or was it a whole float?
            value = _scalar(event) if isinstance(event, yaml.ScalarEvent) else None
        return key_text(value)

    def _merge(self, members: dict[str, Tree]) -> None:
        """``<<``: in go-yaml v2 it overrides the keys before it, and those after it override it."""
        event = next(self._events)
        value = self.node(event)
        sources = value[::-1] if isinstance(event, yaml.SequenceStartEvent) else [value]
        for source in sources:
            if type(source) is not dict:
                raise BodyError("yaml-merge", "<< needs a mapping or a sequence of mappings")
            members.update(source)


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    if event.tag is None and not event.implicit[0]:
        return event.value
    return resolve(event.tag or "", event.value)


def _is_merge(event: yaml.Event) -> bool:
    if not isinstance(event, yaml.ScalarEvent) or event.value != _MERGE:
        return False
    return event.implicit[0] or event.tag == _MERGE_TAG


def key_text(value: Tree) -> str:
    """A key as ``convertToJSONableObject`` writes it. Floats are left out: it rounds them to 32 bits."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int and value < 1 << 63:
        return str(value)
    raise BodyError("yaml-key", f"{str(value)[:40]!a} is neither a string nor an integer nor a boolean")


def _copy(tree: Tree) -> Tree:
    if type(tree) is dict:
        return {key: _copy(value) for key, value in tree.items()}
    if type(tree) is list:
        return [_copy(member) for member in tree]
    return tree


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


# libyaml's events of a text, with their marks.


class Mark(Protocol):
    """A place in a text: libyaml's own type of mark."""

    line: int
    column: int
    index: int


class Events(Iterator[yaml.Event]):
    """The events of a text. It remembers the last one, for messages. Raises ``yaml.YAMLError`` if it is not YAML."""

    last: yaml.Event

    def __init__(self, text: str) -> None:
        self._events = yaml.parse(text, Loader=yaml.CSafeLoader)

    def __next__(self) -> yaml.Event:
        self.last = next(self._events)
        return self.last


def start(event: yaml.Event) -> Mark:
    """Where an event begins: ``line`` and ``column`` from 0, ``index`` in characters."""
    assert event.start_mark is not None
    return event.start_mark


def end(event: yaml.Event) -> Mark:
    """Where an event ends."""
    assert event.end_mark is not None
    return event.end_mark


_LEAST_VALUES = 20_000
"""A document may hold this many values, aliases counted in full, or as many as the text has characters."""


def pieces(text: str) -> Iterator[Piece]:
    """Yield the items of Lists as they come, and each document after its items.

    Raises:
        TextError: where the text is not YAML, or holds what ``sigs.k8s.io/yaml`` refuses.
    """
    events = Events(text)
    try:
        next(events)  # the stream's start
        while isinstance(next(events), yaml.DocumentStartEvent):
            yield from _document(events, Composer(events, max(_LEAST_VALUES, len(text))))
            next(events)  # the document's end
    except BodyError as error:
        raise TextError(start(events.last).line, error.code, error.detail) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else start(events.last).line
        raise TextError(line, "yaml-syntax", f"not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        detail = f"not YAML: {error.reason} (character #x{error.character:04x})"
        raise TextError(text.count("\n", 0, error.position), "yaml-syntax", detail) from None


def _document(events: Events, composer: Composer) -> Iterator[Piece]:
    root = next(events)
    if not isinstance(root, yaml.MappingStartEvent):
        yield _piece(root, composer.node(root), events, is_item=False)
        return
    head: dict[str, Tree] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = composer.key(event)
        if key in head:
            raise BodyError("duplicate-key", f"{key[:40]!a} is given more than once")
        value = next(events)
        if key == "items" and isinstance(value, yaml.SequenceStartEvent):
            head[key] = None
            yield from _items(events, composer)
        else:
            head[key] = composer.node(value)
    yield _piece(root, head, events, is_item=False)


def _items(events: Events, composer: Composer) -> Iterator[Piece]:
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        yield _piece(event, composer.node(event), events, is_item=True)


def _piece(first: yaml.Event, tree: Tree, events: Events, *, is_item: bool) -> Piece:
    mark = start(first)
    return Piece(tree, Span(mark.line, mark.column, mark.index, end(events.last).index), is_item)
