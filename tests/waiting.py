"""Waits for things that tell nobody: what other processes do, and plain values."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

WITHIN_S = 60.0


class OutOfTimeError(TimeoutError):
    """What a test waits for has not come in time. It may only be that the machine is busy (``tests/again.py``)."""


def eventually(
    what: Callable[[], T], why: Callable[[], object] = lambda: "", within_s: float = WITHIN_S, every_s: float = 0.05
) -> T:
    """Looks again and again until it is true.

    Raises:
        OutOfTimeError: with what ``why`` gives.
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if result := what():
            return result
        time.sleep(every_s)
    raise OutOfTimeError(f"not within {within_s:.0f} s: {why() or what}")


async def until(what: Callable[[], object], why: Callable[[], object] = lambda: "", within_s: float = WITHIN_S) -> None:
    """The same, while the loop goes on."""
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() >= deadline:
            raise OutOfTimeError(f"not within {within_s:.0f} s: {why() or what}")
        await asyncio.sleep(0.01)


# A hang is a failure. No measure of speed: the bound is some hundred times what the work takes.


class HangError(AssertionError):
    """The work did not end."""


@contextmanager
def not_hanging(seconds: float = 120.0) -> Iterator[None]:
    """Raise ``HangError`` in the main thread if the work inside has not ended after ``seconds``."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise HangError(f"has not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
