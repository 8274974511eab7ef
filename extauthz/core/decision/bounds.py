"""The replica bounds of a platform's own service: its answers, and how old they are.

Time comes in; whoever asks the service puts its answers here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cachetools import LRUCache

from extauthz.core.model import WorkloadRef

MAX_ANSWERS = 65_536
"""How many workloads' answers are kept, a few hundred bytes each. The oldest questions go first."""

ASK_AGAIN_S = 1.0
"""Time to wait after a failure, for one workload. An autoscaler asks every few seconds."""


class Freshness(StrEnum):
    """State of what is known of one workload. docs/http-source.md says what each means for growth."""

    FRESH = "fresh"
    KEPT = "kept"
    """Too old. But the service cannot be asked, and the answer may still be used."""
    UNKNOWN = "unknown"
    """It was asked a moment ago, without success."""
    UNASKED = "unasked"
    """It must be asked."""


@dataclass(slots=True)
class _Answer:
    most: int | None = None
    answered_s: float | None = None
    failed_s: float | None = None


class Bound(NamedTuple):
    """What is known of one workload."""

    freshness: Freshness
    most: int | None = None
    """``None``: no bound. Valid only if it is fresh or kept."""
    age_s: float = 0.0


class Bounds:
    """Answers by workload.

    Args:
        ttl_s: how long an answer is good by itself.
        keep_s: how long, from its time, it is used while there is no other.
    """

    def __init__(self, ttl_s: float, keep_s: float, most: int = MAX_ANSWERS) -> None:
        self._ttl_s = ttl_s
        self._keep_s = max(keep_s, ttl_s)
        self._answers: LRUCache[WorkloadRef, _Answer] = LRUCache(most)

    def __len__(self) -> int:
        return len(self._answers)

    def answered(self, ref: WorkloadRef, most: int | None, now_s: float) -> None:
        """The service has answered; ``None``: no bound. ``now_s``: when it was asked."""
        self._answers[ref] = _Answer(most, now_s)

    def failed(self, ref: WorkloadRef, now_s: float) -> None:
        """The service has given no good answer."""
        answer = self._answers.setdefault(ref, _Answer())
        answer.failed_s = now_s

    def known(self, ref: WorkloadRef, now_s: float) -> Bound:
        """What is known of a workload."""
        answer = self._answers.get(ref)
        if answer is None:
            return Bound(Freshness.UNASKED)
        age_s = now_s - answer.answered_s if answer.answered_s is not None else None
        if age_s is not None and age_s < self._ttl_s:
            return Bound(Freshness.FRESH, answer.most, age_s)
        if answer.failed_s is None or now_s - answer.failed_s >= ASK_AGAIN_S:
            return Bound(Freshness.UNASKED)
        if age_s is not None and age_s < self._keep_s:
            return Bound(Freshness.KEPT, answer.most, age_s)
        return Bound(Freshness.UNKNOWN)
