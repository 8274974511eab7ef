"""A page of a replay: what was wanted, what is granted, and the limit, over time. One file, with no script, in the look
of the gate's own page (``page.css``)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Final

from extauthz.core import quantities
from extauthz.core.quantities import NANO
from extauthz.core.texts import stamp
from extauthz.serve.servers.page.chart import TICKS_UP, tick_step
from extauthz.tools.replay.measures import Course, Row
from extauthz.tools.replay.run import Courses, Result, Want

WIDTH, HEIGHT = 960.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 84.0, 944.0, 34.0, 222.0

TICKS_ALONG: Final = 4
LINES: Final = 12
"""Lines of the table under a chart. Each has the highest of its time."""
MOST_WANTS: Final = 50
DAY_S: Final = 86_400.0

NAMES: Final = ("wanted", "granted", "limit")
"""In the order of ``Courses``. Each line has a form and a colour of its own."""

STYLE: Final = """
.wanted-line, .granted-line, .limit-line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
.wanted-line { stroke: var(--over-ink); stroke-dasharray: 2 3; }
.granted-line { stroke: var(--used); }
.limit-line { stroke: var(--ink); stroke-dasharray: 10 5; }
td, th { font-variant-numeric: tabular-nums; }
"""


def page(result: Result, summary: str) -> str:
    css = resources.files("extauthz.serve.servers.page").joinpath("static/page.css").read_text()
    charts = [
        _section(row, courses, result.peak(row))
        for row, courses in sorted(result.courses.items())
        if any(courses.wanted.highest)
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Replay of growth · extauthz</title>\n<style>\n{css}{STYLE}</style>\n</head>\n<body>\n"
        '<header class="top"><div class="wrap"><b class="brand">extauthz</b></div></header>\n'
        f'<main class="wrap">\n<h1>Replay of growth</h1>\n<p class="answer">{escape(summary)}.</p>\n'
        f"{_refused(result.most_missed, result.want_count)}{''.join(charts)}</main>\n</body>\n</html>\n"
    )


def _refused(wants: Sequence[Want], count: int) -> str:
    if not wants:
        return ""
    rows = [
        (
            f"{want.ref.group_resource}/{want.ref.namespace}/{want.ref.name}",
            want.asker or "not known",
            str(want.had),
            str(want.to),
            stamp(want.since_s, "seconds"),
            f"{want.seconds / 60:.1f}",
            f"{want.missed / 60:.1f}",
            ", ".join(" ".join(row) for row in want.rows),
        )
        for want in wants[:MOST_WANTS]
    ]
    names = ("Workload", "Asked by", "Had", "Wanted", "Since (UTC)", "Minutes", "Replica-minutes denied", "Limits")
    more = f'<p class="more">{count - len(rows):,} more: -o json has them.</p>\n' if count > len(rows) else ""
    return f"<section>\n<h2>Whose growth is refused</h2>\n{_table(names, rows)}{more}</section>\n"


def _section(row: Row, courses: Courses, peak: int) -> str:
    quota, key = row
    told = f"PEAK {quantities.format(peak, key)}, limit {quantities.format(courses.hard.now, key)}"
    sample = '<span><svg width="34" height="8" aria-hidden="true"><path class="{0}-line" d="M1 4H33"/></svg>{0}</span>'
    keys = "".join(map(sample.format, NAMES))
    return (
        f"<section>\n<h2>{escape(quota)}: {escape(key)}</h2>\n<p>{escape(told)}</p>\n"
        f'<figure class="chart">\n<div class="scroll" tabindex="0">{_drawing(row, courses, told)}</div>\n'
        f'<figcaption class="legend">{keys}</figcaption>\n</figure>\n{_course_table(key, courses)}</section>\n'
    )


def _drawing(row: Row, courses: Courses, told: str) -> str:
    quota, key = row
    highest = max(1, *(max(course.highest, default=0) for course in courses))
    begins_s, ends_s = _span(courses)
    ups = ticks(highest, key)
    top = max(highest, ups[-1])
    parts = [f'<text class="tick" x="4" y="14">{escape(unit(key))}</text>']
    for amount in ups:
        y = BOTTOM - (BOTTOM - TOP) * amount / top
        parts.append(f'<path class="grid" d="M{LEFT:g} {y:.1f}H{RIGHT:g}"/>')
        text = escape(quantities.format(amount, key))
        parts.append(f'<text class="tick" x="{LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for number in range(TICKS_ALONG + 1):
        x, at_s = (low + (high - low) * number / TICKS_ALONG for low, high in ((LEFT, RIGHT), (begins_s, ends_s)))
        anchor = {0: "start", TICKS_ALONG: "end"}.get(number, "middle")
        text = clock(at_s, ends_s - begins_s)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="{anchor}">{text}</text>')
    parts.append(f'<text class="tick" x="{RIGHT:g}" y="{HEIGHT - 4:g}" text-anchor="end">time (UTC)</text>')
    for name, course in zip(NAMES, courses, strict=True):
        points = _points(course, begins_s, ends_s, top)
        parts.append(f'<polyline class="{name}-line" points="{points}"/>')
    label = escape(f"{quota}: {key} over time; {told}")
    return f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{label}">\n' + "\n".join(parts) + "\n</svg>"


def _course_table(key: str, courses: Courses) -> str:
    """The same in numbers: of each stretch of time the highest."""
    begins_s, ends_s = _span(courses)
    width_s = (ends_s - begins_s) / LINES
    rows = []
    for number in range(LINES):
        from_s = begins_s + number * width_s
        told = [quantities.format(_highest(course, from_s, from_s + width_s), key) for course in courses]
        rows.append((clock(from_s, ends_s - begins_s), *told))
    return _table(("From (UTC)", "Wanted at most", "Granted at most", "Limit"), rows)


def _highest(course: Course, from_s: float, until_s: float) -> int:
    first, last = ((at_s - course.begins_s) / course.width_s for at_s in (from_s, until_s))
    return max(course.highest[max(int(first), 0) : max(int(last - 1e-9) + 1, int(first) + 1)], default=0)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>\n'
        for first, *rest in rows
    )
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table}</div>\n'


def _span(courses: Courses) -> tuple[float, float]:
    ends = max(course.begins_s + course.width_s * len(course.highest) for course in courses)
    return min(course.begins_s for course in courses), ends


def clock(at_s: float, whole_s: float) -> str:
    """A time on an axis of that length: with the day where it is longer than one."""
    text = stamp(at_s, "seconds")
    return f"{text[5:10]} {text[11:16]}" if whole_s > DAY_S else text[11:19]


def unit(key: str) -> str:
    """What amounts of a key are counted in."""
    if key.endswith("cpu"):
        return "CPUs"
    if _is_bytes(key):
        return "bytes"
    return "pods" if key == "pods" else "objects" if "count/" in key or key.endswith("claims") else "devices"


def ticks(highest: int, key: str) -> list[int]:
    """Round amounts from zero: powers of two of bytes, of others 1, 2 or 5 times a power of ten. Nano-units."""
    if _is_bytes(key):
        step = next(NANO << power for power in itertools.count() if highest <= (NANO << power) * TICKS_UP)
    else:
        step = tick_step(highest, NANO // 1000 if unit(key) == "CPUs" else NANO)
    return list(range(0, highest + step, step))


def _is_bytes(key: str) -> bool:
    return key.endswith(("memory", "storage")) or "hugepages-" in key


def _points(course: Course, begins_s: float, ends_s: float, top: int) -> str:
    """Steps: each value until the next one."""
    points: list[str] = []
    for number, value in enumerate(course.highest):
        y = BOTTOM - (BOTTOM - TOP) * value / top
        for at_s in (number * course.width_s, (number + 1) * course.width_s):
            x = LEFT + (RIGHT - LEFT) * (course.begins_s + at_s - begins_s) / max(ends_s - begins_s, 1e-9)
            points.append(f"{x:.1f},{y:.1f}")
    return " ".join(points)
