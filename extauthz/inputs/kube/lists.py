"""Reads what an API server sends: a JSON text, and a List item by item.

Of a List never more than one item is a tree: half the time of reading it whole, which keeps Python's garbage collector
busy, and others can have their turn in between.

An API server stores what Python does not read: values that are nested 10,000 deep, in custom resources, and integers
of any length, in the ``data`` of a ControllerRevision. Whoever may write such an object must not stop the whole list.
So what is nested deeper than ``MAX_DEPTH`` is read as null, and an integer that is too long as a text. Nothing that
counts is there.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress

from msgspec import Raw, Struct
from msgspec.json import Decoder, decode

from extauthz.core.model import Tree

MAX_DEPTH = 100
"""As of bodies (``core.wire.gojson``). A workload needs 20."""

_SURELY_SHALLOW = 1_000
"""So many objects and arrays may be nested: every Python reads them, and from 3.13 on it reads ten times as many."""

_NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]')


def loads(body: bytes) -> Tree:
    """One JSON text that an API server has sent.

    Raises:
        ValueError: it is none.
    """
    with suppress(ValueError, RecursionError):  # of an integer that is too long the former
        tree = decode(body)
        if body.count(b"[") + body.count(b"{") <= _SURELY_SHALLOW or not _deep(tree):
            return tree
    return json.loads(_shallow(body.decode()), parse_int=_integer)


class List(Struct):
    """A List, of which nothing is read yet."""

    items: list[Raw] | None = None
    metadata: Raw = Raw(b"null")


_list = Decoder(List).decode


def listed(body: bytes) -> List:
    """A List with its items as texts for ``loads``.

    Raises:
        ValueError: it is none.
    """
    try:
        return _list(body)
    except RecursionError:
        return _list(_shallow(body.decode()))


def _deep(tree: Tree) -> bool:
    """Whether anything is nested deeper than ``MAX_DEPTH``, level by level: Python may not go as deep itself."""
    level, depth = [tree], 0
    while level and depth <= MAX_DEPTH:
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [one for values in inner for one in values if isinstance(one, dict | list)]
        depth += 1
    return bool(level)


def _shallow(text: str) -> str:
    """The same text without what is nested too deep."""
    parts: list[str] = []
    depth, kept = 0, 0
    for found in _NESTING.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                parts += text[kept : found.start()], "null"
        elif mark in "]}":
            depth -= 1
            if depth == MAX_DEPTH:
                kept = found.end()
    if depth:
        raise ValueError("it breaks off")
    return "".join((*parts, text[kept:]))


def _integer(digits: str) -> Tree:
    try:
        return int(digits)
    except ValueError:
        return digits
