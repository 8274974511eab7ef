"""Consistent reads of single workloads: what settles an intent, and what is asked of a workload not seen yet.

A LIST by name without a resourceVersion is served from the newest state (KEP-2340), and says as of which version, also
where the object is gone. What it brings goes the way of what the watches bring.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum

from cachetools import TTLCache

from extauthz.cluster.live import LIMIT_RANGES, NAMESPACES, LiveCluster
from extauthz.core.decision.gate import Gate
from extauthz.core.model import Tree, WorkloadRef
from extauthz.core.objects.metadata import version_of
from extauthz.kube.backoff import Backoff
from extauthz.kube.connection import ApiError, Connection, Query, Unreachable
from extauthz.kube.reflector import CURES
from extauthz.kube.resource import Resource

AT_ONCE = 16
"""Reads under way for intents, and as many for checks, so that neither holds up the other. The API server's default
share for a client of its own flow is some 30 requests (APF)."""

WAITING_AT_MOST = 256
"""Checks that may wait for a read; beyond that they are answered by what is known."""

COALESCE_S = 0.25
"""How long an answered write waits for others of its workload: autoscalers write one every 2 s, rollouts a burst."""

LOOK_AGAIN_S = 1.0
"""How long a workload that is not there is taken to stay so: a client that asks without end costs a read a second."""

TICK_S = 0.1
READ_WITHIN_S = 10.0


class Result(StrEnum):
    """What came of a read."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"
    """Any other error of the API server."""
    UNKNOWN_KIND = "unknown-kind"
    """Of a resource that is not watched."""


_FAILED = frozenset({Result.UNREACHABLE, Result.FORBIDDEN, Result.REFUSED})
"""Worth another try."""


@dataclass(slots=True)
class _Wait:
    backoff: Backoff
    until_s: float


