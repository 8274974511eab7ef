"""Reads a record: the files of all gates of a folder as one row of events, in the order of time.

A file that was cut reads up to its last whole member. What is missing is a gap.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from extauthz.tell.record import lines
from extauthz.tell.record.files import FILE, MEMBER, SUFFIX

PIECE: Final = 16 * 1024
"""What is unpacked before it is counted. It has 16 MiB at most."""

MOST_IN_MEMBER: Final = 64 * MEMBER
"""Bytes of lines. A gate writes ``MEMBER``, and what one more line has."""

MOST_IN_FILE: Final = 8 * FILE
"""A gate writes ``FILE``, and the state that it begins with: some 700 bytes of each workload."""


class RecordError(ValueError):
    """A record cannot be read. The text names file, line, what is wrong and the cure."""

    code = "bad-record"


class Begun(NamedTuple):
    """A file begins."""

    at_s: float
    gate: str
    settings: dict[str, Any]
    is_new: bool
    """The file before was of another run, or is incomplete: what is not ``listed`` is gone."""
    listed: set[object]
    """Workloads, and names of quotas and namespaces, of the state that follows."""


Event: TypeAlias = Begun | lines.Quota | lines.Labelled | lines.Load | lines.Gone | lines.Ask | lines.Gap


class _File(NamedTuple):
    path: Path
    start: lines.Start


class Record:
    """All files of a folder.

    Args:
        folder: where they are.

    Raises:
        RecordError: there are none, or one is none.
    """

    def __init__(self, folder: Path) -> None:
        self.warnings: list[str] = []
        """What was found missing so far, a line each."""
        paths = sorted(folder.glob(f"*{SUFFIX}"))
        if not paths:
            cure = f"name the folder that `serve --record` writes to, with files that end in {SUFFIX}"
            raise RecordError(f"{folder}: there is no file of a record; {cure}")
        files = [found for path in paths if (found := self._headed(path)) is not None]
        if not files:
            raise RecordError(f"{folder}: no file of it can be read; copy them whole")
        self._gates: dict[str, list[_File]] = {}
        for file in sorted(files, key=lambda file: file.start.at_s):
            self._gates.setdefault(file.start.gate, []).append(file)
        self.begins_s = min(file.start.at_s for file in files)
        self.ends_s = max(file.path.stat().st_mtime for file in files)
        """When the last file was written last, about."""

    def events(self) -> Iterator[Event]:
        """All of them, in the order of time. A file of each gate is in memory at a time.

        Raises:
            RecordError: a line does not belong to a record.
        """
        rows = [self._of_gate(files) for files in self._gates.values()]
        return rows[0] if len(rows) == 1 else heapq.merge(*rows, key=attrgetter("at_s"))

    def _headed(self, path: Path) -> _File | None:
        """A file, if its beginning is there."""
        try:
            with path.open("rb") as file:
                begin = zlib.decompressobj(31).decompress(file.read(65_536), 1 << 20)
        except OSError as error:
            raise RecordError(f"{path}: cannot be read: {error.strerror}; check its permissions") from None
        except zlib.error:
            begin = b""
        line, end, _ = begin.partition(b"\n")
        if not end:
            self.warnings.append(f"{path}: its beginning is missing, so none of it counts")
            return None
        start = _read(path, 1, line)
        if not isinstance(start, lines.Start):
            raise RecordError(f"{path}:1: k: a file begins with a line of k start; it is no record, remove it")
        if start.schema != lines.SCHEMA:
            what = f"schema {start.schema} is not {lines.SCHEMA}"
            raise RecordError(f"{path}:1: schema: {what}; read it with the release that wrote it")
        return _File(path, start)

    def _of_gate(self, files: Iterable[_File]) -> Iterator[Event]:
        run, last_s, is_torn = "", 0.0, False
        for path, start in files:
            is_new = start.run != run or is_torn
            if is_new and run:
                yield _gap(last_s, start.at_s)
            reader = _Reader(path, is_new)
            events = reader.read()
            is_torn, run = reader.torn is not None, start.run
            if reader.torn is not None and reader.torn not in self.warnings:  # it may be read twice
                self.warnings.append(reader.torn)
            for event in events:
                last_s = max(last_s, event.ends_s if isinstance(event, lines.Ask) else event.at_s)
                yield event


def _gap(from_s: float, until_s: float) -> lines.Gap:
    return lines.Gap(from_s, from_s=from_s, until_s=until_s)


class _Reader:
    def __init__(self, path: Path, is_new: bool) -> None:
        self._path = path
        self._is_new = is_new
        self._events: list[Event] = []
        self._refused: dict[str, lines.Ask] = {}
        """Refused questions by id."""
        self._listed: set[object] = set()
        self._state = 0
        """Lines of the state that are still to come."""
        self.torn: str | None = None
        """What is missing; ``None``: nothing."""

    def read(self) -> list[Event]:
        """Its events."""
        number = 0
        for text in self._members():
            for line in text.splitlines():
                number += 1
                found = _read(self._path, number, line)
                if found is not None:
                    self._take(found)
        self._events.sort(key=attrgetter("at_s"))  # that a workload is gone is written a moment later, a gap at its end
        return self._events

    def _members(self) -> Iterator[bytes]:
        if self._path.stat().st_size > MOST_IN_FILE:  # packed lines are never more than the lines
            what = f"it has more than {MOST_IN_FILE:,} bytes"
            raise RecordError(f"{self._path}: {what}; no gate writes such a file, remove it")
        data = self._path.read_bytes()
        view = memoryview(data)
        at, lost_at, whole = 0, None, 0
        while at < len(data):
            text, end = self._unpacked(view, at)
            whole += len(text)
            if whole > MOST_IN_FILE:
                raise self._too_large(at, MOST_IN_FILE)
            if end is not None:
                if lost_at is not None:
                    self._miss(text)
                    lost_at = None
                yield text
                at = end
                continue
            lost_at = at if lost_at is None else lost_at
            after = data.find(b"\x1f\x8b\x08", at + 1)
            at = after if after > 0 else len(data)
        if lost_at is not None:
            self.torn = f"{self._path}: its end is torn at byte {lost_at:,}: what came after is missing"

    def _unpacked(self, data: memoryview, at: int) -> tuple[bytes, int | None]:
        """The member that begins there, and where it ends; ``None``: it does not, or is none."""
        packer, parts, size = zlib.decompressobj(31), [], 0
        begin = at
        try:
            while at < len(data) and not packer.eof:
                parts.append(packer.decompress(data[at : at + PIECE]))
                size += len(parts[-1])
                at = min(at + PIECE, len(data))
                if size > MOST_IN_MEMBER:
                    raise self._too_large(begin, MOST_IN_MEMBER)
        except zlib.error:
            return b"", None
        return b"".join(parts), at - len(packer.unused_data) if packer.eof else None

    def _too_large(self, at: int, most: int) -> RecordError:
        what = f"it unpacks to more than {most >> 20} MiB at byte {at:,}"
        return RecordError(f"{self._path}: {what}; no gate writes such a file, remove it")

    def _miss(self, text: bytes) -> None:
        """A member in the middle is missing: until the next one nobody knows what happened."""
        after = _read(self._path, 0, text.partition(b"\n")[0])
        if after is not None:
            self._events.append(_gap(self._events[-1].at_s if self._events else after.at_s, after.at_s))
        self.torn = f"{self._path}: a part in the middle is missing"

    def _take(self, line: lines.AnyLine) -> None:
        if self._state > 0 and isinstance(line, lines.Quota | lines.Labelled | lines.Load):
            self._state -= 1
            self._listed.add(line.ref if isinstance(line, lines.Load) else line.name)
        if isinstance(line, lines.Start):
            self._state = line.state
            self._events.append(Begun(line.at_s, line.gate, line.settings, self._is_new, self._listed))
            return
        if isinstance(line, lines.Ask) and not line.is_allowed:
            known = self._refused.setdefault(line.id, line)
            if known is not line:
                known.n, known.last_s = line.n, line.last_s
                return
        if isinstance(line, lines.Gap):
            line.at_s = line.from_s
        self._events.append(line)


def _read(path: Path, number: int, text: bytes) -> lines.AnyLine | None:
    try:
        found = lines.read(text)
        if isinstance(found, lines.Ask | lines.Load):
            found.ref  # noqa: B018 (it raises where it names none)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}:{number}: {error}; copy the file anew, or remove it") from None
    return found
