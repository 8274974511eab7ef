"""Series that name a quota: what it has, what is left of it, and what workloads that are refused still want of it.

Worked out of copies, in the thread of a scrape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import Decision, Shortage, Unspecified
from extauthz.core.queries import QuotaUse

NANOS = 10**9

Level: TypeAlias = Mapping[tuple[str, ...], float]
"""Values of the labels, in the table's order, to the value of the series."""


class Waiting(NamedTuple):
    """A workload that is refused and goes on asking."""

    latest: Decision
    """The last refusal."""
    age_s: float
    """Since the first."""


def levels(uses: Sequence[QuotaUse], waiting: Sequence[Waiting]) -> dict[str, Level]:
    """The series by their names. ``uses``: the quotas that have series, each after its parent."""
    rows = [row for use in uses for row in use.rows]
    shown = {(row.quota, row.resource) for row in rows}
    return {
        "extauthz_quota_used": {(row.quota, row.resource): row.used / NANOS for row in rows},
        "extauthz_quota_reserved": {(row.quota, row.resource): row.reserved / NANOS for row in rows},
        "extauthz_quota_hard": {(row.quota, row.resource): row.hard / NANOS for row in rows},
        "extauthz_quota": dict(_by_type(rows)),
        "extauthz_quota_headroom": headroom(uses),
        "extauthz_quota_denied_demand": denied_demand(rows, waiting),
        **_episodes(waiting, shown),
    }


def _by_type(rows: Iterable[UsageRow]) -> Iterator[tuple[tuple[str, ...], float]]:
    for row in rows:
        amounts = {"hard": row.hard, "used": row.used, "reserved": row.reserved}
        more = {"guaranteed": row.guaranteed, "kept": row.kept, "borrowed": row.borrowed}
        for kind, amount in (*amounts.items(), *((kind, amount) for kind, amount in more.items() if amount)):
            yield (row.quota, row.resource, kind), amount / NANOS


def headroom(uses: Iterable[QuotaUse]) -> Level:
    """What may still be added of each resource: in the quota, and in those above it that refuse growth."""
    found: dict[tuple[str, ...], float] = {}
    left: dict[str | None, Mapping[str, _Left]] = {None: {}}
    for use in uses:
        parent = use.node.parent
        above = left.get(parent.quota.name if parent is not None else None, {})
        here = {row.resource: _least(row, above.get(row.resource), audits=use.node.audits) for row in use.rows}
        left[use.node.quota.name] = above if use.node.audits else {**above, **here}
        found.update({(use.node.quota.name, resource): min(both) / NANOS for resource, both in here.items()})
    return found


class _Left(NamedTuple):
    """What is left of a key, nano-units."""

    within_hard: int
    beside_kept: int
    """Without what guarantees keep for others."""


def _least(row: UsageRow, above: _Left | None, *, audits: bool) -> _Left:
    own = row.hard - row.used - row.reserved
    beside = own if audits else own - row.kept
    if above is None:
        return _Left(own, beside)
    ours = max(row.guaranteed - row.used - row.reserved - row.kept, 0)
    beside_above = max(above.beside_kept, 0) + ours if ours else above.beside_kept
    return _Left(min(own, above.within_hard), min(beside, beside_above))


def denied_demand(rows: Iterable[UsageRow], waiting: Iterable[Waiting]) -> Level:
    """By how much a limit would have to be higher for all that is refused because of it."""
    wanted: dict[tuple[str, str], int] = {}
    for one in waiting:
        for short in one.latest.evidence.shortages:
            key = (short.quota, short.resource)
            wanted[key] = wanted.get(key, 0) + short.requested
    found: dict[tuple[str, ...], float] = {}
    for row in rows:
        asked = wanted.get((row.quota, row.resource), 0)
        lacks = max(asked + row.used + row.reserved + row.kept - row.hard, 0) if asked else 0
        found[row.quota, row.resource] = lacks / NANOS
    return found


def _episodes(waiting: Iterable[Waiting], shown: set[tuple[str, str]]) -> dict[str, Level]:
    """How many there are and the age of the oldest: in all, and by what refuses them."""
    in_all: dict[tuple[str, ...], float] = {}
    many: dict[tuple[str, ...], float] = {}
    oldest: dict[tuple[str, ...], float] = {}
    for latest, age_s in waiting:
        word = latest.refusal or ""
        in_all[word,] = in_all.get((word,), 0) + 1
        for quota, resource in ((row.quota, row.resource) for row in refusing(latest)):
            if (quota, resource) in shown:
                key = (quota, resource, word)
                many[key] = many.get(key, 0) + 1
                oldest[key] = max(age_s, oldest.get(key, 0.0))
    return {
        "extauthz_episodes": in_all,
        "extauthz_quota_episodes": many,
        "extauthz_quota_oldest_episode_seconds": oldest,
    }


def refusing(decision: Decision) -> Iterator[Shortage | Unspecified]:
    """What refuses: each quota and resource."""
    yield from decision.evidence.shortages
    yield from (row for row in decision.evidence.unspecified if not row.audits)


def auditing(decision: Decision) -> Iterator[Shortage | Unspecified]:
    """What would refuse, and only audits."""
    yield from decision.evidence.audit
    yield from (row for row in decision.evidence.unspecified if row.audits)
