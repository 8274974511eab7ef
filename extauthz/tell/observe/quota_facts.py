"""What the gate knows of each WorkspaceQuota, gathered without holding up a decision: for its status, and for the
series that name a quota; and what kinds of owners have its devices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.model import Decision, Shortage, Unknown, Unspecified
from extauthz.core.queries import Queries, QuotaUse
from extauthz.core.quota.problems import Standing
from extauthz.core.quota.spec import Mode
from extauthz.core.resources import is_device
from extauthz.tell.observe.autoscalers import NeverFit
from extauthz.tell.observe.observers import Serving
from extauthz.tell.observe.quota_status import Facts, Selected

SLICE = 200
"""Quotas looked at in one go: about a millisecond, which is the most that a decision waits."""

LOOK_S = 30.0
"""How old the numbers of ``DeviceOwners`` may be."""

Item = TypeVar("Item")


def _selected(use: QuotaUse, *, is_parent: bool) -> Selected:
    quota = use.node.quota
    if quota.namespace_selector is None or (quota.by_its_name and not use.selects_namespace):
        below = Selected.BELOW if use.workloads else Selected.CHILDREN
        return below if is_parent else Selected.NOBODY
    if use.workloads:
        return Selected.WORKLOADS if quota.workload_selector is None else Selected.LABELLED_WORKLOADS
    if not use.selects_namespace:
        return Selected.NO_NAMESPACE
    return Selected.NO_WORKLOAD if quota.workload_selector is None else Selected.NO_LABELLED_WORKLOAD


async def survey(
    queries: Queries,
    serving: Serving,
    never_fit: NeverFit,
    hold_s: int | None,
) -> dict[str, Callable[[Standing], Facts]]:
    """What the status of each quota depends on, once its object is given. Lets decisions pass in between: different
    quotas may be as of different moments.

    Args:
        never_fit: autoscalers that may ask for more than can ever fit, by the quota that never has so much.
        hold_s: for how long no growth is granted yet.
    """
    above: dict[str, tuple[str, ...]] = {}
    by_nobody: dict[str, tuple[str, ...]] = {}
    for warning in queries.tree_warnings():
        of = by_nobody if warning.problem.path[:2] == ("spec", "guaranteed") else above
        of[warning.quota] = (*of.get(warning.quota, ()), str(warning.problem))
    uses = await in_slices(queries.quotas())
    selected = await in_slices((use, queries.selected(use)) for use in uses)
    parents = {use.node.parent.quota.name for use in uses if use.node.parent is not None}
    told = (
        (
            use.node.quota.name,
            partial(
                Facts,
                rows=use.rows,
                mode=use.node.quota.mode,
                above_parent=above.get(use.node.quota.name, ()),
                kept_by_nobody=by_nobody.get(use.node.quota.name, ()),
                selected=_selected(use, is_parent=use.node.quota.name in parents),
                unpriced=use.unpriced,
                serving=serving,
                unasked=serving.unasked(there),
                lowers=use.node.quota.mode is not Mode.CLAMP or serving.lowers(there),
                promised=use.node.promised,
                override=use.node.override,
                next_override=use.node.next_override,
                never_fit=never_fit.get(use.node.quota.name, ()),
                hold_s=None if use.node.on_unknown(Unknown.UNSYNCED) == "allow" else hold_s,
            ),
        )
        for use, there in selected
    )
    return dict(await in_slices(told))


async def in_slices(items: Iterable[Item], most: int = SLICE) -> list[Item]:
    """The items as a list, with a chance for others to run after each slice of so many."""
    taken = []
    for number, item in enumerate(items, 1):
        taken.append(item)
        if number % most == 0:
            await asyncio.sleep(0)
    return taken


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
        more = {"guaranteed": row.guaranteed, "kept": row.kept}
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


class DeviceOwners:
    """Adds up what the workloads of each kind use, from time to time, as it takes a look at all workloads.

    ``run()`` is one more task of a gate.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self.used: Level = {}
        """By quota, resource and kind (``jobs.batch``): devices."""

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Add all up once, letting decisions pass in between."""
        sums: dict[tuple[str, ...], int] = {}
        limited = any(is_device(row.resource) for row in self._queries.rows())
        for number, (ref, used, nodes) in enumerate(self._queries.charges() if limited else (), 1):
            for key in filter(is_device, used):
                for node in nodes:
                    if key in node.hard:
                        of = node.quota.name, key, ref.group_resource
                        sums[of] = sums.get(of, 0) + used[key]
            if number % SLICE == 0:
                await asyncio.sleep(0)
        self.used = {of: amount / NANOS for of, amount in sums.items() if amount}
