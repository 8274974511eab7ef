"""What is measured over time: levels of quotas, by how long they lasted, and their course; and hours that were used, of
CPUs, GiB and devices, by quota and workload. Hours, not money."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TextIO, TypeAlias

from extauthz.core.ledger.coverage import Coverage, leaves
from extauthz.core.model import Amounts, WorkloadRef
from extauthz.core.quantities import NANO
from extauthz.core.resources import is_device
from extauthz.core.texts import stamp
from extauthz.tell.record.reading import Load

Row: TypeAlias = tuple[str, str]
"""A quota and a key of it."""

POINTS: Final = 512
"""Points of a course, at most. Each holds the highest of its time."""

HELD_S: Final = 1.0

_CPU: Final = "requests.cpu"
_MEMORY: Final = "requests.memory"
_GIB: Final = 1 << 30
_DAY_S: Final = 86_400.0


class Clock:
    """Time that counts: what lies in gaps, or outside of what is asked for, does not."""

    def __init__(self, since_s: float, until_s: float) -> None:
        self._gaps: list[tuple[float, float]] = []
        self._since_s = since_s
        self._until_s = until_s
        self._last_s = since_s
        self.counted_s = 0.0
        """Seconds so far that count."""
        self.gap_s = 0.0
        """Seconds so far that lay in gaps."""

    def gap(self, from_s: float, until_s: float) -> None:
        """Between these nothing counts."""
        self._gaps.append((from_s, until_s))

    def counts(self, at_s: float) -> bool:
        """Whether what happens then counts."""
        return self._since_s <= at_s < self._until_s

    def is_early(self, at_s: float) -> bool:
        """Whether what happens then bears on what counts."""
        return at_s < self._until_s

    def advance(self, at_s: float) -> None:
        at_s = min(at_s, self._until_s)
        if at_s <= self._last_s:
            return
        left = [(self._last_s, at_s)]
        for begin_s, end_s in self._gaps:
            left = [part for one in left for part in _without(one, begin_s, end_s)]
        counted = sum(end_s - begin_s for begin_s, end_s in left)
        self.counted_s += counted
        self.gap_s += at_s - self._last_s - counted
        self._last_s = at_s
        self._gaps = [one for one in self._gaps if one[1] > at_s]


def _without(part: tuple[float, float], begin_s: float, end_s: float) -> list[tuple[float, float]]:
    first, last = part
    if end_s <= first or begin_s >= last:
        return [part]
    found = [(first, begin_s)] if begin_s > first else []
    return [*found, (end_s, last)] if end_s < last else found


@dataclass(slots=True)
class Level:
    """A number over time."""

    now: int = 0
    since_s: float = 0.0
    """On the clock of what counts."""
    seconds: dict[int, float] = field(default_factory=dict)
    """How long it had each value."""
    peak: int = 0
    """The highest that it had at a moment that counts."""

    def set(self, value: int, counted_s: float, *, counts: bool) -> None:
        """It is ``value`` from now on."""
        if value == self.now:
            return
        if counted_s > self.since_s:
            self.seconds[self.now] = self.seconds.get(self.now, 0.0) + counted_s - self.since_s
            self.since_s = counted_s
        self.now = value
        if counts and value > self.peak:
            self.peak = value

    def end(self, counted_s: float) -> None:
        if counted_s > self.since_s:
            self.seconds[self.now] = self.seconds.get(self.now, 0.0) + counted_s - self.since_s
            self.since_s = counted_s
            self.peak = max(self.peak, self.now)

    def percentile(self, part: float) -> int:
        """The lowest value that it did not exceed for that part of the time."""
        whole, so_far = sum(self.seconds.values()), 0.0
        for value in sorted(self.seconds):
            so_far += self.seconds[value]
            if so_far >= part * whole - 1e-9:
                return value
        return self.peak


@dataclass(slots=True)
class Course:
    """A number over time, for a drawing. What lasts for less than ``HELD_S`` is not drawn: a pod that is being deleted
    counts beside the one that replaces it for a moment, in which nobody asks for anything."""

    begins_s: float
    width_s: float = 1.0
    highest: list[int] = field(default_factory=list)
    """One a stretch of ``width_s``."""
    now: int = 0
    since_s: float = 0.0
    drawn: int = 0
    """The last value that has lasted."""

    def set(self, at_s: float, value: int) -> None:
        """It is ``value`` from ``at_s`` on."""
        if value != self.now:
            self.reach(at_s)
            self.now, self.since_s = value, at_s

    def reach(self, at_s: float) -> None:
        """It was the same until ``at_s``."""
        if at_s - self.since_s >= HELD_S:
            self._fill(self.since_s, self.drawn)
            self.drawn = self.now
        self._fill(at_s, self.drawn)

    def _fill(self, at_s: float, value: int) -> None:
        """Draw ``value`` from where the drawing ends, up to there."""
        place = int((at_s - self.begins_s) / self.width_s)
        while place >= POINTS:
            pairs = range(0, len(self.highest), 2)
            self.highest = [max(self.highest[one : one + 2]) for one in pairs]
            self.width_s *= 2
            place = int((at_s - self.begins_s) / self.width_s)
        if self.highest:
            self.highest[-1] = max(self.highest[-1], value)
        self.highest += [value] * max(0, place + 1 - len(self.highest))


def rounded_up(value: int, step: int) -> int:
    """The least multiple of ``step`` that is no less."""
    return step * -(-value // step) if step else value


@dataclass(slots=True)
class _Use:
    quotas: tuple[str, ...]
    labels: str
    amounts: Amounts
    since_s: float


class Hours:
    """Sums what is observed, by day (UTC). Times are on the clock of what counts.

    Args:
        coverage: which quotas cover a workload.
        begins_s: when it begins, in seconds since 1970.
    """

    def __init__(self, coverage: Coverage, begins_s: float) -> None:
        self._coverage = coverage
        self._uses: dict[WorkloadRef, _Use] = {}
        self._sums: dict[tuple[str, str, str, str], float] = {}
        """Nano-units times seconds by quota, workload, day and key."""
        self.ends_s = begins_s // _DAY_S * _DAY_S
        """When the day is over, in seconds since 1970."""
        self._day = ""
        self.next_day(0.0)

    def next_day(self, now_s: float) -> None:
        """A day is over, and the next one begins."""
        self.end(now_s)
        self._day = stamp(self.ends_s)[:10]
        self.ends_s += _DAY_S

    def load(self, load: Load, now_s: float) -> None:
        """A workload uses this from now on."""
        self._sum(load.ref, now_s)
        used = {key: load.replicas * each for key, each in load.pod.items() if _counts(key)}
        for key, amount in load.beside.items():
            if _counts(key):
                used[key] = used.get(key, 0) + amount
        self._uses[load.ref] = _Use(self._quotas(load.ref, load.labels), load.labels, used, now_s)

    def gone(self, ref: WorkloadRef, now_s: float) -> None:
        self._sum(ref, now_s)
        self._uses.pop(ref, None)

    def recount(self, now_s: float) -> None:
        """Quotas or labels of namespaces are others."""
        for ref, use in self._uses.items():
            self._sum(ref, now_s)
            use.quotas = self._quotas(ref, use.labels)

    def end(self, now_s: float) -> None:
        for ref in self._uses:
            self._sum(ref, now_s)

    def rows(self) -> Iterator[tuple[str, str, str, str, float]]:
        """Quota, workload, day, key, and hours of CPUs, GiB or devices to the thousandth, where these are not zero."""
        for (quota, name, day, key), sums in sorted(self._sums.items()):
            unit = NANO * (_GIB if key == _MEMORY else 1)
            hours = round(sums / (unit * 3600), 3)
            if hours:
                yield quota, name, day, key, hours

    def _quotas(self, ref: WorkloadRef, labels: str) -> tuple[str, ...]:
        """Those without quotas below: what is used in one is used in those above."""
        return tuple(sorted(leaves(self._coverage.nodes(ref.namespace, labels)))) or ("-",)

    def _sum(self, ref: WorkloadRef, now_s: float) -> None:
        use = self._uses.get(ref)
        if use is None or now_s <= use.since_s:
            return
        for quota in use.quotas:
            for key, amount in use.amounts.items():
                place = (quota, _named(ref), self._day, key)
                self._sums[place] = self._sums.get(place, 0.0) + amount * (now_s - use.since_s)
        use.since_s = now_s


def _named(ref: WorkloadRef) -> str:
    """Pods that nobody else counts for are one row of their namespace."""
    name = "*" if ref.group_resource == "pods" else ref.name
    return f"{ref.group_resource}/{ref.namespace}/{name}"


def _counts(key: str) -> bool:
    return key in (_CPU, _MEMORY) or is_device(key)


def write_hours(hours: Hours, file: TextIO) -> None:
    """As CSV: a line for each quota, workload, day (UTC) and resource."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(("quota", "workload", "day", "resource", "unit", "hours"))
    for quota, workload, day, key, amount in hours.rows():
        unit = {_CPU: "CPU", _MEMORY: "GiB"}.get(key, "device")
        rows.writerow((quota, workload, day, key, unit, f"{amount:.3f}"))
