"""Reads the text of a List item by item, so that never more than one item is a tree: half the time of reading it whole,
which keeps Python's garbage collector busy, and others can have their turn in between.

An API server stores what Python does not read: values that are nested 10,000 deep, in custom resources, and integers
of any length, in the ``data`` of a ControllerRevision. Whoever may write such an object must not stop the whole list.
So what is nested deeper than ``MAX_DEPTH`` is read as null, and an integer that is too long as a text. Nothing that
counts is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Generic, TypedDict, TypeVar

from msgspec import MsgspecError
from msgspec.json import Decoder

from extauthz.core.model import Tree

Form = TypeVar("Form")

MAX_DEPTH = 100
"""As of bodies (``core.wire.gojson``). A workload needs 20."""

_SURELY_SHALLOW = 1_000
"""So many objects and arrays may be nested: every Python reads them, and from 3.13 on it reads ten times as many."""

_SPACE = re.compile(r"[ \t\n\r]*")
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]')
_raw_decode = json.JSONDecoder().raw_decode


def loads(body: bytes) -> Tree:
    """One JSON text that an API server has sent.

    Raises:
        ValueError: it is none.
    """
    text = body.decode()
    tree, end = _decode(text, _spaced(text, 0))
    if _spaced(text, end) != len(text):
        raise ValueError(f"it goes on at {end}")
    return tree


class _Event(TypedDict, Generic[Form]):
    type: str
    object: Form


def reading(form: type | None) -> Callable[[bytes], Tree]:
    """Reads events whose objects are of that form, a TypedDict: other fields are left out, which is faster.

    ``None`` leaves out nothing. A text that is not of the form is read as ``loads`` does, which raises ValueError.
    """
    if form is None:
        return loads
    decode = Decoder(_Event[form]).decode  # type: ignore[valid-type]  # mypy knows no type that is a value

    def read(body: bytes) -> Tree:
        try:
            return decode(body)
        except (MsgspecError, ValueError, RecursionError):
            return loads(body)

    return read


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


def _decode(text: str, at: int) -> tuple[Tree, int]:
    """The value that begins at ``at``, and where it ends. Raises ValueError."""
    try:
        tree, end = _raw_decode(text, at)
        if text.count("[", at, end) + text.count("{", at, end) <= _SURELY_SHALLOW or not _deep(tree):
            return tree, end
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError):  # int() itself stops at 4,300 digits
        pass
    shallow, end = _shallow(text, at)
    return json.loads(shallow, parse_int=_integer), end


def _deep(tree: Tree) -> bool:
    """Whether anything is nested deeper than ``MAX_DEPTH``, level by level: Python may not go as deep itself."""
    level, depth = [tree], 0
    while level and depth <= MAX_DEPTH:
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for values in inner for one in values if isinstance(one, dict | list)]
        depth += 1
    return bool(level)


def _shallow(text: str, at: int) -> tuple[str, int]:
    """The same value without what is nested too deep, and where it ends in ``text``. Raises ValueError."""
    parts: list[str] = []
    depth, kept = 0, at
    for found in _NESTING.finditer(text, at):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                parts += text[kept : found.start()], "null"
        elif mark in "]}":
            depth -= 1
            if depth == MAX_DEPTH:
                kept = found.end()
        if depth == 0:
            return "".join((*parts, text[kept : found.end()])), found.end()
    raise ValueError("it breaks off")


def _integer(digits: str) -> Tree:
    try:
        return int(digits)
    except ValueError:
        return digits


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
