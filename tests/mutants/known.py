"""``equivalent.txt``: changes that change nothing, each with the reason.

An entry is lines of ``# why``, the file, the lines that go after ``-``, those that come after ``+``, and a blank line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutate import Mutant

EQUIVALENT = Path(__file__).parent / "equivalent.txt"


class Known(NamedTuple):
    """One change that is known to change nothing."""

    why: str
    path: str
    gone: tuple[str, ...]
    new: tuple[str, ...]

    def is_same(self, mutant: Mutant) -> bool:
        return mutant.path == self.path and mutant.change == (self.gone, self.new)


def read(text: str) -> Iterator[Known]:
    """All entries of a text.

    Raises:
        ValueError: an entry gives no reason, no file or no change.
    """
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.strip()]
        if not lines:
            continue
        why = " ".join(line[1:].strip() for line in lines if line[0] == "#")
        paths = [line.strip() for line in lines if line[0] not in "#-+"]
        gone, new = (tuple(line[1:].strip() for line in lines if line[0] == mark) for mark in "-+")
        if not paths and not gone and not new:
            continue  # the head of the file
        if not why or len(paths) != 1 or not gone or not new:
            raise ValueError(f"not an entry of {EQUIVALENT.name}: {block!r}")
        yield Known(why, paths[0], gone, new)


def stale(entries: list[Known], root: Path) -> list[str]:
    """Entries whose lines are no longer in their file."""
    return [
        f"{one.path}: {one.gone[0]}"
        for one in entries
        if not (root / one.path).exists()
        or not set(one.gone) <= {line.strip() for line in (root / one.path).read_text().splitlines()}
    ]
