"""``python -m bench.sharing_chart``: autoscalers in one full house, with and without turns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from extauthz.cli import Parser, exits, report

from . import full_house
from .full_house import Outcome

LEAST_JAIN: Final = 0.95
MOST_INTERVALS: Final = 2
"""How long one waits beyond its turn, in intervals of its own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the worlds under both rules; 1 if turns do not even them out."""
    parser = Parser(prog="python -m bench.sharing_chart", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="The first. Default: 0.")
    parser.add_argument("--seeds", type=int, default=30, metavar="N", help="How many from there on. Default: 30.")
    parser.add_argument("--svg", default="", metavar="FILE", help="Write the picture there.")
    arguments = parser.parse_args(argv)
    if arguments.seeds < 1:
        return exits.fail(exits.USAGE, ValueError("--seeds: must be 1 or more"))
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    found = [full_house.outcome(seeds, turns=turns) for turns in (False, True)]
    print("\n".join(table(found)))
    if arguments.svg:
        try:
            Path(arguments.svg).write_text(svg(found))
        except OSError as error:
            return exits.fail(exits.USAGE, ValueError(f"--svg {arguments.svg}: {error.strerror}"))
    return 0 if holds(found[-1]) else 1


def holds(found: Outcome) -> bool:
    """Whether nobody waits long beyond its turn, and all get their share."""
    late = any(row.beyond_s > MOST_INTERVALS * row.interval_s for row in found.rows)
    return not late and found.jain >= LEAST_JAIN


def table(found: Sequence[Outcome]) -> list[str]:
    """A line for each sort of client under each rule."""
    head = ("TURNS", "CLIENT", "INTERVAL", "WAIT P50", "MAX", "BEYOND ITS TURN", "JAIN", "IN USE")
    rows: list[Sequence[str]] = [head]
    for one in found:
        last = (f"{one.jain:.3f}", f"{one.used:.0%}")
        for row in one.rows:
            times = (f"{seconds:.0f} s" for seconds in row[1:])
            rows.append((_rule(one), row.name, *times, *last))
            last = ("", "")
    return report.lines(rows)


def svg(found: Sequence[Outcome]) -> str:
    """The same as a picture."""
    most = max(row.beyond_s for one in found for row in one.rows) or 1.0
    parts, top = [_text(10, 22, "longest wait beyond its turn")], 40
    for rows in zip(*(one.rows for one in found), strict=True):
        parts.append(_text(10, top + 20, rows[0].name))
        for one, row in zip(found, rows, strict=True):
            width, colour = max(row.beyond_s / most * 400, 1), "#2b7a4b" if one.turns else "#c0563a"
            parts.append(f'<rect x="130" y="{top}" width="{width:.1f}" height="14" fill="{colour}"/>')
            parts.append(_text(138 + width, top + 12, f"{row.beyond_s:.0f} s, {_rule(one)}"))
            top += 17
        top += 12
    parts += [_text(10, top + 12, ", ".join(f"{_rule(one)}: Jain's index {one.jain:.3f}" for one in found))]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{top + 24}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="13">', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'


def _rule(one: Outcome) -> str:
    return "Share" if one.turns else "FirstCome"


if __name__ == "__main__":
    sys.exit(main())
