"""The last decisions about workloads, and which workloads are refused now, for the HTTP API.

Both are of this gate alone, and are gone when it ends. Both are bounded in number and in bytes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from extauthz.core import texts
from extauthz.core.model import Decision, Lower
from extauthz.observe.episodes import Episode, Episodes, Outlook
from extauthz.observe.observers import Told

MOST = 10_000
"""Decisions that are kept."""

MOST_BYTES = 16 << 20
"""Memory of the decisions that are kept, about."""

MAX_USER_AGENT = 200


class Noted(NamedTuple):
    """One decision."""

    number: int
    """Counts up. A list goes on by it."""
    time_s: float
    """Seconds since the epoch."""
    decision: Decision
    user: str
    """Who sent it, as the API server has authenticated them. Empty: not known."""
    user_agent: str
    bytes: int
    """What it takes of memory, about."""


class Recent:
    """Takes note of decisions. One costs a few microseconds."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
        outlook: Outlook = lambda refused: refused,
    ) -> None:
        self._outlook = outlook
        self._clock = clock
        self._most = most
        self._most_bytes = most_bytes
        self._noted: deque[Noted] = deque()
        self._bytes = 0
        self._number = 0
        self._episodes: Episodes[None] = Episodes()

    def decided(self, told: Told) -> None:
        """Note a decision. What is about no workload is not kept, nor what was only asked (mode Clamp)."""
        decision, user, user_agent = told.decision, told.user, told.user_agent
        if decision.ref is None or isinstance(decision.todo, Lower):
            return
        now_s = self._clock()
        self._number += 1
        user, user_agent = texts.cut(user, texts.MAX_NAME), texts.cut(user_agent, MAX_USER_AGENT)
        noted = Noted(self._number, now_s, decision, user, user_agent, _size(decision, user, user_agent))
        self._noted.append(noted)
        self._bytes += noted.bytes
        while len(self._noted) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._noted.popleft().bytes
        self._episodes.decided(decision, now_s)

    def decisions(self, before: int | None = None) -> Iterator[Noted]:
        """Those that are kept, newest first; ``before``: only those with a lower number."""
        return (one for one in list(reversed(self._noted)) if before is None or one.number < before)

    def episodes(self) -> list[Episode[None]]:
        """Workloads that are refused and go on asking, those first that have waited longest."""
        self._end_silent()
        return self._episodes.open()

    def tick(self) -> None:
        """End episodes that nobody asks about any more, whose workload is gone, or whose write would be granted."""
        self._episodes.look(self._outlook)
        self._end_silent()

    def _end_silent(self) -> None:
        self._episodes.due(self._clock())
        self._episodes.take_ended()


def _size(decision: Decision, user: str, user_agent: str) -> int:
    """Bytes at most, about: a record of small things, its texts, and its rows. A character takes up to four."""
    evidence = decision.evidence
    _, resource, namespace, name = decision.ref or ("", "", "", "")
    texts_have = len(decision.sentence) + len(resource) + len(namespace) + len(name) + len(user) + len(user_agent)
    texts_have += sum(len(row.policy) + len(row.quota) + len(row.message) for row in evidence.policies)
    rows = len(evidence.shortages) + len(evidence.audit) + len(evidence.unspecified) + len(evidence.policies)
    return 700 + 500 * rows + 4 * texts_have
