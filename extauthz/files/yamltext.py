"""Reads YAML documents piece by piece: the items of a List each on their own, from libyaml's events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import yaml

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree

from .composer import Composer
from .problems import Piece, Span, TextError

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
