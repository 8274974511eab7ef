"""What the gate knows of each WorkspaceQuota, gathered for its status without holding up a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from extauthz.core.queries import Queries, QuotaUse
from extauthz.core.quota.problems import shown
from extauthz.core.quota.spec import Mode
from extauthz.core.quota.standing import Standing
from extauthz.observe.autoscalers import NeverFits
from extauthz.observe.quota_status import Facts, Selected
from extauthz.observe.serving import NOBODY_KNOWN, Serving

SLICE = 200
"""Quotas looked at in one go: about a millisecond, which is the most that a decision waits."""

Item = TypeVar("Item")


class Ahead(NamedTuple):
    """What is told before anything is refused."""

    near_percent: int = 0
    """From what part of a limit on it is near; 0: never."""
    never_fit: Mapping[str, Sequence[NeverFits]] = MappingProxyType({})
    """Autoscalers that may ask for more than can ever fit, by the quota that never has so much."""


NOTHING_AHEAD = Ahead()


@dataclass(frozen=True, slots=True)
class Survey:
    """All quotas of a gate as they were while it was taken."""

    quotas: Mapping[str, QuotaUse]
    above_parent: Mapping[str, tuple[str, ...]]
    parents: frozenset[str]
    """Those that have children."""
    receivers: frozenset[str] = frozenset()
    """Names that ``spec.notify`` may have."""
    serving: Serving = NOBODY_KNOWN
    unasked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Namespaces of a quota that the webhook is not asked about."""
    unlowered: frozenset[str] = frozenset()
    """Quotas in mode Clamp that have a namespace where nothing lowers a count."""
    ahead: Ahead = NOTHING_AHEAD

    def facts(self, standing: Standing) -> Facts:
        """What the status of one object depends on."""
        name = standing.name
        use = self.quotas.get(name)
        if use is None:
            return Facts(standing)
        return Facts(
            standing=standing,
            rows=use.rows,
            mode=use.node.quota.mode,
            above_parent=self.above_parent.get(name, ()),
            selected=self._selected(use),
            unpriced=use.unpriced,
            strangers=strangers(use.node.quota.notify or (), self.receivers),
            serving=self.serving,
            unasked=self.unasked.get(name, ()),
            lowers=name not in self.unlowered,
            promised=use.node.promised,
            override=use.node.override,
            next_override=use.node.next_override,
            near_percent=self.ahead.near_percent,
            never_fit=self.ahead.never_fit.get(name, ()),
        )

    def _selected(self, use: QuotaUse) -> Selected:
        quota = use.node.quota
        if use.workloads:
            return Selected.WORKLOADS
        if quota.namespace_selector is None:
            return Selected.CHILDREN if quota.name in self.parents else Selected.NOBODY
        if not use.selects_namespace:
            return Selected.NO_NAMESPACE
        return Selected.NO_WORKLOAD if quota.workload_selector is None else Selected.NO_LABELLED_WORKLOAD


def strangers(notify: Iterable[str], receivers: Container[str]) -> tuple[str, ...]:
    """A sentence for each name in ``spec.notify`` that is no receiver's. A URL may be a secret: it is not shown."""
    return tuple(
        f"spec.notify[{number}]: {'a URL' if ':' in name else shown(name)} is no receiver of the gates; write a name "
        "of their setting notify (notices.receivers in the chart), or have one added there"
        for number, name in enumerate(notify)
        if name not in receivers
    )


async def survey(
    queries: Queries,
    receivers: frozenset[str] = frozenset(),
    serving: Serving | None = None,
    ahead: Ahead = NOTHING_AHEAD,
) -> Survey:
    """Look at all quotas, letting decisions pass in between: different quotas may be as of different moments."""
    above: dict[str, tuple[str, ...]] = {}
    for warning in queries.tree_warnings():
        above[warning.quota] = (*above.get(warning.quota, ()), str(warning.problem))
    uses = await in_slices(queries.quotas())
    served = serving or NOBODY_KNOWN
    selected = await in_slices((use.node.quota, queries.selected(use)) for use in uses)
    return Survey(
        quotas={use.node.quota.name: use for use in uses},
        above_parent=above,
        parents=frozenset(use.node.parent.quota.name for use in uses if use.node.parent is not None),
        receivers=receivers,
        serving=served,
        unasked={quota.name: found for quota, there in selected if (found := served.unasked(there))},
        unlowered=frozenset(
            quota.name for quota, there in selected if quota.mode is Mode.CLAMP and not served.lowers(there)
        ),
        ahead=ahead,
    )


async def in_slices(items: Iterable[Item]) -> list[Item]:
    """The items as a list, with a chance for others to run after each ``SLICE`` of them."""
    taken = []
    for number, item in enumerate(items, 1):
        taken.append(item)
        if number % SLICE == 0:
            await asyncio.sleep(0)
    return taken
