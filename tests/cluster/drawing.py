"""Draws amounts over time as SVG: one panel a workspace, what is used as a filled step line, its limit dashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, RIGHT, BETWEEN = 680, 130, 50, 10, 60


class Sample(NamedTuple):
    """What one look has shown of a workspace."""

    second: float
    """Since the load began."""
    pods: int
    used: float
    hard: float
    """Both in CPUs."""


def svg(panels: Mapping[str, Sequence[Sample]], unit: str) -> str:
    """The picture. Each panel has at least two samples."""
    tall = len(panels) * (HEIGHT + BETWEEN)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{tall}" font-family="sans-serif"'
    ground = f'<rect width="{WIDTH}" height="{tall}" fill="white"/>'
    drawn = [
        _panel(title, samples, at * (HEIGHT + BETWEEN) + 24, unit) for at, (title, samples) in enumerate(panels.items())
    ]
    return "\n".join([f'{head} font-size="12">', ground, *drawn, "</svg>\n"])


def _panel(title: str, samples: Sequence[Sample], top: int, unit: str) -> str:
    most, last = 1.2 * max(each.hard for each in samples), samples[-1].second
    bottom = top + HEIGHT

    def x(second: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * second / last

    def steps(amounts: Sequence[float]) -> str:
        ys = [bottom - HEIGHT * amount / most for amount in amounts]
        moves = (f"H{x(each.second):.1f}V{y:.1f}" for each, y in zip(samples[1:], ys[1:], strict=True))
        return f"M{x(samples[0].second):.1f} {ys[0]:.1f}{''.join(moves)}"

    used, hard = steps([each.used for each in samples]), steps([each.hard for each in samples])
    area = f"{used}V{bottom}H{x(samples[0].second):.1f}Z"
    marks = dict.fromkeys(each.hard for each in samples)
    ticks = [
        f'<text x="{LEFT - 6}" y="{bottom - HEIGHT * each / most + 4:.1f}" text-anchor="end">{each:g}</text>'
        for each in (0, *marks)
    ]
    seconds = range(0, int(last) + 1, 30)
    times = [f'<text x="{x(each):.1f}" y="{bottom + 16}" text-anchor="middle">{each} s</text>' for each in seconds]
    return "\n".join(
        [
            f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title} ({unit})</text>',
            f'<path d="{area}" fill="#9ec5f0"/><path d="{used}" fill="none" stroke="#1f5fa8" stroke-width="2"/>',
            f'<path d="{hard}" fill="none" stroke="#b3261e" stroke-width="2" stroke-dasharray="6 4"/>',
            f'<path d="M{LEFT} {bottom}H{WIDTH - RIGHT}" stroke="#666"/>',
            *ticks,
            *times,
        ]
    )