class ConsistentReads:
    """Reads workloads, each by one reader at a time.

    Args:
        cluster: what can be read, and where what is read goes.
        told: each result, the workload, how many intents ended, and what is wrong.
    """

    def __init__(
        self,
        connection: Connection,
        gate: Gate,
        cluster: LiveCluster,
        told: Callable[[Result, WorkloadRef, int, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._gate = gate
        self._cluster = cluster
        self._told = told
        self._clock = clock
        self._for_checks = asyncio.Semaphore(AT_ONCE)
        self._for_intents = 0
        self._under_way: dict[WorkloadRef, asyncio.Task[bool]] = {}
        self._queue: dict[WorkloadRef, float] = {}
        """What is to be read, and not before when."""
        self._waits: dict[WorkloadRef, _Wait] = {}
        """Of those whose last read failed."""
        self._looked: TTLCache[WorkloadRef, bool] = TTLCache(WAITING_AT_MOST * 16, LOOK_AGAIN_S, clock)

    async def look(self, ref: WorkloadRef) -> bool:
        """Read a workload that a check asks about, unless that was done a moment ago. False: it was not read."""
        if ref in self._looked:
            return False
        self._looked[ref] = True
        return await self.read(ref)

    async def read(self, ref: WorkloadRef) -> bool:
        """Read a workload, or wait for who is reading it. False if it could not be read; then nothing has changed."""
        task = self._under_way.get(ref)
        if task is None:
            if len(self._under_way) >= WAITING_AT_MOST:
                return False
            task = self._begin(ref, self._read_for_check(ref))
        return await asyncio.shield(task)

    async def read_anew(self, ref: WorkloadRef) -> bool:
        """Read a workload by a read that begins after this call. False if it could not be read."""
        under_way = self._under_way.get(ref)
        if under_way is not None:
            await asyncio.shield(under_way)
        return await self.read(ref)

    def soon(self, ref: WorkloadRef) -> None:
        """Read a workload once others had time to ask for the same."""
        self._queue.setdefault(ref, self._clock() + COALESCE_S)

    async def run(self) -> None:
        """Read what is queued and what the gate waits for, for ever. Ends by cancellation."""
        try:
            while True:
                self._begin_due()
                await asyncio.sleep(TICK_S)
        finally:
            for task in list(self._under_way.values()):
                task.cancel()

    def _begin_due(self) -> None:
        now_s = self._clock()
        for ref in self._gate.due(now_s):
            self._queue.setdefault(ref, now_s)
        due = [ref for ref, not_before_s in self._queue.items() if not_before_s <= now_s]
        for ref in due:
            if self._for_intents >= AT_ONCE:
                return
            wait = self._waits.get(ref)
            if ref not in self._under_way and (wait is None or wait.until_s <= now_s):
                self._for_intents += 1
                self._begin(ref, self._read(ref)).add_done_callback(self._one_less)

    def _one_less(self, _: asyncio.Task[bool]) -> None:
        self._for_intents -= 1

    def _begin(self, ref: WorkloadRef, reading: Coroutine[None, None, bool]) -> asyncio.Task[bool]:
        self._queue.pop(ref, None)
        task = self._under_way[ref] = asyncio.create_task(reading)
        task.add_done_callback(lambda _: self._under_way.pop(ref, None))
        return task

    async def _read_for_check(self, ref: WorkloadRef) -> bool:
        async with self._for_checks:
            return await self._read(ref)

    async def _read(self, ref: WorkloadRef) -> bool:
        result, ended, why = await self._outcome(ref)
        self._told(result, ref, ended, why)
        if result in _FAILED:
            wait = self._waits.setdefault(ref, _Wait(Backoff(self._clock), 0.0))
            wait.until_s = self._clock() + wait.backoff.failed()
            self._queue.setdefault(ref, wait.until_s)
            return False
        self._waits.pop(ref, None)
        return result is Result.OK

    async def _outcome(self, ref: WorkloadRef) -> tuple[Result, int, str]:
        resource = self._cluster.resources.get((ref.group, ref.resource))
        started_s = self._clock()
        if resource is None:
            return self._of_no_kind(ref, started_s)
        try:
            await self._observe(ref, resource)
        except ApiError as error:
            cure = f" ({CURES[error.status]})" if error.status in CURES else ""
            return Result.FORBIDDEN if error.status == 403 else Result.REFUSED, 0, f"{error}{cure}"
        except Unreachable as error:
            return Result.UNREACHABLE, 0, str(error)
        return Result.OK, self._gate.read(ref, started_s), ""

    def _of_no_kind(self, ref: WorkloadRef, started_s: float) -> tuple[Result, int, str]:
        """With a definition go its objects, and what was allowed of them can have no effect any more."""
        if self._cluster.serves((ref.group, ref.resource)):
            return Result.UNKNOWN_KIND, 0, "custom resources have not been listed yet"
        self._gate.observe(ref, None)
        return (
            Result.UNKNOWN_KIND,
            self._gate.read(ref, started_s),
            "there is no such custom resource that can be scaled",
        )

    async def _observe(self, ref: WorkloadRef, resource: Resource) -> None:
        if ref.namespace not in self._gate.ledger.scope.namespaces:
            await self._list(NAMESPACES, "", ref.namespace)
            await self._list(LIMIT_RANGES, ref.namespace)
        name = "" if ref.name.startswith("#") else ref.name  # the name of a create that left it to the server
        for tree in await self._list(resource, ref.namespace, name):
            belonging = self._cluster.belonging(ref, tree)
            if belonging is not None:
                await self._list(belonging[0], ref.namespace, labels=belonging[1])

    async def _list(self, resource: Resource, namespace: str, name: str = "", *, labels: str = "") -> list[Tree]:
        """Hand on what there is of a collection; where it is asked for one name, that it is gone too."""
        query: Query = [
            *([("fieldSelector", f"metadata.name={name}")] if name else []),
            *([("labelSelector", labels)] if labels else []),
        ]
        path = resource.collection(namespace or None)
        answer = await self._connection.call("GET", path, query=query, timeout_s=READ_WITHIN_S)
        items: list[Tree] = answer.get("items") or []
        for tree in items:
            self._cluster.read(resource, tree)
        if name and not items:
            self._cluster.feeds[resource.group, resource.plural].gone((namespace, name), version_of(answer))
        return items
