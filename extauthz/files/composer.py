"""YAML as ``sigs.k8s.io/yaml`` over ``go.yaml.in/yaml/v2`` has it, a YAML 1.1 dialect: events to trees.

libyaml's scanner, which the Go one is a port of, cuts the text into events. What they mean is decided here by the rules
of ``resolve.go`` and ``decode.go`` of go-yaml: what ``kubectl`` prints and takes.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire import gojson

from . import yamlscalars

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
