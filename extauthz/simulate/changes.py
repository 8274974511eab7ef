"""Who has changed a workload in anything but its count, or has asked to, of late."""

from __future__ import annotations

from collections import deque

from .judge import Key

PAST_THE_GATES = 0
"""The number of no write."""


class Changes:
    """Says whether a gate may refuse a change because another one may still land.

    Args:
        memory_s: for how long a write that a gate was asked about may be under way to it.
    """

    def __init__(self, memory_s: float) -> None:
        self._memory_s = memory_s
        self._lately: dict[Key, deque[tuple[float, int]]] = {}

    def asked(self, now_s: float, key: Key, write: int) -> None:
        """A gate is asked about a change. ``write``: its number, which it has at each entrance."""
        self._lately.setdefault(key, deque()).append((now_s, write))

    def of_others(self, now_s: float, key: Key, write: int) -> bool:
        """Whether there was any but that of one write."""
        lately = self._lately.get(key, deque())
        while lately and lately[0][0] < now_s - self._memory_s:
            lately.popleft()
        return any(one != write for _, one in lately)
