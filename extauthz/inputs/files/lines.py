"""Finds the line of a field of an object. It is needed for messages only, so reading keeps no marks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import yaml

from .content import Span
from .yamltext import Events, start

Path: TypeAlias = Sequence[str | int]

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def line_of(text: str, span: Span, path: Path) -> int:
    """The line, from 1, of the field at ``path`` in the object at ``span``, or of its nearest parent.

    JSON is read as YAML here, which it very nearly is.
    """
    part = " " * span.column + text[span.begin : span.end]
    line = 0
    try:
        events = Events(part)
        next(events), next(events)  # the starts of stream and document
        for reached in _descend(next(events), events, path):
            line = reached
    except (yaml.YAMLError, StopIteration):
        pass  # an empty item, or what YAML and JSON spell differently: the line reached so far
    return span.line + line + 1


def steps(dotted: str) -> Path:
    """The path that ``spec.containers[0].resources[nvidia.com/gpu]`` spells."""
    return [inside or plain for inside, plain in _STEP.findall(dotted)]


def _descend(event: yaml.Event, events: Iterator[yaml.Event], path: Path) -> Iterator[int]:
    """Yield the line of each step that is found."""
    for step in path:
        if isinstance(event, yaml.MappingStartEvent):
            found = _member(events, str(step))
        elif isinstance(event, yaml.SequenceStartEvent) and str(step).isdigit():
            found = _element(events, int(step))
        else:
            return
        if found is None:
            return
        line, event = found
        yield line


def _member(events: Iterator[yaml.Event], name: str) -> tuple[int, yaml.Event] | None:
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        if isinstance(key, yaml.ScalarEvent) and key.value == name:
            return start(key).line, next(events)
        _skip(key, events)
        _skip(next(events), events)
    return None


def _element(events: Iterator[yaml.Event], number: int) -> tuple[int, yaml.Event] | None:
    while not isinstance(element := next(events), yaml.SequenceEndEvent):
        if number == 0:
            return start(element).line, element
        _skip(element, events)
        number -= 1
    return None


def _skip(first: yaml.Event, events: Iterator[yaml.Event]) -> None:
    depth = int(isinstance(first, yaml.CollectionStartEvent))
    while depth:
        event = next(events)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
