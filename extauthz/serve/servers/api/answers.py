"""Answers of the API as JSON. ``routes`` gives them over HTTP; the command line asks them of files too."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from extauthz.core import fitting, quantities
from extauthz.core.fitting import Decide
from extauthz.core.kinds import JOBS, PODS
from extauthz.core.model import Decision, Reading, Verdict, WorkloadRef
from extauthz.core.objects.custom import NO_CUSTOMS, Customs
from extauthz.core.objects.fields import MAX_REPLICAS
from extauthz.core.queries import Headroom, Queries, WorkloadUse
from extauthz.core.resources import is_device
from extauthz.serve.servers.api import shown
from extauthz.serve.servers.api.history import History, Nothing
from extauthz.serve.servers.api.questions import Manifest
from extauthz.serve.servers.api.rights import ALL, Problem
from extauthz.serve.servers.api.shown import Json

if TYPE_CHECKING:
    from extauthz.tell.observe.episodes import Recent

MOST = 1_000
"""Items of one page."""

STEP = 200
"""Workloads that are looked at before other work comes in between."""


class Take(Protocol):
    """Has work done when it is its turn."""

    async def __call__(self, work: Callable[[], Json]) -> Json: ...


async def _at_once(work: Callable[[], Json]) -> Json:
    import asyncio  # a command that asks files has no loop for most questions

    await asyncio.sleep(0)
    return work()


class RefusedWrite(Problem):
    """A write would be refused at any size. ``quotas``: those that its sentence tells of."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(409, decision.sentence)
        self.quotas = shown.refusing(decision)


class Answers:
    """What is known of quotas and workloads.

    Args:
        queries: of the gate's ledger.
        decide: decides a write and charges nothing.
        clock: seconds, on the gate's clock.
        remembers: what was decided lately; ``None``: nobody does.
        customs: custom resources that objects in questions may be of.
        asks: the most replicas that an autoscaler may ask for; ``None``: none is known.
    """

    def __init__(
        self,
        queries: Queries,
        decide: Decide,
        clock: Callable[[], float],
        remembers: Recent | None = None,
        customs: Customs = NO_CUSTOMS,
        asks: Callable[[WorkloadRef], int | None] = lambda _: None,
    ) -> None:
        self._asks = asks
        self.customs = customs
        self.history = History(remembers if remembers is not None else Nothing(), queries)
        self._queries = queries
        self._decide = decide
        self._clock = clock

    # Quotas.

    def names(self, below: str | None = None) -> Iterator[str]:
        """The quotas that ``quotas`` lists."""
        return self._queries.names(below)

    def namespaces(self, quota: str) -> list[str]:
        """Those that one quota or one below it selects."""
        return self._queries.namespaces(quota)

    def quotas(
        self,
        below: str | None = None,
        after: str | None = None,
        limit: int = MOST,
        visible: Container[str] = ALL,
    ) -> Json:
        """Quotas that are ``visible``, each after its parent."""
        if below is not None:
            self.quota(below)
        if after is not None and (after not in visible or self._queries.quota(after) is None):
            raise Problem(410, f'the list cannot go on after quota "{after}": it is gone; begin anew')
        found = (use for use in self._queries.quotas(below, after) if use.node.quota.name in visible)
        items = [shown.quota(use) for use in islice(found, limit + 1)]
        return shown.page("QuotaList", items[:limit], items[limit - 1]["name"] if len(items) > limit else None)

    def quota(self, name: str) -> Json:
        use = self._queries.quota(name)
        if use is None:
            raise Problem(404, f'there is no quota "{name}"')
        return shown.quota(use)

    # Workloads.

    async def workloads(
        self, quota: str, sort: str | None = None, limit: int = MOST, visible: Container[str] = ALL
    ) -> Json:
        """Workloads that count in one quota, of namespaces that are ``visible``: those that use most of ``sort`` first,
        or by name; and what all of them use, by kind."""
        import asyncio  # a command that asks files has no loop for most questions

        kinds = Kinds(self.quota(quota)["resources"])
        found: list[WorkloadUse] = []
        total = 0
        for number, use in enumerate(self._queries.scan(quota), 1):
            if use is not None and use.ref.namespace in visible:
                found.append(use)
                kinds.add(use)
                total += 1
            if number % STEP == 0:
                found = _first(found, sort, limit)
                await asyncio.sleep(0)
        first = _first(found, sort, limit)
        more = {"total": total, "byKind": kinds.shown()}
        return shown.page("WorkloadList", map(shown.workload, first), None) | more

    def line(self, quota: str, limit: int = MOST, visible: Container[str] = ALL) -> Json:
        """Who waits in line for a quota, of namespaces that are ``visible``; for a root: in its whole tree."""
        self.quota(quota)
        found = self._queries.line(quota, self._clock())
        items = [shown.place(one, quota) for one in found if one.ref.namespace in visible]
        return shown.page("Line", items[:limit], None) | {"total": len(found)}

    def workload(self, ref: WorkloadRef) -> Json:
        use = self._queries.workload(ref)
        if use is None:
            raise _unknown(ref)
        return shown.workload(use)

    def quotas_of(self, ref: WorkloadRef) -> list[str]:
        """Names of the quotas that a workload counts in, each after its parent."""
        return self._queries.quotas_of(ref)

    # What fits.

    def headroom(self, ref: WorkloadRef) -> Json:
        """How many replicas a workload may have."""
        found = fitting.headroom(self._queries, self._decide, ref)
        if found is None:
            raise _unknown(ref)
        return shown.headroom(ref, found, self._counts(ref), self._asks(ref))

    def _counts(self, ref: WorkloadRef) -> str:
        """What of it there may be more of."""
        if ref[:2] == JOBS:
            return shown.PARALLELISM
        shapes = self.customs.shapes.get(ref[:2], {}).values()
        is_whole = ref[:2] == PODS or any(not shape.replicas for shape in shapes)
        return shown.OBJECTS if is_whole else shown.REPLICAS

    async def headrooms(
        self, refs: Sequence[WorkloadRef | Problem], visible: Container[str] = ALL, take: Take = _at_once
    ) -> Json:
        """The same of several workloads, of the namespaces that are ``visible``.

        Args:
            take: has the work done for each, when it is its turn.
        """
        items = []
        for number, ref in enumerate(refs):
            items.append(await take(partial(self._headroom_or_error, number, ref, visible)))
        return shown.page("HeadroomList", items, None)

    def _headroom_or_error(self, number: int, ref: WorkloadRef | Problem, visible: Container[str]) -> Json:
        try:
            return self._headroom_within(ref, visible)
        except Problem as problem:
            return {"error": f"workloads[{number}]: {problem.detail}"}

    def _headroom_within(self, ref: WorkloadRef | Problem, visible: Container[str]) -> Json:
        if isinstance(ref, Problem):
            raise ref
        if ref.namespace not in visible:
            raise Problem(403, f'you may not get namespace "{ref.namespace}"')
        return self.headroom(ref)

    def headroom_of(self, manifest: Manifest) -> Json:
        """How many replicas an object may have that is not made yet, or not changed to what it says.

        Raises:
            Problem: it would be refused at any size.
        """
        there, counts = self._queries.observed(manifest.ref), self._counts(manifest.ref)
        observed, version = (there.replicas, there.resource_version) if there is not None else (0, "")

        def of(replicas: int) -> Decision:
            return self._decide(manifest.reading(replicas))

        most = of(MAX_REPLICAS)
        if fitting.is_granted(most):
            return shown.headroom(manifest.ref, Headroom(None, None, observed, version, True), counts)
        if most.evidence.fits is None:
            raise RefusedWrite(most)
        fits, refused = fitting.most_granted(of, observed, most.evidence.fits)
        if refused is None:
            refused = of(fits + 1)
        bound = next(iter(refused.evidence.shortages), None)
        is_certain = refused.verdict is not Verdict.UNAVAILABLE
        found = Headroom(fits, bound, observed, version, is_certain, refused=refused)
        return shown.headroom(manifest.ref, found, counts)

    # Decisions.

    def decision(self, asked: Reading | Manifest) -> Json:
        """What a write would get."""
        if isinstance(asked, Manifest):
            asked = asked.whole(self._queries.observed(asked.ref))
        return shown.decision(self._decide(asked))

    def namespaces_of_pending(self, quota: str | None = None) -> Iterator[str]:
        """Those that ``pending`` tells of."""
        return (ref.namespace for ref, _ in self._queries.pending(quota))

    def pending(self, quota: str | None = None, limit: int = MOST, visible: Container[str] = ALL) -> Json:
        """Writes of namespaces that are ``visible``, which were allowed and may still land, oldest first."""
        if quota is not None:
            self.quota(quota)
        now_s = self._clock()
        found = (one for one in self._queries.pending(quota) if one[0].namespace in visible)
        items = [shown.pending(*one, now_s) for one in islice(found, limit)]
        is_all = quota is None and visible is ALL
        total = self._queries.pending_count if is_all else len(items) + sum(1 for _ in found)
        return shown.page("PendingWriteList", items, None) | {"total": total}


