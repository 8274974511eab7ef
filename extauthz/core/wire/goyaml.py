"""Reads YAML the way the API server does: ``sigs.k8s.io/yaml`` over ``go.yaml.in/yaml/v2``, a YAML 1.1 dialect.

libyaml's scanner, which the Go one is a port of, cuts the text into events; what they mean is decided here by the rules
of ``resolve.go`` and ``decode.go`` of go-yaml. Only the first document counts, as there. Apply patches are JSON more
often than not, and JSON is read as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from extauthz.core.budget import FLOW, TEXT_BYTES, YAML_NODE, Work
from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire import gojson, yamlscalars

MAX_NODES = 20_000
"""Values in one document, aliases counted in full (go-yaml: "document contains excessive aliasing")."""

MAX_DIRECTIVES = 8
MAX_DIRECTIVE_CHARS = 256
"""Lines that begin with ``%``, which libyaml may take for directives, and the length of one."""

_DIRECTIVE = re.compile(r"(?:^|(?<=[\n\r\x85\u2028\u2029]))%[^\n\r\x85\u2028\u2029]*")

_CURE = "send it as JSON, which is YAML too"

_BYTE_ORDER_MARK = "\ufeff"
"""libyaml steps over it at the start of any line, go-yaml at the start of the text only."""

_JSON_IS_NOT_YAML = ("\x85", "\u2028", "\u2029")
"""NEL, LS and PS: characters of a string in JSON, line breaks in YAML 1.1."""

_UNCLEAR_TAG = re.compile(r"(?:&\S+\s+)?!(?!<)\S*[],[{}]")
"""libyaml ends a tag at a comma or bracket, go-yaml takes them into the tag."""

_DECODER = gojson.decoder(yamlscalars.spell_fraction)

_MERGE = "<<"
_MERGE_TAG = "tag:yaml.org,2002:merge"


def loads(data: bytes, work: Work | None = None) -> Tree:
    """Decodes the first document.

    Raises ``BodyError`` with ``gojson``'s codes or with ``yaml-syntax``, ``yaml-alias``, ``yaml-merge``, ``yaml-key``,
    ``yaml-tag``, ``too-complex``.
    """
    text = gojson.text(data).removeprefix(_BYTE_ORDER_MARK)
    if _BYTE_ORDER_MARK in text:
        raise BodyError("yaml-syntax", "a byte order mark inside the text")
    if text.lstrip().startswith("{") and not any(character in text for character in _JSON_IS_NOT_YAML):
        try:
            return gojson.loads(data, _DECODER, work)
        except BodyError as error:
            if error.code != "json-syntax":
                raise
    return _compose(text, work)


def _compose(text: str, work: Work | None) -> Tree:
    if work is not None:
        work.spend(len(text) // TEXT_BYTES, "the YAML text", _CURE)
        work.spend(FLOW * (text.count("[") + text.count("{")), "the brackets of the YAML text", _CURE)
    _check_directives(text)
    try:
        tree = Composer(_events(text), work=work).document()
    except yaml.YAMLError as error:
        raise BodyError("yaml-syntax", " ".join(str(error).split())[:300]) from None
    gojson.check(tree)
    return tree


def _check_directives(text: str) -> None:
    """Refuse what libyaml would spend too long on: it compares each directive with all before, and copies a prefix to
    each tag that uses it."""
    for found, directive in enumerate(_DIRECTIVE.finditer(text), 1):
        if found > MAX_DIRECTIVES or len(directive.group()) > MAX_DIRECTIVE_CHARS:
            most = f"more than {MAX_DIRECTIVES} lines that begin with %, or one of {MAX_DIRECTIVE_CHARS} characters"
            raise BodyError("too-complex", f"{most}: the API needs no %YAML and no %TAG, leave them out")


def _events(text: str) -> Iterator[yaml.Event]:
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            assert event.start_mark is not None
            if _UNCLEAR_TAG.match(text, event.start_mark.index):
                raise BodyError(
                    "yaml-tag", f"where the tag {event.tag[:40]!a} ends is not clear: put a space behind it"
                )
        yield event


class Composer:
    """Makes trees of one document's events. Their values, aliases counted in full, are spent from ``work``;
    without it, more than ``limit`` are refused."""

    def __init__(self, events: Iterator[yaml.Event], limit: int = MAX_NODES, work: Work | None = None) -> None:
        self._events = events
        self._anchors: dict[str, tuple[Tree, int] | None] = {}
        self._limit = self._left = limit
        self._work = work
        self._depth = 0

    def document(self) -> Tree:
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        tree = self.node(next(self._events))
        next(self._events)  # the document's end: what is wrong just behind the value is an error to go-yaml too
        return tree

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._work is not None:
            self._work.spend(YAML_NODE * values, "the YAML values of the body, aliases counted in full", _CURE)
        elif self._left < 0:
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
            return yamlscalars.spell(_scalar(event))
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


def _scalar(event: yaml.ScalarEvent) -> yamlscalars.Scalar:
    if event.tag is None and not event.implicit[0]:
        return event.value
    return yamlscalars.resolve(event.tag or "", event.value)


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
