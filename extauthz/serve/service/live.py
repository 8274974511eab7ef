"""Quotas and state from a live cluster: followed by watches, read where a pending write waits."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from extauthz.core.intake.admission import CLAMP_NAME, NAME
from extauthz.core.model import WorkloadRef
from extauthz.core.objects.custom import Where
from extauthz.core.queries import Queries
from extauthz.core.quota.problems import Standing
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import NAMESPACES, LiveCluster
from extauthz.inputs.cluster.reader import Reader
from extauthz.inputs.kube import webhooks
from extauthz.inputs.kube.connection import ApiError, Connection, Unreachable
from extauthz.inputs.kube.reflector import Reflector
from extauthz.inputs.kube.resource import Calls, Resource
from extauthz.inputs.kube.session import own_namespace
from extauthz.inputs.kube.webhooks import Webhooks
from extauthz.inputs.settlement.reads import ConsistentReads, Result
from extauthz.inputs.sources.kubernetes import WORKSPACE_QUOTAS, LiveQuotas, Quotas
from extauthz.serve.ledger_store.replica import Progress
from extauthz.serve.service.certificates import CONFIGURATION
from extauthz.serve.service.inputs import GatheredQuotaInput, Input, Into, Stale, StateInput, Telling
from extauthz.serve.service.setting_types import OFF
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.autoscalers import Autoscalers
from extauthz.tell.observe.ceilings import Ceilings
from extauthz.tell.observe.kube_events import KubeEvents
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.observers import Serving
from extauthz.tell.observe.status import StatusWriter
from extauthz.tell.observe.strays import Strays

_SAY_WHAT_IS_COVERED = frozenset({NAMESPACES, WORKSPACE_QUOTAS})


class Watchdog:
    """Tells of watches that fail, each error once, and which one is stalled."""

    def __init__(self, log: Log, stale_after_s: float) -> None:
        self._log = log
        self._stale_after_s = stale_after_s
        self._told: dict[str, str] = {}

    def look(self, watches: Iterable[Reflector[Any]]) -> None:
        """Log what has gone wrong since the last look."""
        for one in watches:
            name, error = one.resource.group_resource, one.last_error
            if error and self._told.get(name) != error:
                self._log.event("warning", "watch-failed", resource=name, error=error)
            self._told[name] = error

    def stale(self, watches: Iterable[Reflector[Any]]) -> Stale | None:
        """The watch that was silent for too long: of those that say what is covered, or else of all, the longest."""
        # What was never listed is unknown, and refused as that.
        silent = [one for one in watches if one.synced and one.age_s > self._stale_after_s]
        if not silent:
            return None
        oldest = max(silent, key=lambda one: (one.resource in _SAY_WHAT_IS_COVERED, one.age_s))
        why = f" ({oldest.last_error})" if oldest.last_error else ""
        said = f"nothing was heard of {oldest.resource.group_resource} for {oldest.age_s:.0f} s{why}"
        return Stale(said, oldest.resource in _SAY_WHAT_IS_COVERED)


def waiting(watches: Iterable[Reflector[Any]]) -> list[str]:
    """What has not been listed yet, and why."""
    return [
        f"{one.resource.group_resource} has not been listed yet{f': {one.last_error}' if one.last_error else ''}"
        for one in watches
        if not one.synced
    ]


MakesWriter: TypeAlias = Callable[[Connection, Callable[[], Iterable[Standing]]], StatusWriter]
"""Makes what writes to each quota how it stands, from a connection and what the source last saw."""


class WatchingInput(Input):
    """What follows a cluster by watches."""

    unlisted: str
    """What is missing once all are listed."""
    _watchdog: Watchdog

    def missing(self) -> list[str]:
        return [] if self.known.is_set() else waiting(self.watches()) or [self.unlisted]

    def stale(self) -> Stale | None:
        self._watchdog.look(self.watches())
        return self._watchdog.stale(self.watches()) if self.known.is_set() else None


class LiveQuotaInput(WatchingInput, GatheredQuotaInput):
    """WorkspaceQuotas of a cluster."""

    unlisted = "quotas are being put in force"

    def __init__(self, connection: Connection, into: Into, watchdog: Watchdog, writer: MakesWriter | None) -> None:
        super().__init__(into)
        self._watchdog = watchdog
        self._standings: Sequence[Standing] = ()
        self._quotas = LiveQuotas(connection, self._accept, into.clock, into.gate.ledger.coverage.placing)
        self.status = writer(connection, lambda: self._standings) if writer is not None else None

    async def follow(self) -> None:
        """Follow for ever, and write back to each quota how it stands."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._quotas.run())
            if self.status is not None:
                group.create_task(self.status.run())

    @property
    def progress(self) -> Progress:
        """How far what is in force has come."""
        return self._quotas

    def watches(self) -> list[Reflector[Any]]:
        return [self._quotas.reflector]

    def _accept(self, quotas: Quotas) -> None:
        self._standings = quotas.standings
        super()._accept(quotas)


