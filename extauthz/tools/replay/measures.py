"""What is measured over time: levels of quotas, by how long they lasted, and their course."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

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
