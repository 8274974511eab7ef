"""Kubernetes objects in a YAML or JSON file, one at a time, Lists unfolded; each knows where it stands.

Objects are handed out while the text is read: a List of 100,000 workloads is never in memory as one tree. Scalars mean
what they mean to ``kubectl`` (``composer``), and a key that is given twice is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from extauthz.core.errors import BodyError
from extauthz.core.model import Tree
from extauthz.core.wire import gojson

from . import jsontext, lines, yamltext
from .content import Content, FileProblem, FilesError, Piece, Span, TextError

_JSON_START = re.compile(r'\s*\{\s*["}]')
"""Anything else is YAML, such as ``{kind: List}``."""

_CURES = {
    "duplicate-key": "keep one of them",
    "yaml-tag": "remove the tag",
    "yaml-key": "put the key in quotes",
    "yaml-alias": "write the value out",
    "not-a-number": "write a number",
    "part-of-a-list": "fetch it whole: kubectl get --chunk-size=0",
}
"""A code as ``BodyError`` has them."""

_ANOTHER_CURE = "repair it and save the file again"
_NO_OBJECTS_CURE = "add an object, or, if none is meant, write {apiVersion: v1, kind: List, items: []}"


class Placed(NamedTuple):
    """One object of a file."""

    tree: Tree
    span: Span
    name: str
    """Of the file."""
    text: str
    """Of the file; shared by all its objects."""

    def problem(self, path: lines.Path, field: str, detail: str, cure: str) -> FileProblem:
        """Say what is wrong with the field at ``path``, which messages spell ``field``."""
        return FileProblem(self.name, lines.line_of(self.text, self.span, path), field, detail, cure)


def objects(content: Content) -> Iterator[Placed]:
    """Yield each object of a file. An empty file is refused: a file looks like that while it is being written, and "no
    quotas" would let everything pass.

    An empty file is refused: that is what a file looks like while it is being written, and "no quotas" would
    let everything pass.

    Raises:
        FilesError: where the text goes wrong, after what stands before was handed out.
    """
    try:
        yield from _objects(content.name, _decoded(content.data))
    except TextError as fault:
        cure = _CURES.get(fault.code, _ANOTHER_CURE)
        raise FilesError([FileProblem(content.name, fault.line + 1, "", fault.detail, cure)]) from None


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(data.count(b"\n", 0, error.start), "invalid-utf8", "a byte is not UTF-8") from None


def _objects(name: str, text: str) -> Iterator[Placed]:
    pieces: Callable[[str], Iterator[Piece]] = jsontext.pieces if _JSON_START.match(text) else yamltext.pieces
    has_escapes = "\\u" in text
    found = 0
    for tree, span, is_item in pieces(text):
        if has_escapes:
            _check_escapes(tree, span)
        if tree is None and not is_item:
            continue  # `---` with nothing behind it
        found += 1
        if is_item or not _is_list(tree, span):
            yield Placed(tree, span, name, text)
    if not found:
        raise FilesError([FileProblem(name, 1, "", "the file holds no objects", _NO_OBJECTS_CURE)])


def _check_escapes(tree: Tree, span: Span) -> None:
    try:
        gojson.check(tree)
    except BodyError as error:
        raise TextError(span.line, error.code, error.detail) from None


def _is_list(tree: Tree, span: Span) -> bool:
    """Whether a document is a List, whose items were handed out already. ``v1`` List or any ``…List``."""
    if not isinstance(tree, Mapping) or not str(tree.get("kind")).endswith("List"):
        return False
    metadata = tree.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("continue"):
        raise TextError(span.line, "part-of-a-list", "the List is only a part: it has metadata.continue")
    return True
