"""Tables of text for people: columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def lines(rows: Iterable[Sequence[str]], indent: str = "") -> list[str]:
    """One line a row; the first row may be the names of the columns."""
    table = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [indent + "  ".join(map(str.ljust, row, widths)).rstrip() for row in table]


def printable(text: str) -> str:
    """Without what could move a terminal's cursor: parts of it may come from a tenant."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
