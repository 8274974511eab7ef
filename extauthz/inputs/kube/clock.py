"""How far the clock here is off that of the API server, by the ``Date`` of answers that it gives anyway.

A bound and no guess (F. Cristian, "Probabilistic clock synchronization", 1989). The server wrote its time between
the request and the answer, and cut it to a whole second (RFC 9110 section 6.6.1, section 5.6.7). So each answer
says within which bounds the difference is. What several answers say together is narrower. A slow answer says
little, and none is wrong.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

KEPT_S: Final = 300.0
"""For so long, and up to twice, an answer counts. A clock drifts by some 0.1 s meanwhile."""

CUT_S: Final = 1.0
"""By less than that a ``Date`` is before the time that it was written."""


class _Bounds(NamedTuple):
    """Of the difference, in seconds: the clock here less that of the server."""

    low: float = -math.inf
    high: float = math.inf

    def within(self, other: _Bounds) -> _Bounds | None:
        """What both allow; ``None``: nothing, for one of the clocks was set meanwhile."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return _Bounds(low, high) if low <= high else None


class ClockCheck:
    """Takes answers, and says how far the clock is off at least.

    Args:
        wall: seconds since 1970.
        steady: any clock in seconds that is never set.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._before = self._now = _Bounds()
        """Of the answers of two spans of time."""
        self._since_s = -math.inf

    def begin(self) -> float:
        """A request is about to be sent: what ``answered`` is to be told."""
        return self._steady()

    def answered(self, began_s: float, date: str | None) -> None:
        """The head of an answer has come. One without a date, or with one that is none, says nothing."""
        server_s = _seconds(date)
        if server_s is None:
            return
        steady_s, wall_s = self._steady(), self._wall()
        said = _Bounds(wall_s - (steady_s - began_s) - server_s - CUT_S, wall_s - server_s)
        if steady_s - self._since_s >= KEPT_S:
            self._before, self._now, self._since_s = self._now, _Bounds(), steady_s
        now = self._now.within(said)
        if now is None or now.within(self._before) is None:
            self._before, now = _Bounds(), said
        self._now = now

    @property
    def off_s(self) -> float:
        """By how much the clock here is ahead at least; below 0: behind. 0: it may be right."""
        low, high = self._now.within(self._before) or self._now
        return max(low, 0.0) or min(high, 0.0)


def _seconds(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError):
        return None
