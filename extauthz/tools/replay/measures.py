"""What a run measures over time: levels of quotas, by how long they lasted, their course, and what was refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, TypeAlias

from extauthz.core.model import WorkloadRef

if TYPE_CHECKING:
    from extauthz.tools.replay.wanted import Waiting

Row: TypeAlias = tuple[str, str]
"""A quota and a key of it."""

POINTS: Final = 512
"""Points of a course, at most. Each holds the highest of its time."""

HELD_S: Final = 1.0


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


@dataclass
class RefusedSum:
    """Of one quota and key."""

    asks: int = 0
    """Of the record, retries among them, that are refused here."""
    more: int = 0
    """Those of them that the record has granted."""
    workloads: set[WorkloadRef] = field(default_factory=set)
    missed: float = 0.0
    """Replicas that were wanted and not there, times seconds."""
    longest_s: float = 0.0
    """How long one workload has waited, at most."""


MOST_WANTS: Final = 1_000
"""Those with most missed are kept."""


class Found:
    """What one run has measured, by quota and key.

    Args:
        clock: what counts.
        draws: courses are kept.
    """

    def __init__(self, clock: Clock, *, draws: bool) -> None:
        self._clock = clock
        self._draws = draws
        self.levels: dict[Row, Level] = {}
        """What is used and reserved."""
        self.courses: dict[Row, tuple[Course, Course]] = {}
        """The same for a drawing, and the limit."""
        self.needed: dict[Row, int] = {}
        """The smallest limit that refuses nothing of what was asked; none where nobody has asked for more."""
        self.refused: defaultdict[Row, RefusedSum] = defaultdict(RefusedSum)
        self.missed = 0.0
        """Replicas that were wanted and not there, times seconds; each once, however many quotas refused it."""
        self.wants: list[tuple[float, int, Waiting]] = []
        """A heap by what was missed, of ``MOST_WANTS``."""
        self.want_count = 0
        self.regranted_asks = 0
        """Retries that the record has refused and that would have been granted here."""

    def move(self, row: Row, amount: int, hard: int, now_s: float) -> bool:
        """So much is used and reserved now, of a limit. Returns whether that is less than before."""
        level = self.levels.get(row)
        if level is None:
            level = self.levels[row] = Level(since_s=self._clock.counted_s)
            self.courses[row] = Course(now_s), Course(now_s)
        before = level.now
        level.set(amount, self._clock.counted_s, counts=self._clock.counts(now_s))
        if self._draws:
            for course, value in zip(self.courses[row], (amount, hard), strict=True):
                course.set(now_s, value)
        return amount < before

    def need(self, row: Row, least: int, now_s: float) -> None:
        """A question grows it, and no smaller limit lets it."""
        if self._clock.is_early(now_s) and least > self.needed.get(row, -1):
            self.needed[row] = least

    def denied(self, waiting: Waiting, now_s: float) -> None:
        """What a workload has waited for has ended."""
        self.missed += waiting.missed
        seconds = waiting.seconds = self._clock.counted_s - waiting.counted_s
        if seconds > 0 or self._clock.counts(now_s):
            self.want_count += 1
            heappush(self.wants, (waiting.missed, -self.want_count, waiting))
            if len(self.wants) > MOST_WANTS:
                heappop(self.wants)
        for row in waiting.rows:
            self.refused[row].missed += waiting.missed
            self.refused[row].longest_s = max(self.refused[row].longest_s, seconds)

    def regranted(self, rows: Iterable[Row], asks: int, now_s: float) -> None:
        """So many retries would have been granted that the record has refused."""
        if self._clock.counts(now_s):
            self.regranted_asks += asks
            for row in rows:
                self.refused[row].asks -= asks

    def end(self, now_s: float) -> None:
        """All is measured."""
        for level in self.levels.values():
            level.end(self._clock.counted_s)
        for courses in self.courses.values():
            for course in courses:
                course.reach(now_s)
