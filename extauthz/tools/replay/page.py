"""A page of a replay: what was wanted, what is granted, and the limit, over time. One file, with no script, in the look
of the gate's own page (``page.css``)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from extauthz.core import quantities
from extauthz.core.quantities import NANO
from extauthz.core.texts import stamp
from extauthz.serve.servers.page.chart import TICKS_UP, tick_step
from extauthz.tools.replay.measures import Course, Row
from extauthz.tools.replay.run import Courses, Result

LEFT, RIGHT, TOP, BOTTOM = 84, 944, 34, 222
"""Of a drawing, within 960 by 260."""

TICKS_ALONG: Final = 4
LINES: Final = 12
"""Lines of the table under a chart. Each has the highest of its time."""
MOST_WANTS: Final = 50
DAY_S: Final = 86_400.0

NAMES: Final = ("wanted", "granted", "limit")
"""In the order of ``Courses``. Each line has a form and a colour of its own."""


def page(result: Result, summary: str, wants: Sequence[tuple[str, ...]]) -> str:
    """As HTML. ``wants``: a row for each refused want, ``MOST_WANTS`` at most."""
    css = resources.files("extauthz.serve.servers.page").joinpath("static/page.css").read_text()
    text = resources.files(__package__).joinpath("page.html").read_text()
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True).from_string(text)
    return template.render(
        css=Markup(css),  # noqa: S704 (a file of ours)
        summary=summary,
        wants=wants,
        more=result.under.want_count - len(wants),
        charts=[
            _chart(row, courses, result.peak(row))
            for row, courses in sorted(result.courses.items())
            if any(courses.wanted.highest)
        ],
        left=LEFT,
        right=RIGHT,
        bottom=BOTTOM,
    )


def _chart(row: Row, courses: Courses, peak: int) -> dict[str, Any]:
    """What the template draws: heights and places, and the same in numbers."""
    quota, key = row
    highest = max(1, *(max(course.highest, default=0) for course in courses))
    begins_s, ends_s = _span(courses)
    amounts = ticks(highest, key)
    top = max(highest, amounts[-1])
    along = [number / TICKS_ALONG for number in range(TICKS_ALONG + 1)]
    return {
        "quota": quota,
        "key": key,
        "told": f"PEAK {quantities.format(peak, key)}, limit {quantities.format(courses.hard.now, key)}",
        "unit": unit(key),
        "up": [(_y(amount, top), quantities.format(amount, key)) for amount in amounts],
        "along": [
            (LEFT + (RIGHT - LEFT) * part, clock(begins_s + (ends_s - begins_s) * part, ends_s - begins_s))
            for part in along
        ],
        "lines": [(name, _points(course, begins_s, ends_s, top)) for name, course in zip(NAMES, courses, strict=True)],
        "rows": list(_numbers(key, courses)),
    }


def _y(amount: int, top: int) -> float:
    return BOTTOM - (BOTTOM - TOP) * amount / top


def _numbers(key: str, courses: Courses) -> Iterator[list[str]]:
    """Of each stretch of time the highest."""
    begins_s, ends_s = _span(courses)
    width_s = (ends_s - begins_s) / LINES
    for number in range(LINES):
        from_s = begins_s + number * width_s
        told = [quantities.format(_highest(course, from_s, from_s + width_s), key) for course in courses]
        yield [clock(from_s, ends_s - begins_s), *told]


def _highest(course: Course, from_s: float, until_s: float) -> int:
    first, last = ((at_s - course.begins_s) / course.width_s for at_s in (from_s, until_s))
    return max(course.highest[max(int(first), 0) : max(int(last - 1e-9) + 1, int(first) + 1)], default=0)


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
        y = _y(value, top)
        for at_s in (number * course.width_s, (number + 1) * course.width_s):
            x = LEFT + (RIGHT - LEFT) * (course.begins_s + at_s - begins_s) / max(ends_s - begins_s, 1e-9)
            points.append(f"{x:.1f},{y:.1f}")
    return " ".join(points)
