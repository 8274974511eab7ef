"""Reads the text of a List item by item, so that never more than one item is a tree: half the time of reading it whole,
which keeps Python's garbage collector busy, and others can have their turn in between."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from extauthz.core.model import Tree

_SPACE = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


def members(text: str) -> Iterator[tuple[str, Tree]]:
    """Yield ``("items", item)`` for each item, and every other member of the outermost object as it is.

    Raises:
        ValueError: where the text is not one JSON object.
    """
    at, more = _first(text, 0, "{}")
    while more:
        key, at = _decode(text, at)
        at = _past(text, at, ":")
        if key == "items" and text.startswith("[", at):
            at, any_item = _first(text, at, "[]")
            while any_item:
                item, at = _decode(text, at)
                yield key, item
                at, any_item = _next(text, at, "]")
        else:
            value, at = _decode(text, at)
            yield str(key), value
        at, more = _next(text, at, "}")
    if at != len(text):
        raise ValueError(f"it goes on at {at}")


def _first(text: str, at: int, brackets: str) -> tuple[int, bool]:
    """Step into a bracket: to its first member, or to what follows it if it has none."""
    at = _past(text, at, brackets[0])
    return (_past(text, at, brackets[1]), False) if text.startswith(brackets[1], at) else (at, True)


def _next(text: str, at: int, end: str) -> tuple[int, bool]:
    """Step past a member: to the next one, or to what follows the end."""
    at = _spaced(text, at)
    return (_past(text, at, end), False) if text.startswith(end, at) else (_past(text, at, ","), True)


def _past(text: str, at: int, token: str) -> int:
    """Step past a token and the space around it."""
    at = _spaced(text, at)
    if not text.startswith(token, at):
        raise ValueError(f"no {token} at {at}")
    return _spaced(text, at + len(token))


def _spaced(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()
