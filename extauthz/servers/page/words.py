"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def lasting(seconds: float) -> str:
    """How long something lasts, in one unit, so that it changes rarely.

    >>> lasting(59), lasting(150), lasting(7200), lasting(200000)
    ('under a minute', '2 min', '2 h', '2 d')
    """
    if seconds < MINUTE_S:
        return "under a minute"
    if seconds < HOUR_S:
        return f"{int(seconds // MINUTE_S)} min"
    if seconds < 2 * DAY_S:
        return f"{int(seconds // HOUR_S)} h"
    return f"{int(seconds // DAY_S)} d"


def since(stamp: str, now_s: float) -> str:
    """How long ago a time of the API was."""
    return lasting(now_s - seconds(stamp))


def seconds(stamp: str) -> float:
    """A time of the API, in seconds since the epoch."""
    return datetime.fromisoformat(stamp).timestamp()


def clock(at_s: float) -> str:
    """The time of day in UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "workload"), count(12345, "workload")
    ('1 workload', '12,345 workloads')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
