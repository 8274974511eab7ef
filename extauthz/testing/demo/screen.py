"""What the demo shows: lines while it runs, then a table. Colour only on a terminal; at most 100 columns."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TextIO

from .scenes import Outcome

COLOURS = {
    Outcome.ALLOWED: "32",
    Outcome.DENIED: "31",
    Outcome.UNREADABLE: "33",
    Outcome.OUTAGE: "35",
    Outcome.PASSED_BY: "36",
}
BOLD, DIM, GREEN, RED = "1", "2", "32", "31"

MAX_WIDTH = 100


class Row(NamedTuple):
    """One line of the table, with its sentence below."""

    who: str
    what: str
    outcome: Outcome
    code: int
    held: str
    sentence: str
    headline: str = ""
    """What happened before, and was no request."""


HEADINGS = ("#", "who asked", "for what", "decision", "API server then holds")


class Screen:
    """Writes to a stream; knows its width and whether it may use colour (https://no-color.org)."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._colour = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        columns = shutil.get_terminal_size((MAX_WIDTH, 24)).columns
        self.width = max(60, min(columns, MAX_WIDTH))

    def heading(self, text: str) -> None:
        self._write("\n" + self._paint(text, BOLD))

    def step(self, text: str, result: str = "", *, good: bool = True) -> None:
        """A line of progress."""
        mark = self._paint("✓", GREEN) if good else self._paint("✗", RED)
        self._write(f"  {mark} {text.ljust(52)} {self._paint(result, DIM)}".rstrip())

    def happens(self, text: str) -> None:
        """Something that is no request."""
        self._write(f"  {self._paint('· ' + text, DIM)}")

    def complain(self, text: str) -> None:
        self._paragraph(text, "      ", RED)

    def paragraph(self, text: str) -> None:
        self._paragraph(text, "", "")

    def table(self, rows: Sequence[Row]) -> None:
        """The columns take what they need; sentences are wrapped below their row."""
        cells = [_cells(number, row) for number, row in enumerate(rows, 1)]
        widths = [max(map(len, column)) for column in zip(HEADINGS, *cells, strict=True)]
        self._write(self._paint(_join(HEADINGS, widths), BOLD))
        self._write(self._paint("─" * self.width, DIM))
        for row, cell in zip(rows, cells, strict=True):
            if row.headline:
                self._paragraph(f"· {row.headline}", "", BOLD)
            line = _join(cell, widths)
            self._write(line.replace(cell[3], self._paint(cell[3], COLOURS[row.outcome]), 1))
            self._paragraph(row.sentence, " " * (widths[0] + 2), DIM)

    def _paragraph(self, text: str, indent: str, colour: str) -> None:
        wrapped = textwrap.wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in wrapped:
            self._write(indent + self._paint(line[len(indent) :], colour))

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour and colour and text else text

    def _write(self, line: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        self._stream.flush()


def _cells(number: int, row: Row) -> tuple[str, ...]:
    return (str(number), row.who, row.what, f"{row.outcome} {row.code}", row.held)


def _join(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
