"""The files of a record: gzip members of lines, bounded in bytes and days."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from extauthz.core.texts import stamp

SUFFIX: Final = ".jsonl.gz"

MEMBER: Final = 256 * 1024
"""Bytes of lines in one member, at most about. A crash loses the last one."""

FILE: Final = 64 * 1024 * 1024
"""Bytes of lines in one file, without the state that it begins with. Whoever reads holds one of each gate."""

FILE_S: Final = 3600.0

_LEVEL: Final = 1
"""Lines are much alike: the lowest level halves the time, and takes a fifth more room."""


class Files:
    """Writes the files of one gate.

    Args:
        folder: where they are. It is made if it is not there.
        name: what their names begin with.
        most_bytes: of all files of the folder together, of other gates' too; the oldest goes first.
        most_s: how old the last change of a file may be.
        clock: seconds since 1970.
    """

    def __init__(self, folder: Path, name: str, most_bytes: int, most_s: float, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._name = name
        self._most_bytes = most_bytes
        self._most_s = most_s
        self._clock = clock
        self._file: int | None = None
        self._lines: list[bytes] = []
        self._count = 0
        """Of lines that wait."""
        self._waiting = 0
        self._in_file = 0
        self._began_s = self._flushed_s = 0.0
        self._made = 0
        self._lost: tuple[int, float] = (0, 0.0)
        self.failed = 0
        """Lines that could not be written, since the start."""
        self.trouble = ""
        """Why nothing can be written; empty: it can."""

    @property
    def ends(self) -> bool:
        """The file is full or old, or there is none."""
        return self._file is None or self._in_file >= FILE or self._flushed_s - self._began_s >= FILE_S

    def lost(self) -> tuple[int, float]:
        """How many lines could not be written since this was asked last, and since when."""
        lost, self._lost = self._lost, (0, 0.0)
        return lost

    def begin(self, at_s: float, state: list[bytes]) -> None:
        """Begin a file with these lines."""
        self._end(at_s)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._prune(at_s)
            self._file = os.open(self._path(at_s), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            self.trouble = str(error)
            return
        self._began_s = self._flushed_s = at_s
        for line in state:
            self.put(at_s, line, 1)
        self.flush(at_s)
        self._in_file = 0

    def put(self, at_s: float, lines: bytes, count: int) -> None:
        """Take so many lines."""
        if self._file is None:
            self._lose(count, at_s)
            return
        self._lines.append(lines)
        self._count += count
        self._waiting += len(lines)
        if self._waiting >= MEMBER:
            self.flush(at_s)

    def _lose(self, lines: int, at_s: float) -> None:
        lost, since_s = self._lost
        self._lost = lost + lines, since_s if lost else at_s
        self.failed += lines

    def flush(self, at_s: float) -> None:
        """Write what waits, as one member."""
        self._flushed_s = at_s
        if self._file is None or not self._lines:
            return
        lines, self._lines = self._lines, []
        count, self._count = self._count, 0
        self._in_file += self._waiting
        self._waiting = 0
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
        try:
            _write_all(self._file, packer.compress(b"".join(lines)) + packer.flush())
            self.trouble = ""
        except OSError as error:
            self.trouble = str(error)
            self._lose(count, at_s)
            self._close()

    def close(self) -> None:
        """Write what waits, and end the file."""
        self._end(self._clock())

    def _end(self, at_s: float) -> None:
        self.flush(at_s)
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None
        self._lines, self._waiting, self._count = [], 0, 0

    def _path(self, at_s: float) -> Path:
        self._made += 1
        when = stamp(at_s, "seconds").replace("-", "").replace(":", "")
        return self._folder / f"{self._name}.{when}.{os.getpid()}-{self._made}{SUFFIX}"

    def _prune(self, at_s: float) -> None:
        """Remove what is too old, and then the oldest, so that one more file has room.

        Gates that share a volume come and go, each with a name of its own; so it is not for a gate to remove only its
        own files. Others may write to one that changed within an hour.
        """
        found = sorted(_stats(self._folder))
        left = sum(size for _, size, _ in found)
        for changed_s, size, path in found:
            age_s = at_s - changed_s
            is_own = path.name.startswith(f"{self._name}.")
            if age_s > self._most_s or (left > self._most_bytes and (is_own or age_s > FILE_S)):
                path.unlink(missing_ok=True)
                left -= size


def _stats(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each file was changed, in seconds since 1970, and its bytes."""
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):  # another gate has removed it
            stat = path.stat()
            yield stat.st_mtime, stat.st_size, path


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
