"""Kubernetes objects in YAML or JSON files, Lists unfolded; each knows where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from extauthz.core.model import Tree

from .content import Content, FileProblem
from .text import Document, Path, TextError, documents

_NO_OBJECTS_CURE: Final = "add an object, or, if none is meant, write {apiVersion: v1, kind: List, items: []}"

_CURES: Final = {
    "duplicate-key": "keep one of them",
    "yaml-tag": "remove the tag",
    "yaml-key": "put the key in quotes",
    "yaml-alias": "write the value out",
    "not-a-number": "write a number",
    "part-of-a-list": "fetch it whole: kubectl get --chunk-size=0",
    "empty-file": _NO_OBJECTS_CURE,
}
"""By the code of a ``TextError``."""

_ANOTHER_CURE: Final = "repair it and save the file again"


class Placed(NamedTuple):
    tree: Tree
    name: str
    """Of the file."""
    document: Document
    """The one that it stands in, without its tree: that of a List is as large as the file."""
    within: Path
    """Where it stands in that document."""

    def problem(self, path: Path, field: str, detail: str, cure: str) -> FileProblem:
        """Say what is wrong with the field at ``path``, which messages spell ``field``."""
        line = self.document.part.line_of(self.document.number, [*self.within, *path])
        return FileProblem(self.name, line, field, detail, cure)


class Found(NamedTuple):
    objects: list[Placed]
    problems: list[FileProblem]
    """What cannot be read. The objects that stand before it in its file were read."""


def objects(contents: Iterable[Content]) -> Found:
    """The objects of all files.

    A file of comments alone is passed over, as ``kubectl apply`` does it. An empty file is refused, and so are files
    without any object: that is what a file looks like while it is being written, and "no quotas" would let everything
    pass.
    """
    found, problems, without = list[Placed](), list[FileProblem](), list[FileProblem]()
    is_empty = True
    for name, data in contents:
        try:
            for document in _documents(data):
                is_empty = False
                found += _of_document(name, document)
        except TextError as fault:
            cure = _CURES.get(fault.code, _ANOTHER_CURE)
            problems.append(FileProblem(name, fault.line, "", fault.detail, cure))
        without.append(FileProblem(name, 1, "", "the file holds no objects", _NO_OBJECTS_CURE))
    return Found(found, problems or (without if is_empty else []))


def _documents(data: bytes) -> Iterator[Document]:
    if not data.strip():
        raise TextError(1, "empty-file", "the file holds no objects")
    return (each for each in documents(data) if each.tree is not None)


def _of_document(name: str, document: Document) -> Iterator[Placed]:
    """The document, or the items of a List: of a ``v1`` List, or of any ``…List`` that an API server prints."""
    tree, place = document.tree, document._replace(tree=None)
    if not isinstance(tree, Mapping) or not str(tree.get("kind")).endswith("List"):
        yield Placed(tree, name, place, ())
        return
    metadata, items = tree.get("metadata"), tree.get("items")
    if isinstance(metadata, Mapping) and metadata.get("continue"):
        line = document.part.line_of(document.number, ())
        raise TextError(line, "part-of-a-list", "the List is only a part: it has metadata.continue")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        yield Placed(item, name, place, ("items", index))
