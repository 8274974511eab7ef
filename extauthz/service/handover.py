"""The handover file: a clean stop leaves the writes under way in it, and the next start takes them over.

While the gate runs the file holds a marker instead. So a start that finds the marker, no file, or an unreadable one
begins a recovery hold: writes may be under way that it does not know (design.md L5).

Beside the file, in one of the same name with ``.run``, is the id of the last run. A handover that another run has left,
as one from a backup, is not taken over: others have allowed writes since.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

VERSION = 1

Record: TypeAlias = Mapping[str, object]

RUNNING: Record = {"version": VERSION, "clean": False, "intents": []}
"""The marker."""

BESIDE = ".run"
"""How the name of the file with the last run's id ends."""


class Handover(Protocol):
    """Where pending writes are kept from one run to the next."""

    def take(self) -> Taken:
        """What the last run left, once.

        Raises:
            OSError: it cannot be marked as taken; then a clean stop could not leave anything either.
        """

    def leave(self, pending_writes: Sequence[Record], line: Record | None = None) -> None:
        """Keep the pending writes of a clean stop, and who stands in line (``spec.turns``), if anybody may.

        Raises:
            OSError: they are not kept, and the next start holds.
        """


class HandoverFile:
    """A file. ``str`` gives its path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._run = secrets.token_hex(8)
        """The id of this run."""

    def __str__(self) -> str:
        return str(self._path)

    def take(self) -> Taken:
        """As ``take``."""
        return take(self._path, self._run)

    def leave(self, pending_writes: Sequence[Record], line: Record | None = None) -> None:
        """As ``leave``."""
        leave(self._path, pending_writes, self._run, line)


class Taken(NamedTuple):
    """What a start found."""

    pending_writes: Sequence[Record]
    unclean: str | None
    """Why nothing can be taken over, or ``None``."""
    line: object = None
    """Who stood in line; ``None``: nobody could."""


def take(path: Path, run: str) -> Taken:
    """Read what the last run left, put the running marker in its place, and note that ``run`` is the last one now.

    Raises:
        OSError: the marker cannot be written; then a clean stop could not leave anything either.
    """
    taken = _read(path)
    _write(_beside(path), run)
    _write(path, json.dumps(RUNNING))
    return taken


def leave(path: Path, pending_writes: Sequence[Record], run: str, line: Record | None = None) -> None:
    """Write what a clean stop leaves.

    Raises:
        OSError: the marker stays, and the next start holds.
    """
    _write(path, json.dumps(left(pending_writes, run, line)))


def left(pending_writes: Sequence[Record], run: str, line: Record | None = None) -> Record:
    """What a clean stop of a run leaves. A release that knows no lines leaves that of it aside."""
    found = {"version": VERSION, "clean": True, "run": run, "intents": list(pending_writes)}
    return found if line is None else {**found, "line": line}


def _beside(path: Path) -> Path:
    return path.with_name(path.name + BESIDE)


def _read(path: Path) -> Taken:
    try:
        last = _beside(path).read_text()
    except FileNotFoundError:
        last = ""
    except (OSError, ValueError) as error:
        return Taken((), f"the id of the last run cannot be read: {error}")
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Taken((), "there is no handover yet")
    except OSError as error:
        return Taken((), f"the handover cannot be read: {error}")
    return parsed(text, last)


def parsed(text: str | bytes, last: str) -> Taken:
    """What the text of a handover says, if the ``last`` run has left it; empty: none has noted its id, as in 0.1."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Taken((), f"the handover cannot be read: {error}")
    match tree:
        case {"version": 1, "clean": True, "intents": list(pending_writes)}:
            if tree.get("run", "") != last:
                return Taken((), "the handover is of an earlier run, and not of the last one")
            return Taken(pending_writes, None, tree.get("line"))
        case {"version": 1, "clean": False}:
            return Taken((), "the last run did not stop cleanly")
        case {"version": int(version)} if version != VERSION:
            return Taken((), f"the handover is of version {version}, and this release reads {VERSION}")
    return Taken((), "the handover is not as a gate writes it")


def _write(path: Path, text: str) -> None:
    """Replace the file in one step. A crash or a loss of power leaves the old one or the new one.

    Nobody else may read it. What somebody has put in the way is replaced, and not written through.
    """
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(made, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
