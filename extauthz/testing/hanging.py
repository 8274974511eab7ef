"""Turns a hang into a failure. No measure of speed: the bound is some hundred times what the work takes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
