"""A circuit breaker: after failures nothing is asked for a while, and nobody waits."""

from __future__ import annotations

FAILURES = 5
"""Failures in a row before it opens. A service that is restarted loses a request or two."""

FIRST_S = 1.0
LONGEST_S = 30.0
"""How long it stays open: twice as long after each trial that failed."""


class Breaker:
    """Closed, open, or half open: then one request is let through as a trial. Times are on one monotonic clock."""

    def __init__(self) -> None:
        self._failures = 0
        self._pause_s = FIRST_S
        self._until_s: float | None = None

    def admits(self, now_s: float) -> bool:
        """Whether a request may be sent. If it is a trial, the next request waits for its result."""
        if self._until_s is None:
            return True
        if now_s < self._until_s:
            return False
        self._until_s = now_s + self._pause_s
        return True

    def succeeded(self) -> None:
        """A request was answered."""
        self._failures, self._pause_s, self._until_s = 0, FIRST_S, None

    def failed(self, now_s: float) -> None:
        """A request was not answered."""
        self._failures += 1
        if self._failures >= FAILURES:
            self._until_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_S)
