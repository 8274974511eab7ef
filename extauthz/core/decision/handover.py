"""Pending writes as JSON-ready records: a clean stop hands them to the next start (design.md L5)."""

from __future__ import annotations

from collections.abc import Iterable

from extauthz.core.ledger import record
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.ledger.record import Record, RecordError


class HandoverError(ValueError):
    """A record of a handover cannot be read. Then a recovery hold begins, as after a crash."""


def dump(ledger: Ledger, now_s: float) -> list[dict[str, object]]:
    """Every live pending write. Times are seconds left, because the next start has another clock."""
    return [
        {**record.dump(ref, pending_write), "left_s": pending_write.expires_s - now_s}
        for ref, pending_write in ledger.pending
    ]


def load(ledger: Ledger, records: Iterable[Record], now_s: float) -> None:
    """Record every pending write again.

    Raises:
        HandoverError: a record is not one that ``dump`` wrote; the ledger then holds those before it.
    """
    for number, one in enumerate(records):
        left_s = one.get("left_s")
        try:
            if not isinstance(left_s, int | float):
                raise RecordError("left_s must be a number of seconds")
            ref, pending_write = record.load(one, now_s + left_s, now_s)
            if ledger.pending.follows(pending_write.id):
                raise RecordError(f"there is another pending write {pending_write.id}")
        except RecordError as error:
            raise HandoverError(f"pending write {number}: {error}") from error
        ledger.adopt(ref, pending_write)
