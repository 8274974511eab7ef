"""A figure of the report: what was measured, the floor beside it, and whether the goal is met. Ratios, never times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


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


def median_ratio(measured: Sequence[float], floors: Sequence[float]) -> float:
    """The median of pairwise ratios: noise that hits both of a pair falls out."""
    return median(one / floor for one, floor in zip(measured, floors, strict=True))
