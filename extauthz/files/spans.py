"""What the readers of YAML and JSON have in common: a place in a text, a piece of it, and a fault."""

from __future__ import annotations

from typing import NamedTuple

from extauthz.core.model import Tree


class Span(NamedTuple):
    """A part of a text. Lines and columns count from 0."""

    line: int
    column: int
    begin: int
    end: int


class Piece(NamedTuple):
    """A value in a text: an item of a List, or a document (of a List what is left without its items)."""

    tree: Tree
    span: Span
    is_item: bool


class TextError(Exception):
    """A text that cannot be read from here on. ``line`` counts from 0; ``code`` is ``BodyError``'s or of its kind."""

    def __init__(self, line: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.line = line
        self.code = code
        self.detail = detail
