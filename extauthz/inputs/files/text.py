"""Reads the documents of a text in YAML or JSON, and finds the line of a field.

JSON is read by the standard library, several times as fast as YAML. All else is YAML by PyYAML's events, and so is JSON
that cannot be read: YAML's reader says in which line. (Its ``compose`` calls itself in C once a level, and 200,000
brackets end the process. So it is used for lines alone, of what was read before.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import count
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire import gojson
from extauthz.core.wire.gojson import MAX_DEPTH, MAX_NUMBER_CHARS, Number

Path: TypeAlias = Sequence[str | int]

_JSON: Final = re.compile(r"\s*(?:---\s+)?(?=\{\s*[\"}])")
"""Before a JSON document. Three dashes between them make a stream of YAML of it, as ``yq -o json`` writes."""

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")

_LEAST_VALUES: Final = 20_000
"""A document may hold this many values, aliases counted in full, or as many as the text has characters."""


class TextError(Exception):
    """A text that cannot be read from here on. ``line`` counts from 1; ``code`` is ``BodyError``'s or of its kind."""

    def __init__(self, line: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.line = line
        self.code = code
        self.detail = detail


class Part:
    """A JSON document, or all documents of YAML that follow each other."""

    def __init__(self, text: str, begin: int, end: int, line: int) -> None:
        self._text, self._begin, self._end = text, begin, end
        self.line = line
        """Where it begins."""
        self._nodes: list[yaml.Node] = []
        self._further: Iterator[yaml.Node] | None = None

    def __str__(self) -> str:
        return self._text[self._begin : self._end]

    def line_of(self, number: int, path: Path) -> int:
        """The line of the field at ``path`` in a document, or of its nearest parent."""
        node, line = self._node(number), 0
        if node is not None:
            line = node.start_mark.line
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            line, node = found
        return self.line + line

    def _node(self, number: int) -> yaml.Node | None:
        """Of a document that was read. ``None``: JSON that YAML spells differently (an escaped pair of surrogates)."""
        if self._further is None:
            self._further = yaml.compose_all(str(self), yaml.CSafeLoader)
        with suppress(yaml.YAMLError, StopIteration):
            while len(self._nodes) <= number:
                self._nodes.append(next(self._further))
            return self._nodes[number]
        return None


class Document(NamedTuple):
    """What one document holds; ``None`` where it is empty."""

    tree: Tree
    part: Part
    number: int
    """In its part."""


def documents(data: bytes) -> Iterator[Document]:
    """Yield each document of a text, in UTF-8.

    Raises:
        TextError: where the text goes wrong, after what stands before was handed out.
    """
    text = _decoded(data)
    at, line = 0, 1
    while (found := _JSON.match(text, at)) is not None:
        begin = found.end()
        try:
            tree, end = gojson.DECODER.raw_decode(text, begin)
            gojson.check(tree)
        except (ValueError, BodyError, RecursionError):
            break
        line += text.count("\n", at, begin)
        yield Document(tree, Part(text, begin, end, line), 0)
        line += text.count("\n", begin, end)
        at = end
    yield from _yaml(Part(text, at, len(text), line))


def document(data: bytes) -> Tree:
    """The one document of a text; ``None``: there is nothing in it. Raises TextError."""
    found = list(documents(data))
    if len(found) > 1:
        second = found[1]
        raise TextError(second.part.line_of(second.number, ()), "second-document", "there is a second document")
    return found[0].tree if found else None


def steps(dotted: str) -> Path:
    """The path that ``spec.containers[0].resources[nvidia.com/gpu]`` spells."""
    return [inside or plain for inside, plain in _STEP.findall(dotted)]


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(1 + data.count(b"\n", 0, error.start), "invalid-utf8", "a byte is not UTF-8") from None


def _child(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    """A member of a mapping or list, and its line."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark.line, value) for key, value in node.value if key.value == str(step)), None)
    if isinstance(node, yaml.SequenceNode) and str(step).isdecimal() and int(step) < len(node.value):
        found = node.value[int(step)]
        return found.start_mark.line, found
    return None


def _yaml(part: Part) -> Iterator[Document]:
    text = str(part)
    try:
        events = yaml.parse(text, yaml.CSafeLoader)
        next(events)  # the stream's start
        for number in count():
            if not isinstance(next(events), yaml.DocumentStartEvent):
                return
            tree = _Composer(events, part.line, max(_LEAST_VALUES, len(text))).next()
            next(events)  # the document's end
            yield Document(tree, part, number)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line, text.count("\n")) if mark else 0  # of the end libyaml says the line after it
        raise TextError(part.line + line, "yaml-syntax", f"not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        detail = f"not YAML: {error.reason} (character #x{error.character:04x})"
        raise TextError(part.line + text.count("\n", 0, error.position), "yaml-syntax", detail) from None


class _Composer:
    """Makes the tree of one document from its events. Strings, numbers and keys are what PyYAML takes them for; but a
    time is a string, as it is to Kubernetes, and so is 12:30."""

    def __init__(self, events: Iterator[yaml.Event], line: int, limit: int) -> None:
        self._events = events
        self._line = line
        self._limit = self._left = limit
        self._depth = 0
        self._anchors: dict[str, tuple[Tree, int]] = {}
        """What a name stands for, and how many values that is."""

    def next(self) -> Tree:
        """The next value, read to its end."""
        return self._value(next(self._events))

    def _value(self, event: yaml.Event) -> Tree:
        before = self._left
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._spend(1, event)
        assert isinstance(event, yaml.NodeEvent)
        tree = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._collection(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = tree, before - self._left
        return tree

    def _alias(self, event: yaml.AliasEvent) -> Tree:
        """A copy: who changes one leaves the other. All values of it count, or ten lines would fill the memory."""
        name = str(event.anchor)
        if name not in self._anchors:
            raise self._fault(event, "yaml-alias", f"there is no anchor {name[:40]!a} before it")
        tree, values = self._anchors[name]
        self._spend(values, event)
        return deepcopy(tree)

    def _spend(self, values: int, event: yaml.Event) -> None:
        self._left -= values
        if self._left < 0:
            raise self._fault(event, "too-many-values", f"more than {self._limit} values, aliases counted in full")

    def _collection(self, event: yaml.Event) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault(event, "too-deep", f"nested more than {MAX_DEPTH} deep")
        tree = self._mapping() if isinstance(event, yaml.MappingStartEvent) else self._sequence()
        self._depth -= 1
        return tree

    def _sequence(self) -> list[Tree]:
        members: list[Tree] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            members.append(self._value(event))
        return members

    def _mapping(self) -> dict[str, Tree]:
        members: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                raise self._fault(key, "yaml-key", "a key is not a string")
            if key.value == "<<" and key.implicit[0]:
                merged |= self._merge(key)
                continue
            if key.value in members:
                raise self._fault(key, "duplicate-key", f"{key.value[:40]!a} is given more than once")
            members[key.value] = self.next()
        return merged | members if merged else members

    def _merge(self, key: yaml.Event) -> dict[str, Tree]:
        """``<<: *one`` or ``<<: [*one, *two]``: of two, the first one's members win."""
        value = self.next()
        merged: dict[str, Tree] = {}
        for one in reversed(value) if isinstance(value, list) else [value]:
            if not isinstance(one, dict):
                raise self._fault(key, "yaml-merge", "<< needs a mapping or a list of mappings")
            merged |= one
        return merged

    def _scalar(self, event: yaml.ScalarEvent) -> Tree:
        text: str = event.value
        tag = event.tag or _SAFE.resolve(yaml.ScalarNode, text, event.implicit)
        if tag in _TEXTS:
            return text
        if tag in _NUMBERS:
            return self._number(event, tag)
        if tag == _NULL:
            return None
        if tag != _BOOL or text.lower() not in _SAFE.bool_values:
            raise self._fault(event, "yaml-tag", f"{text[:40]!a} has the tag {tag[:40]}")
        return _SAFE.bool_values[text.lower()]

    def _number(self, event: yaml.ScalarEvent, tag: str) -> Tree:
        text: str = event.value
        if len(text) > MAX_NUMBER_CHARS:
            raise self._fault(event, "number-too-long", f"a number of {len(text)} characters")
        if ":" in text:  # to YAML 1.1 it counts minutes, to nobody else
            return text
        try:
            value = _NUMBERS[tag](yaml.ScalarNode(tag, text))
        except ValueError:
            raise self._fault(event, "yaml-tag", f"{text[:40]!a} is no number, and has the tag of one") from None
        if not isfinite(value):
            raise self._fault(event, "not-a-number", f"{text} has no spelling in JSON")
        return int(value) if value == int(value) else Number(repr(value))

    def _fault(self, event: yaml.Event, code: str, detail: str) -> TextError:
        assert event.start_mark is not None
        return TextError(self._line + event.start_mark.line, code, detail)


_SAFE: Final[Any] = yaml.SafeLoader("")
"""Its tables and readers of scalars are used."""

_TAG: Final = "tag:yaml.org,2002:"
_NULL, _BOOL = f"{_TAG}null", f"{_TAG}bool"
_TEXTS: Final = {f"{_TAG}{name}" for name in ("str", "timestamp", "value", "merge")}
_NUMBERS: Final[dict[str, Any]] = {f"{_TAG}int": _SAFE.construct_yaml_int, f"{_TAG}float": _SAFE.construct_yaml_float}
