"""Ratios of rounds that were measured in turn: their median, the lowest and the highest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.figures import Figure, Goal, median_ratio


@dataclass(frozen=True)
class Ratio:
    """Of pairs; each pair is of one round."""

    median: float
    low: float
    high: float


def ratio(measured: Sequence[float], floors: Sequence[float]) -> Ratio:
    """What both of a pair suffer falls out, and the range says how far to trust the median."""
    each = [one / floor for one, floor in zip(measured, floors, strict=True)]
    return Ratio(median_ratio(measured, floors), min(each), max(each))


def figure(
    name: str,
    measured: Sequence[float],
    floors: Sequence[float],
    goal: Goal | None = None,
    *,
    unit: str = "",
    digits: int = 0,
) -> Figure:
    """A row: medians of both, and the ratio with its range."""
    one, other = (f"{median(values):,.{digits}f}{unit}" for values in (measured, floors))
    found = ratio(measured, floors)
    return Figure(name, one, other, found.median, goal, (found.low, found.high))


def extra(measured: Sequence[float], base: Sequence[float]) -> list[float]:
    """What each takes beyond the base of its round."""
    return [one - other for one, other in zip(measured, base, strict=True)]


def turns(names: Sequence[str], rounds: int) -> Iterator[Sequence[str]]:
    """The order of each round: every second one backwards, so that nobody always comes first."""
    for number in range(rounds):
        yield names if number % 2 == 0 else names[::-1]
