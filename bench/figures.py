"""A figure of the report: what was measured, the floor beside it, and whether the goal is met. Ratios, never times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

_Name = TypeVar("_Name")


@dataclass(frozen=True)
class Goal:
    """A bound of a ratio."""

    bound: float
    at_least: bool = False

    def met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


@dataclass(frozen=True)
class Figure:
    """One row of the table and one bar of the plot."""

    name: str
    measured: str
    floor: str
    ratio: float
    goal: Goal | None = None
    """``None``: told, not judged."""
    span: tuple[float, float] | None = None
    """The lowest and the highest ratio of the rounds."""

    @property
    def missed(self) -> bool:
        return self.goal is not None and not self.goal.met(self.ratio)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of them lie (nearest rank)."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def figure(
    name: str,
    measured: Sequence[float],
    floors: Sequence[float],
    goal: Goal | None = None,
    *,
    unit: str = "",
    digits: int = 0,
) -> Figure:
    """A row: medians of both, and the median ratio of the pairs of each round, with the range of these. What both of a
    pair suffer falls out, and the range says how far to trust the median."""
    shown = (f"{median(values):,.{digits}f}{unit}" for values in (measured, floors))
    ratios = [one / floor for one, floor in zip(measured, floors, strict=True)]
    return Figure(name, *shown, median(ratios), goal, (min(ratios), max(ratios)))


def turns(names: Sequence[_Name], rounds: int) -> Iterator[Sequence[_Name]]:
    """The order of each round: every second one backwards, so that nobody always comes first."""
    for number in range(rounds):
        yield names if number % 2 == 0 else names[::-1]
