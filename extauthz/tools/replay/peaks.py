"""Replays with the peak as the limit, and with one pod less: so what is suggested is known to be enough, and not too
much."""

from __future__ import annotations

from math import inf
from typing import Final

from extauthz.tell.record.reading import Record
from extauthz.tools.replay.measures import Row
from extauthz.tools.replay.run import Peaks, Replay, Result

ROUNDS: Final = 8
"""Replays with one pod less, at most. Where one limit refuses, another one above it may not be asked: it is tried again
with those alone that have refused nothing yet."""

MOST_ASKS: Final = 200_000
"""A replay of more takes half a minute, and is not done again."""


def checked(record: Record, found: Result, since_s: float = -inf, until_s: float = inf) -> Peaks | None:
    """What replays with the peaks of ``found`` show; ``None``: the record is too long for them.

    Args:
        since_s, until_s: as of the replay that has found them.
    """
    if found.asks > MOST_ASKS:
        return None
    peaks = {row: found.peak(row) for row in found.hard}
    at_peak = Replay(record, found.given, limits=peaks, since_s=since_s, until_s=until_s).run()
    refused = sum(row.asks for row in at_peak.under.refused.values())
    less = {row: why for row in peaks if (why := _untried(found, row)) is not None}
    open_rows = peaks.keys() - less.keys()
    for _ in range(ROUNDS):
        if not open_rows:
            break
        lower = {row: peak - (found.least[row] if row in open_rows else 0) for row, peak in peaks.items()}
        below = Replay(record, found.given, limits=lower, since_s=since_s, until_s=until_s).run()
        tight = {row for row in open_rows if row in below.under.refused and below.under.refused[row].asks}
        less |= dict.fromkeys(tight, "refuses")
        open_rows -= tight
        if not tight:
            break
    return Peaks(refused, less | dict.fromkeys(open_rows, "refuses nothing"))


def _untried(found: Result, row: Row) -> str | None:
    """Why nothing has to be tried; ``None``: it has to."""
    if row not in found.free.needed or row not in found.least:
        return "stood"
    if found.peak(row) - found.least[row] < found.guaranteed.get(row, 0):
        return "guaranteed"
    return None
