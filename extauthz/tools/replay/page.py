"""A page of a replay: what was wanted, what is granted, and the limit, over time. One file, with no script."""

from __future__ import annotations

from html import escape

from extauthz.core import quantities
from extauthz.core.texts import stamp
from extauthz.tools.replay.measures import Course, Row
from extauthz.tools.replay.run import Courses, Result

WIDTH, HEIGHT = 960.0, 220.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 952.0, 12.0, 190.0

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b;
  background: #fff; }
svg { width: 100%; height: auto; }
figure { margin: 2rem 0; }
figcaption { font-weight: 600; }
text { font: 11px system-ui, sans-serif; fill: #555; }
.wanted { fill: none; stroke: #b3261e; stroke-width: 1.5; }
.granted { fill: none; stroke: #3a7d44; stroke-width: 1.5; }
.hard { fill: none; stroke: #1b1b1b; stroke-width: 1.5; stroke-dasharray: 6 4; }
.axis { stroke: #bbb; }
.key span { margin-right: 1.5em; }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #161616; }
  text { fill: #aaa; }
  .hard { stroke: #eee; }
}
"""

_KEY = """<p class="key"><span style="color:#b3261e">wanted</span><span style="color:#3a7d44">granted</span>
<span>- - limit</span></p>"""


def page(result: Result, summary: str) -> str:
    """The page in HTML."""
    charts = [_figure(row, courses) for row, courses in sorted(result.courses.items()) if any(courses.wanted.highest)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Replay of growth</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Replay of growth</h1>\n"
        f"<p>{escape(summary)}.</p>\n{_KEY}\n{''.join(charts)}</body>\n</html>\n"
    )


def _figure(row: Row, courses: Courses) -> str:
    quota, key = row
    highest = max(1, *(max(course.highest, default=0) for course in courses))
    begins_s = min(course.begins_s for course in courses)
    ends_s = max(course.begins_s + course.width_s * len(course.highest) for course in courses)
    lines = "".join(
        f'<polyline class="{name}" points="{_points(course, begins_s, ends_s, highest)}"/>\n'
        for name, course in zip(("wanted", "granted", "hard"), courses, strict=True)
    )
    peak = quantities.format(max(courses.wanted.highest, default=0), key)
    label = f"{quota}: {key}; wanted at most {peak}, limit {quantities.format(courses.hard.now, key)}"
    return (
        f'<figure>\n<figcaption>{escape(label)}</figcaption>\n<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-label="{escape(label)}">\n'
        f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}"/>\n'
        f'<text x="4" y="{TOP + 8}">{escape(quantities.format(highest, key))}</text><text x="4" y="{BOTTOM}">0</text>\n'
        f'<text x="{LEFT}" y="{BOTTOM + 18}">{stamp(begins_s, "seconds")}</text>\n'
        f'<text x="{RIGHT}" y="{BOTTOM + 18}" text-anchor="end">{stamp(ends_s, "seconds")}</text>\n'
        f"{lines}</svg>\n</figure>\n"
    )


def _points(course: Course, begins_s: float, ends_s: float, highest: int) -> str:
    """Steps: each value until the next one."""
    points: list[str] = []
    for number, value in enumerate(course.highest):
        y = BOTTOM - (BOTTOM - TOP) * value / highest
        for at_s in (number * course.width_s, (number + 1) * course.width_s):
            x = LEFT + (RIGHT - LEFT) * (course.begins_s + at_s - begins_s) / max(ends_s - begins_s, 1e-9)
            points.append(f"{x:.1f},{y:.1f}")
    return " ".join(points)
