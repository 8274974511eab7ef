"""How long to wait before trying again: client-go's own numbers (``client-go/tools/cache/reflector.go``)."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_S = 0.8
LONGEST_S = 30.0
FACTOR = 2.0
CALM_S = 120.0
"""After this long without a failure, the count begins again."""


class Backoff:
    """Waits that double from ``FIRST_S`` to ``LONGEST_S``. The second half of each wait is random."""

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._chance = chance
        self._next_s = FIRST_S
        self._failed_s = 0.0

    def failed(self) -> float:
        """Seconds to wait after one more failure."""
        now = self._clock()
        if now - self._failed_s > CALM_S:
            self._next_s = FIRST_S
        wait_s = self._next_s * (1 + self._chance())
        self._failed_s = now + wait_s
        self._next_s = min(self._next_s * FACTOR, LONGEST_S / 2)
        return wait_s
