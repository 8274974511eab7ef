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
    """The same as a picture: what Share gives, and what it costs."""
    parts: list[str] = []
    top = 22
    for title, seconds in (
        ("Longest wait beyond its turn, in seconds", lambda row: row.beyond_s),
        ("Median wait, in seconds", lambda row: row.p50_s),
    ):
        groups = [
            (rows[0].name, [(_rule(one), seconds(row)) for one, row in zip(found, rows, strict=True)])
            for rows in zip(*(one.rows for one in found), strict=True)
        ]
        top = _panel(parts, top, title, groups)
    groups = [("all of the house", [(_rule(one), 100 * one.used) for one in found])]
    top = _panel(parts, top, "In use, in per cent of the time of all GPUs", groups)
    parts.append(_text(10, top, ", ".join(f"{_rule(one)}: Jain's index {one.jain:.3f}" for one in found)))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{top + 12}" font-family="sans-serif"'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([f'{head} font-size="13">', ground, *parts, "</svg>\n"])


def _panel(parts: list[str], top: int, title: str, groups: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> int:
    """Bars of one unit, from zero; FirstCome is an outline. Returns where the next panel begins."""
    most = max(value for _, rows in groups for _, value in rows) or 1.0
    parts.append(_text(10, top, title))
    top += 12
    for name, rows in groups:
        parts.append(_text(10, top + 20, name))
        for rule, value in rows:
            look = 'fill="#0072b2"' if rule == "Share" else 'fill="none" stroke="#9c3f00"'
            wide = max(value / most * 400, 1)
            parts.append(f'<rect class="bar" x="130" y="{top + 1}" width="{wide:.1f}" height="12" {look}/>')
            parts.append(_text(138 + wide, top + 12, f"{value:.0f}, {rule}"))
            top += 17
        top += 12
    return top + 22


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'


def _rule(one: Outcome) -> str:
    return "Share" if one.turns else "FirstCome"


if __name__ == "__main__":
    sys.exit(main())
