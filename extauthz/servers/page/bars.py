"""A resource of a quota as a bar: what is used and reserved, and where the hard limit is."""

from __future__ import annotations

from typing import NamedTuple

from extauthz.core import quantities
from extauthz.servers.api.shown import Json

WIDE = 100.0
"""Units of a whole bar."""


class Bar(NamedTuple):
    """Texts as the API has them, and lengths from 0 to ``WIDE``."""

    resource: str
    used: str
    reserved: str
    """Empty: nothing."""
    hard: str
    guaranteed: str
    """Empty: nothing."""
    kept: str
    """Empty: nothing."""
    free: str
    """What is left; empty where it is over."""
    over: str
    """By how much used and reserved are over hard; empty: they are not."""
    percent: int
    """Of hard."""
    used_wide: float
    reserved_wide: float
    """Begins where ``used_wide`` ends. Both end at hard."""
    hard_at: float
    """Behind it is what is over."""
    guaranteed_at: float
    """Up to there is its guarantee."""
    kept_wide: float
    """What is kept for quotas below. It ends at hard."""


def bar(resource: str, row: Json) -> Bar:
    """The bar of one resource of an answer about a quota."""
    used, reserved, hard, kept, guaranteed = (
        quantities.parse(row.get(name, "0")) for name in ("used", "reserved", "hard", "kept", "guaranteed")
    )
    taken = used + reserved
    whole = max(hard, taken, 1)
    within = min(used, hard)
    return Bar(
        resource,
        row["used"],
        row["reserved"] if reserved else "",
        row["hard"],
        row["guaranteed"] if guaranteed else "",
        row["kept"] if kept else "",
        quantities.format(max(hard - taken - kept, 0), resource) if taken <= hard else "",
        quantities.format(taken - hard, resource) if taken > hard else "",
        percent=100 * taken // hard if hard else (0 if not taken else 100),
        used_wide=_wide(within, whole),
        reserved_wide=_wide(min(taken, hard) - within, whole),
        hard_at=_wide(hard, whole),
        guaranteed_at=_wide(guaranteed, whole),
        kept_wide=_wide(min(kept, max(hard - taken, 0)), whole),
    )


def bars(resources: Json) -> list[Bar]:
    """All of a quota, by name."""
    return [bar(name, resources[name]) for name in sorted(resources)]


def share(part: str, whole: str) -> float:
    """The length of ``part`` where ``whole`` is the whole bar."""
    return _wide(min(quantities.parse(part), quantities.parse(whole)), max(quantities.parse(whole), 1))


def _wide(part: int, whole: int) -> float:
    return round(WIDE * part / whole, 2)
