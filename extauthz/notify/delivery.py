"""Queues notices and delivers them: each receiver has a queue and a task of its own, so none waits for another.

A notice is tried until it is taken, refused for good, or too old. Whatever is not delivered is counted and logged.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import Final, NamedTuple

from extauthz.notify.notice import Notice
from extauthz.notify.receivers import Receiver
from extauthz.notify.sending import Answer, Sends

MOST_WAITING: Final = 1000
"""Notices of one receiver, a few KiB each. Whoever gets a thousand at once has one thing to look at."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
"""Between two attempts, without the jitter."""

LONGEST_WISH_S: Final = 3600.0
"""What a receiver may ask for by ``Retry-After``."""

GIVE_UP_S: Final = 4 * 3600.0
"""After this long a notice is dropped: it is news no more."""

LEAVE_S: Final = 5.0
"""How long a clean stop waits for what is queued. A pod has 30 s to end."""

TELL_EVERY_S: Final = 60.0
"""Between two log lines about a full queue. Each has the number of all that were dropped since the last one."""


class Result(StrEnum):
    """What became of a notice; a metric label."""

    DELIVERED = "delivered"
    RETRIED = "retried"
    """An attempt failed, and another one follows. All others are the end of a notice."""
    REFUSED = "refused"
    EXPIRED = "expired"
    OVERFLOW = "overflow"
    UNSENT = "unsent"
    """Still queued when the gate stopped."""
    FAILED = "failed"
    """By a fault of ours."""


class _Waiting(NamedTuple):
    notice: Notice
    since_s: float


class _Lane:
    """One receiver: its queue, and the task that empties it."""

    def __init__(self, receiver: Receiver, delivery: Delivery) -> None:
        self.receiver = receiver
        self.waiting: deque[_Waiting] = deque()
        self.current: _Waiting | None = None
        """What is being delivered."""
        self.more = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._delivery = delivery
        self._overflown = 0
        self._told_s = float("-inf")

    def put(self, notice: Notice, now_s: float) -> None:
        if len(self.waiting) >= MOST_WAITING:
            self._overflow(now_s)
            return
        self.waiting.append(_Waiting(notice, now_s))
        self.idle.clear()
        self.more.set()

    def _overflow(self, now_s: float) -> None:
        self._delivery.count(self.receiver.name, Result.OVERFLOW)
        self._overflown += 1
        if now_s - self._told_s >= TELL_EVERY_S:
            self._delivery.dropped(self.receiver.name, Result.OVERFLOW, "its queue is full", self._overflown)
            self._overflown, self._told_s = 0, now_s

    async def run(self) -> None:
        while True:
            while self.waiting:
                self.current = self.waiting.popleft()
                self._delivery.count(self.receiver.name, await self._delivery.delivered(self.receiver, self.current))
            self.current = None
            self.idle.set()
            self.more.clear()
            await self.more.wait()


class Delivery:
    """All receivers.

    Args:
        tell: ``Log.event``.
        clock: seconds, monotonic.
        chance: from 0 to 1, for the jitter: several gates do not try again at the same moment.
    """

    def __init__(
        self,
        receivers: Iterable[Receiver],
        sender: Sends,
        tell: Callable[..., None],
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sender = sender
        self._tell = tell
        self._clock = clock
        self._chance = chance
        self._leaving = asyncio.Event()
        self._lanes = {one.name: _Lane(one, self) for one in receivers}
        self.results: Counter[tuple[str, str]] = Counter()
        """By receiver and result."""

    def put(self, notice: Notice, names: Iterable[str]) -> None:
        """Queue it for each of these receivers. Does no I/O."""
        for name in names:
            self._lanes[name].put(notice, self._clock())

    async def run(self) -> None:
        """Deliver for ever. Ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes.values():
                group.create_task(lane.run())

    async def leave(self) -> None:
        """Deliver what is queued, within a bounded time: each notice is tried at once, and once only."""
        self._leaving.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                for lane in self._lanes.values():
                    await lane.idle.wait()
        for name, lane in self._lanes.items():
            left = len(lane.waiting) + (lane.current is not None)
            if left:
                self.results[name, Result.UNSENT] += left
                self.dropped(name, Result.UNSENT, "the gate stops", left)
                lane.waiting.clear()

    # For lanes.

    async def delivered(self, receiver: Receiver, waiting: _Waiting) -> Result:
        """What became of a notice in the end."""
        attempts = 0
        while True:
            attempts += 1
            answer = await self._try(receiver, waiting.notice)
            if answer is None:
                return Result.FAILED
            if answer.well:
                return Result.DELIVERED
            result = self._end(answer, waiting)
            if result is not None:
                self.dropped(receiver.name, result, answer.why, 1, waiting.notice.id)
                return result
            self.count(receiver.name, Result.RETRIED)
            if attempts == 1:
                self._tell("warning", "notice-retried", receiver=receiver.name, why=answer.why, id=waiting.notice.id)
            await self._pause(pause_s(attempts, answer.after_s, self._chance()))

    async def _try(self, receiver: Receiver, notice: Notice) -> Answer | None:
        """``None``: a fault of ours, which must not end the gate."""
        try:
            return await self._sender.send(receiver, notice)
        except Exception:  # noqa: BLE001 (whatever it is, decisions and other notices go on)
            self._tell("error", "notice-failed", receiver=receiver.name, traceback=traceback.format_exc())
            return None

    def _end(self, answer: Answer, waiting: _Waiting) -> Result | None:
        if not answer.again:
            return Result.REFUSED
        if self._leaving.is_set():
            return Result.UNSENT
        return Result.EXPIRED if self._clock() - waiting.since_s >= GIVE_UP_S else None

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), seconds)

    def count(self, name: str, result: Result) -> None:
        """One more of a result."""
        self.results[name, result] += 1

    def dropped(self, name: str, result: Result, why: str, notices: int, notice_id: str = "") -> None:
        """Say that notices will never be delivered."""
        which = {"id": notice_id} if notice_id else {}
        self._tell("error", "notice-dropped", receiver=name, result=result.value, why=why, notices=notices, **which)


def pause_s(attempts: int, wished_s: float | None, chance: float) -> float:
    """Before the next attempt: doubled each time, at least half of that, and no less than the receiver wishes."""
    doubled = min(FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 20), LONGEST_PAUSE_S)
    return max(doubled * (0.5 + 0.5 * chance), min(wished_s or 0.0, LONGEST_WISH_S))
