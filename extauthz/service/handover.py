"""The handover file: a clean stop leaves the writes under way in it, and the next start takes them over.

While the gate runs the file holds a marker instead. So a start that finds the marker, no file, or an unreadable one
begins a recovery hold: writes may be under way that it does not know (docs/design.md L5).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

VERSION = 1

Record: TypeAlias = Mapping[str, object]

RUNNING: Record = {"version": VERSION, "clean": False, "intents": []}
"""The marker."""


class Handover(Protocol):
    """Where pending writes are kept from one run to the next."""

    def take(self) -> Taken:
        """What the last run left, once.

        Raises:
            OSError: it cannot be marked as taken; then a clean stop could not leave anything either.
        """

    def leave(self, pending_writes: Sequence[Record]) -> None:
        """Keep the pending writes of a clean stop.

        Raises:
            OSError: they are not kept, and the next start holds.
        """


class HandoverFile:
    """A file. ``str`` gives its path."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def take(self) -> Taken:
        """As ``take``."""
        return take(self._path)

    def leave(self, pending_writes: Sequence[Record]) -> None:
        """As ``leave``."""
        leave(self._path, pending_writes)


class Taken(NamedTuple):
    """What a start found."""

    pending_writes: Sequence[Record]
    unclean: str | None
    """Why nothing can be taken over, or ``None``."""


def take(path: Path) -> Taken:
    """Read what the last run left, and put the running marker in its place.

    Raises:
        OSError: the marker cannot be written; then a clean stop could not leave anything either.
    """
    taken = _read(path)
    _write(path, RUNNING)
    return taken


def leave(path: Path, pending_writes: Sequence[Record]) -> None:
    """Write the pending writes of a clean stop.

    Raises:
        OSError: the marker stays, and the next start holds.
    """
    _write(path, left(pending_writes))


def left(pending_writes: Sequence[Record]) -> Record:
    """What a clean stop leaves."""
    return {"version": VERSION, "clean": True, "intents": list(pending_writes)}


def _read(path: Path) -> Taken:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Taken((), "there is no handover yet")
    except OSError as error:
        return Taken((), f"the handover cannot be read: {error}")
    return parsed(text)


def parsed(text: str | bytes) -> Taken:
    """What the text of a handover says."""
    try:
        tree = json.loads(text)
    except ValueError as error:
        return Taken((), f"the handover cannot be read: {error}")
    match tree:
        case {"version": 1, "clean": True, "intents": list(pending_writes)}:
            return Taken(pending_writes, None)
        case {"version": 1, "clean": False}:
            return Taken((), "the last run did not stop cleanly")
        case {"version": int(version)} if version != VERSION:
            return Taken((), f"the handover is of version {version}, and this release reads {VERSION}")
    return Taken((), "the handover is not as a gate writes it")


def _write(path: Path, tree: Record) -> None:
    """Replace the file in one step. A crash or a loss of power leaves the old one or the new one."""
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w") as file:
        json.dump(tree, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
