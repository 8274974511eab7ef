"""What was asked of a workload, granted and refused, over time: a drawing of lines and marks in SVG's units."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from extauthz.core import quantities
from extauthz.serve.servers.api.shown import Json
from extauthz.serve.servers.page import rendering


class Frame(NamedTuple):
    """The whole drawing, and the part of it between the axes."""

    width: float = 960.0
    height: float = 260.0
    left: float = 48.0
    right: float = 952.0
    top: float = 16.0
    bottom: float = 226.0


FRAME = Frame()
INSET = 12.0
"""From the sides to the first and the last mark."""

TICKS_UP = 4
"""Steps of the upward axis, at most."""

GRANTED, REFUSED, UNKNOWN = "granted", "refused", "undecided"
_MARK = {"allow": GRANTED, "deny": REFUSED}


class Mark(NamedTuple):
    kind: str
    """``granted``, ``refused`` or ``undecided``: each has a shape and a colour."""
    x: float
    y: float
    foot: float
    """Where the count stood: what is between was asked for and not granted."""
    text: str


class Tick(NamedTuple):
    at: float
    text: str


class Chart(NamedTuple):
    granted: str
    """Points of the line of what the workload has been granted."""
    marks: Sequence[Mark]
    up: Sequence[Tick]
    along: Sequence[Tick]
    summary: str
    frame: Frame = FRAME


def chart(decisions: Sequence[Json]) -> Chart | None:
    """The drawing of decisions about counts, newest first; ``None``: there is nothing to draw."""
    counted = [one for one in reversed(decisions) if one["to"] is not None and not one["dryRun"]]
    if not counted:
        return None
    start = counted[0]["from"] or 0
    highest: int = max(start, *(one["to"] for one in counted), 1)
    begin_s, end_s = rendering.seconds(counted[0]["time"]), rendering.seconds(counted[-1]["time"])

    def x(at_s: float) -> float:
        part = (at_s - begin_s) / (end_s - begin_s) if end_s > begin_s else 0.5
        return round(FRAME.left + INSET + part * (FRAME.right - FRAME.left - 2 * INSET), 1)

    def y(count: int) -> float:
        return round(FRAME.bottom - (FRAME.bottom - FRAME.top) * count / highest, 1)

    level, points, marks = start, [(FRAME.left, y(start))], []
    for one in counted:
        at, before, to = x(rendering.seconds(one["time"])), one["from"], one["to"]
        kind = _MARK.get(one["verdict"], UNKNOWN)
        if before is not None and before != level:  # it has moved without the gate: shrunk, or by hand
            points += [(at, y(level)), (at, y(before))]
            level = before
        marks.append(Mark(kind, at, y(to), y(level), _text(one, kind)))
        if kind == GRANTED:
            points += [(at, y(level)), (at, y(to))]
            level = to
    points.append((FRAME.right, y(level)))
    line = " ".join(f"{across},{up}" for across, up in points)
    ends = [begin_s] if end_s == begin_s else [begin_s, (begin_s + end_s) / 2, end_s]
    along = [Tick(x(at_s), rendering.clock(at_s)) for at_s in ends]
    return Chart(
        line,
        marks,
        [Tick(y(n), f"{n:,}") for n in range(0, highest + 1, tick_step(highest))],
        along,
        _summary(counted, highest),
    )


def _clock(one: Json) -> str:
    return rendering.clock(rendering.seconds(one["time"]))


def _text(one: Json, kind: str) -> str:
    before = "" if one["from"] is None else f"from {one['from']:,} "
    return f"{_clock(one)} UTC: {before}to {one['to']:,} replicas, {kind}"


def tick_step(highest: int, least: int = 1) -> int:
    """Of an axis up to there: 1, 2 or 5 times a power of ten, in units of ``least``."""
    powers = (least * int(10**exponent) for exponent in itertools.count())
    return next(n * power for power in powers for n in (1, 2, 5) if highest <= n * power * TICKS_UP)


def _summary(counted: Sequence[Json], highest: int) -> str:
    kinds = [_MARK.get(one["verdict"], UNKNOWN) for one in counted]
    granted, refused = kinds.count(GRANTED), kinds.count(REFUSED)
    when = f"from {_clock(counted[0])} to {_clock(counted[-1])} UTC"
    return (
        f"{rendering.count(len(counted), 'decision')} {when}: {granted} granted, {refused} refused. "
        f"The highest count was {highest:,}. The table below has the last of them."
    )


# A resource of a quota as a bar: what is used and reserved, and where the hard limit is.


WIDE = 100.0
"""Units of a whole bar."""


class Bar(NamedTuple):
    """Texts as the API has them, and lengths from 0 to ``WIDE``."""

    resource: str
    used: str
    reserved: str
    """Empty: nothing."""
    hard: str
    guaranteed: str
    """Empty: nothing."""
    kept: str
    """Empty: nothing."""
    free: str
    """What is left; empty where it is over."""
    over: str
    """By how much used and reserved are over hard; empty: they are not."""
    percent: int
    """Of hard."""
    used_wide: float
    reserved_wide: float
    """Begins where ``used_wide`` ends. Both end at hard."""
    hard_at: float
    """Behind it is what is over."""
    guaranteed_at: float
    """Up to there is its guarantee."""
    kept_wide: float
    """What is kept for quotas below. It ends at hard."""


def bar(resource: str, row: Json) -> Bar:
    """The bar of one resource of an answer about a quota."""
    used, reserved, hard, kept, guaranteed = (
        quantities.parse(row.get(name, "0")) for name in ("used", "reserved", "hard", "kept", "guaranteed")
    )
    taken = used + reserved
    whole = max(hard, taken, 1)
    within = min(used, hard)
    return Bar(
        resource,
        row["used"],
        row["reserved"] if reserved else "",
        row["hard"],
        row["guaranteed"] if guaranteed else "",
        row["kept"] if kept else "",
        quantities.format(max(hard - taken - kept, 0), resource) if taken <= hard else "",
        quantities.format(taken - hard, resource) if taken > hard else "",
        percent=100 * taken // hard if hard else (0 if not taken else 100),
        used_wide=_wide(within, whole),
        reserved_wide=_wide(min(taken, hard) - within, whole),
        hard_at=_wide(hard, whole),
        guaranteed_at=_wide(guaranteed, whole),
        kept_wide=_wide(min(kept, max(hard - taken, 0)), whole),
    )


def bars(resources: Json) -> list[Bar]:
    return [bar(name, resources[name]) for name in sorted(resources)]


def share(part: str, whole: str) -> float:
    """The length of ``part`` where ``whole`` is the whole bar."""
    return _wide(min(quantities.parse(part), quantities.parse(whole)), max(quantities.parse(whole), 1))


def _wide(part: int, whole: int) -> float:
    return round(WIDE * part / whole, 2)