def _first(found: list[WorkloadUse], sort: str | None, limit: int) -> list[WorkloadUse]:
    if sort is None:
        return heapq.nsmallest(limit, found, key=lambda use: use.ref)
    return heapq.nlargest(limit, found, key=lambda use: _of(use, sort))


def _of(use: WorkloadUse, resource: str) -> int:
    return use.used.get(resource, 0) + use.reserved.get(resource, 0)


def _unknown(ref: WorkloadRef) -> Problem:
    return Problem(404, f"{ref.group_resource} {ref.namespace}/{ref.name} is not known")


# Use of a quota by the kind of who uses it: Deployments, Jobs, custom resources, pods by themselves.


@dataclass(slots=True)
class _Sum:
    """Of one kind, nano-units of one resource."""

    workloads: int = 0
    used: int = 0
    reserved: int = 0


class Kinds:
    """Adds up what workloads use.

    Args:
        keys: resources that are added up.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._sums: dict[str, dict[str, _Sum]] = {key: {} for key in keys}

    def add(self, use: WorkloadUse) -> None:
        """Count one workload, in each resource of which it uses something."""
        kind = use.ref.group_resource
        for key, of in self._sums.items():
            used, reserved = use.used.get(key, 0), use.reserved.get(key, 0)
            if used or reserved:
                found = of.setdefault(kind, _Sum())
                found.workloads += 1
                found.used += used
                found.reserved += reserved

    def shown(self) -> list[Json]:
        """A row for each resource and kind: devices first, and of each what uses most."""
        rows = [(key, kind, found) for key, of in self._sums.items() for kind, found in of.items()]
        rows.sort(key=lambda row: (not is_device(row[0]), row[0], -row[2].used - row[2].reserved, row[1]))
        return [
            {
                "resource": key,
                "kind": kind,
                "workloads": found.workloads,
                "used": quantities.format(found.used, key),
                "reserved": quantities.format(found.reserved, key),
                "device": is_device(key),
            }
            for key, kind, found in rows
        ]
