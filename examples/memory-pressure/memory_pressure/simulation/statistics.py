"""Means with 95 % confidence intervals, and what a remedy changes."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple


class Mean(NamedTuple):
    """A mean; the true one is within ``around`` of it in 95 % of all samples."""

    value: float
    around: float

    def shown(self, digits: int = 0) -> str:
        return f"{self.value:.{digits}f} ± {self.around:.{digits}f}"


def mean(values: Sequence[float]) -> Mean:
    """Student's interval. Of a single value it is 0 wide: nothing is known of its spread.

    >>> mean([1.0, 2.0, 3.0]).shown(1)
    '2.0 ± 2.4'
    """
    if len(values) == 1:
        return Mean(values[0], 0.0)
    return Mean(fmean(values), quantile(len(values) - 1) * stdev(values) / sqrt(len(values)))


def quantile(freedom: int) -> float:
    """Student's t for 95 %, by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5).

    >>> round(quantile(29), 3), round(quantile(9), 3)
    (2.045, 2.262)
    """
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def change(before: Sequence[float], after: Sequence[float]) -> Mean | None:
    """What changed, in percent of the mean before; seed by seed. ``None`` where there was nothing before."""
    usual = fmean(before)
    if not usual:
        return None
    return mean([100 * (new - old) / usual for old, new in zip(before, after, strict=True)])
