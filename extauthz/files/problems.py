"""What is wrong with a file that a person wrote, with file, line, field and cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from extauthz.core.model import Tree


class FileProblem(NamedTuple):
    """One thing to repair. Prints as compilers do: ``quotas.yaml:12: spec.hard.cpu: what is wrong; the cure``."""

    file: str
    line: int | None
    """From 1; ``None`` where the file has none (it cannot be opened)."""
    field: str
    """As the API server spells it, ``spec.hard[requests.cpu]``; empty where it is not about a field."""
    detail: str
    cure: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(filter(None, (place, self.field, f"{self.detail}; {self.cure}")))


class FilesError(Exception):
    """Files that cannot be used. Their author's fault: trying again helps only once they have changed.

    ``problems`` lists everything that is wrong with all of them; the text is one line each.
    """

    code = "bad-file"

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        assert problems
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


# What the readers of YAML and JSON have in common: a place in a text, a piece of it, and a fault.


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
