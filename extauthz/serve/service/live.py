"""Quotas and state from a live cluster: followed by watches, read where a pending write waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from extauthz.core.intake.admission import CLAMP_NAME, NAME
from extauthz.core.model import WorkloadRef
from extauthz.core.objects.custom import Where
from extauthz.core.quota.problems import Standing
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import NAMESPACES, LiveCluster, Reader, Watch, watch
from extauthz.inputs.kube import webhooks
from extauthz.inputs.kube.connection import ApiError, Connection, Unreachable
from extauthz.inputs.kube.resource import Calls, Resource
from extauthz.inputs.kube.session import own_namespace
from extauthz.inputs.kube.webhooks import Webhooks
from extauthz.inputs.settlement.reads import ConsistentReads, Result
from extauthz.inputs.sources.kubernetes import WORKSPACE_QUOTAS, LiveQuotas, Quotas
from extauthz.serve.ledger_store.replica import Progress
from extauthz.serve.service.certificates import CONFIGURATION
from extauthz.serve.service.inputs import GatheredQuotaInput, Into, Stale, StateInput
from extauthz.serve.service.setting_types import OFF
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.observers import Serving

_SAY_WHAT_IS_COVERED = frozenset({NAMESPACES.group_resource, WORKSPACE_QUOTAS.group_resource})


class Watchdog:
    """Tells of watches that fail, each error once, and which one is stalled."""

    def __init__(self, log: Log, stale_after_s: float) -> None:
        self._log = log
        self._stale_after_s = stale_after_s
        self._told: dict[str, str] = {}

    def look(self, watches: Iterable[Watch]) -> None:
        """Log what has gone wrong since the last look."""
        for one in watches:
            if one.error and self._told.get(one.resource) != one.error:
                self._log.event("warning", "watch-failed", resource=one.resource, error=one.error)
            self._told[one.resource] = one.error

    def stale(self, watches: Iterable[Watch]) -> Stale | None:
        """The watch that was silent for too long: of those that say what is covered, or else of all, the longest."""
        # What was never listed is unknown, and refused as that.
        silent = [one for one in watches if one.synced and one.age_s > self._stale_after_s]
        if not silent:
            return None
        oldest = max(silent, key=lambda one: (one.resource in _SAY_WHAT_IS_COVERED, one.age_s))
        why = f" ({oldest.error})" if oldest.error else ""
        said = f"nothing was heard of {oldest.resource} for {oldest.age_s:.0f} s{why}"
        return Stale(said, oldest.resource in _SAY_WHAT_IS_COVERED)


def waiting(watches: Iterable[Watch]) -> list[str]:
    """What has not been listed yet, and why."""
    return [
        f"{one.resource} has not been listed yet{f': {one.error}' if one.error else ''}"
        for one in watches
        if not one.synced
    ]


class LiveQuotaInput(GatheredQuotaInput):
    """WorkspaceQuotas of a cluster."""

    def __init__(self, connection: Connection, into: Into, watchdog: Watchdog) -> None:
        super().__init__(into)
        self._started_s = into.clock()
        self._watchdog = watchdog
        self.standings: Sequence[Standing] = ()
        """The quotas' objects as they were last seen."""
        self._quotas = LiveQuotas(connection, self._accept, into.clock, into.gate.ledger.coverage.placing)

    async def follow(self) -> None:
        await self._quotas.run()

    @property
    def progress(self) -> Progress:
        """How far what is in force has come."""
        return self._quotas

    def watches(self) -> Iterator[Watch]:
        reflector = self._quotas.reflector
        yield watch(reflector.resource, reflector, self._into.clock(), self._started_s)

    def missing(self) -> list[str]:
        return [] if self.known.is_set() else waiting(self.watches()) or ["quotas are being put in force"]

    def stale(self) -> Stale | None:
        self._watchdog.look(self.watches())
        return self._watchdog.stale(self.watches()) if self.known.is_set() else None

    def _accept(self, quotas: Quotas) -> None:
        self.standings = quotas.standings
        super()._accept(quotas)


class LiveStateInput(StateInput):
    """Workloads and what they cost, of a cluster."""

    name = "state"
    reads: ConsistentReads

    def __init__(
        self,
        connection: Connection,
        into: Into,
        watchdog: Watchdog,
        *,
        templates: Mapping[str, Where],
    ) -> None:
        gate, log, self._metrics, clock = into
        self._gate, self._log = gate, log
        self._watchdog = watchdog
        self._cluster = LiveCluster(
            connection, gate, InvalidObjects(self._unreadable), templates=templates, clock=clock
        )
        self.known = self._cluster.synced
        reader = Reader(connection, gate, self._cluster)
        self.reads = ConsistentReads(reader.bring, gate.ledger.pending, self._tell_read, clock, reader.catch_up)
        self._reads_refused: dict[str, str] = {}

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

    @property
    def kinds(self) -> Mapping[tuple[str, str], Resource]:
        """Those that a workload may be of, by group and plural."""
        return self._cluster.resources

    @property
    def progress(self) -> Progress:
        """How far what was shown to the gate has come."""
        return self._cluster

    async def list_anew(self) -> None:
        """List all that counts once more, beside the watches."""
        await self._cluster.list_anew()

    def watches(self) -> Iterator[Watch]:
        return self._cluster.watches()

    def missing(self) -> list[str]:
        return [] if self.known.is_set() else waiting(self.watches()) or ["the cluster is being read"]

    def stale(self) -> Stale | None:
        self._watchdog.look(self.watches())
        return self._watchdog.stale(self.watches()) if self.known.is_set() else None

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
