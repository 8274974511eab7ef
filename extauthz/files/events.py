"""libyaml's events of a text, with their marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import yaml


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
