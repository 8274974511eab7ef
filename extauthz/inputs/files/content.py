"""Reads a file, or the YAML and JSON files of a directory, and tells cheaply whether they may have changed; and says
what is wrong with one, with file, line, field and cure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple, TypeAlias

SUFFIXES = (".yaml", ".yml", ".json")

_ATTEMPTS = 2
"""How often something that keeps changing is read, before it is taken as it is."""

Signature: TypeAlias = tuple[tuple[str, int, int, int, int, int], ...]
"""Name, device, inode, size, and times of change of each file, symbolic links followed."""


class Content(NamedTuple):
    """One file as it was read."""

    name: str
    """The path as the user gave it, for messages."""
    data: bytes


def read(path: Path) -> tuple[Content, ...]:
    """Read ``path``, or each ``*.yaml``, ``*.yml`` and ``*.json`` in it, by name, if it is a directory.

    Hidden entries of a directory are left out (``..data`` of a ConfigMap volume is one). What changes while it is
    read is read again, so that a directory is not seen half old and half new.

    Raises:
        FilesError: with every file that cannot be read; a directory without any.
    """
    for _ in range(_ATTEMPTS):
        before = signature(path)
        with suppress(FilesError):
            contents = _read(path)
            if signature(path) == before:
                return contents
    return _read(path)


def signature(path: Path) -> Signature:
    """What ``stat`` says of the regular files that ``read`` would read; of one that is missing, only zeros."""
    found = []
    for file in _files(path):
        try:
            stat = file.stat()
        except OSError:
            found.append((str(file), 0, 0, 0, 0, 0))
            continue
        if S_ISREG(stat.st_mode):  # the times of a pipe change as it is read
            times = stat.st_mtime_ns, stat.st_ctime_ns
            found.append((str(file), stat.st_dev, stat.st_ino, stat.st_size, *times))
    return tuple(found)


def _read(path: Path) -> tuple[Content, ...]:
    contents: list[Content] = []
    problems: list[FileProblem] = []
    for file in _files(path):
        try:
            contents.append(Content(str(file), file.read_bytes()))
        except OSError as error:
            detail = f"cannot be read: {error.strerror or error}"
            problems.append(FileProblem(str(file), None, "", detail, "check the path and its permissions"))
    if problems:
        raise FilesError(problems)
    if not contents:
        cure = f"put at least one file there that ends in {', '.join(SUFFIXES)}"
        raise FilesError([FileProblem(str(path), None, "", "the directory holds no such files", cure)])
    return tuple(contents)


def _files(path: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(path))
    except OSError:  # a file; or nothing, of which reading says why
        return [path]
    visible = [name for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
    return [path / name for name in visible if not (path / name).is_dir()]


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