class LiveStateInput(WatchingInput, StateInput):
    """Workloads and what they cost, of a cluster."""

    name = "state"
    unlisted = "the cluster is being read"
    reads: ConsistentReads

    def __init__(
        self,
        connection: Connection,
        into: Into,
        watchdog: Watchdog,
        *,
        templates: Mapping[str, Where],
        tells_owners: bool,
    ) -> None:
        gate, log, self._metrics, clock, episodes = into
        self._gate, self._log = gate, log
        self._watchdog = watchdog
        self._cluster = LiveCluster(
            connection, gate, InvalidObjects(self._unreadable), templates=templates, clock=clock
        )
        self.known = self._cluster.synced
        reader = Reader(connection, gate, self._cluster)
        self.reads = ConsistentReads(reader.bring, gate.ledger.pending, self._tell_read, clock, reader.catch_up)
        self._reads_refused: dict[str, str] = {}
        if tells_owners:
            instance = socket.gethostname()  # a pod's name, unless it is told otherwise
            kinds = self._cluster.resources
            events = KubeEvents(connection, Queries(gate.ledger), kinds, episodes, instance=instance, tell=log.event)
            seen = Autoscalers(connection, clock)
            ceilings = Ceilings(seen, gate, clock=clock, tell=log.event, found=events.never_fits)
            self.telling = Telling(events, ceilings, Strays(gate, events.uncovered))

    async def follow(self) -> None:
        """Follow for ever, and read where a pending write waits for it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.run())
            await self.known.wait()
            self._metrics.reload(self.name, "ok", time.time())
            ledger = self._gate.ledger
            self._log.event(
                "info", "loaded", source=self.name, namespaces=len(ledger.coverage.namespaces), workloads=len(ledger)
            )
            group.create_task(self.reads.run())
            for each in self.telling or ():
                group.create_task(each.run())

    @property
    def progress(self) -> Progress:
        """How far what was shown to the gate has come."""
        return self._cluster

    async def list_anew(self) -> None:
        """List all that counts once more, beside the watches."""
        await self._cluster.list_anew()

    def watches(self) -> list[Reflector[Any]]:
        return self._cluster.watches()

    def _unreadable(self, resource: Resource, name: str, why: str) -> None:
        self._metrics.unreadable(resource.group_resource)
        self._log.event("error", "unreadable-object", resource=resource.group_resource, name=name, why=why)

    def _tell_read(self, result: Result, ref: WorkloadRef, ended: int, why: str) -> None:
        self._metrics.read(result.value, ended)
        kind = ref.group_resource
        if result in (Result.FORBIDDEN, Result.REFUSED, Result.UNREACHABLE) and self._reads_refused.get(kind) != result:
            self._log.event("warning", "read-failed", workload=str(ref), error=why)
        if result is Result.OK:
            self._reads_refused.pop(kind, None)
        else:
            self._reads_refused[kind] = result


EVERY_S = 10.0
"""How often they are read: two objects by name."""

RIGHT = "the gates need get of validatingwebhookconfigurations and mutatingwebhookconfigurations named {}"


class Askers:
    """Who asks the gates.

    Args:
        to_lower: whether somebody has asked to lower a count.
        unreached: whether the API server reaches no gate.
    """

    def __init__(
        self, settings: Settings, log: Log, to_lower: Callable[[], bool], unreached: Callable[[], bool] = bool
    ) -> None:
        self._audits = settings.mode == "audit"
        self._has_webhook = settings.webhook is not None
        self._by_envoy = settings.grpc != OFF
        self._configuration = CONFIGURATION
        self._own = own_namespace() or ""
        self._log = log
        self._to_lower = to_lower
        self._unreached = unreached
        self._webhooks: Webhooks | None = None
        self._unknown = ""

    def serving(self) -> Serving:
        return Serving(self._audits, self._webhooks, self._unknown, self._by_envoy, self._to_lower(), self._unreached())

    def unanswered(self) -> str:
        """The webhook's ``failurePolicy``; empty: none is installed, or it is not known."""
        there = self._webhooks
        return there.unanswered if there is not None and there.decides is not None else ""

    async def run(self, api: Calls) -> None:
        """Read them again and again, for ever; at once if there is no webhook."""
        while self._has_webhook:
            await self.look(api)
            await asyncio.sleep(EVERY_S)

    async def look(self, api: Calls) -> None:
        """Read them once. What cannot be read is not known; without an answer, what was known stays."""
        try:
            is_ours = {NAME, CLAMP_NAME}.__contains__
            self._webhooks = await webhooks.read(api, self._configuration, is_ours, self._own)
            unknown = ""
        except ApiError as error:
            self._webhooks = None
            unknown = RIGHT.format(self._configuration) if error.status in (401, 403) else str(error)
        except Unreachable:
            return
        if unknown and unknown != self._unknown:
            self._log.event("warning", "webhook-unknown", why=unknown)
        self._unknown = unknown
