"""Quotas, state, shared ledger and policies as the settings name them, put in force in one gate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.coverage import Coverage
from extauthz.core.policies import Enlisted, Policies, TwoOrdersError
from extauthz.core.quota.problems import Standing
from extauthz.inputs.cluster import file as state_file
from extauthz.inputs.files.content import FileProblem
from extauthz.inputs.files.watch import Watched
from extauthz.inputs.kube.connection import Connection
from extauthz.inputs.policies.plugins import AGAIN_S, Host, LivePolicy, Missing, Patience, enlisted
from extauthz.inputs.sources import file as quota_file
from extauthz.serve.ledger_store.committing import Committer
from extauthz.serve.ledger_store.kubernetes import KubernetesStore
from extauthz.serve.ledger_store.replica import Progress
from extauthz.serve.ledger_store.store import LedgerStore
from extauthz.serve.service import pod_groups
from extauthz.serve.service.http import ServiceQuotaInput
from extauthz.serve.service.inputs import (
    Input,
    Into,
    QuotaFileInput,
    QuotaInput,
    StateFileInput,
    StateInput,
    Taken,
)
from extauthz.serve.service.live import LiveQuotaInput, LiveStateInput, MakesWriter, Watchdog
from extauthz.serve.service.setting_types import KUBERNETES, SettingsError
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Metrics
from extauthz.tell.observe.observers import Serving
from extauthz.tell.observe.status import StatusWriter

# Quotas that cover no namespace: allowed, and most often a label that is spelled wrong.

MOST_TOLD = 20
"""So many are reported one by one."""


def unmatched(coverage: Coverage, quotas: Path) -> list[FileProblem]:
    """A warning for each quota that covers none of the namespaces that the state shows.

    Before a state is known there is none. A parent without ``namespaceSelector`` is meant so.
    """
    if not coverage.namespaces:
        return []
    nodes = coverage.tree.nodes
    parents = {node.parent for node in nodes}
    meant = {node for node in parents if node is not None and node.quota.by_its_name}
    names = sorted(node.quota.name for node in nodes if node not in meant and not coverage.selected(node))
    told = [_warning(quotas, f"WorkspaceQuota {name}", "it covers") for name in names[:MOST_TOLD]]
    if len(names) > MOST_TOLD:
        told.append(_warning(quotas, f"{len(names) - MOST_TOLD} WorkspaceQuotas more", "they cover"))
    return told


def _warning(quotas: Path, who: str, what: str) -> FileProblem:
    cure = "compare spec.namespaceSelector with the labels of the namespaces in the state (none: workspace=<its name>)"
    return FileProblem(str(quotas), None, who, f"{what} no namespace", cure)


# The ledger that this gate shares with others, as one more input: known before it serves, followed while it does.


class LedgerInput(Input):
    """A committer and the store that it follows. It is never stale: a grant is written before it is answered, and old
    knowledge shows then. So nobody must look at its watch either."""

    name = "ledger"

    def __init__(self, committer: Committer, metrics: Metrics) -> None:
        self._committer = committer
        self._metrics = metrics
        self.known = committer.known
        self.commit = committer.commit

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._committer.run())
            await self.known.wait()
            self._metrics.reload(self.name, "ok", time.time())

    def missing(self) -> list[str]:
        return [] if self.known.is_set() else ["workspaceledgers.extauthz.dev has not been listed yet"]

    def notes(self) -> list[str]:
        return self._committer.notes()


# How far this gate has come in seeing the cluster: what gates that share a ledger hold each other against.


class Together:
    def __init__(self, parts: tuple[Progress, ...]) -> None:
        self._parts = parts

    def seen(self) -> Mapping[str, int]:
        return {kind: version for part in self._parts for kind, version in part.seen().items()}

    def has_reached(self, kind: str, version: int) -> bool:
        return all(part.has_reached(kind, version) for part in self._parts)


@dataclass(frozen=True)
class Inputs:
    quotas: QuotaInput
    state: StateInput
    ledger: LedgerInput | None
    """``None``: there is no other gate."""

    def __iter__(self) -> Iterator[Input]:
        yield from (self.quotas, self.state)
        if self.ledger is not None:
            yield self.ledger


def inputs(
    settings: Settings,
    into: Into,
    connection: Connection | None,
    serving: Callable[[], Serving],
    store: LedgerStore | None = None,
) -> Inputs:
    """The inputs of ``settings``.

    Args:
        connection: is there if one of them is the cluster. A ledger that is shared is kept there too, unless ``store``
            is given.
        serving: who asks the gates.
    """
    watchdog = Watchdog(into.log, settings.numbers.stale_after_s)
    state = _state(settings, into, connection, watchdog)
    telling = state.telling

    def writer(connection: Connection, standings: Callable[[], Iterable[Standing]]) -> StatusWriter:
        return StatusWriter(
            connection,
            into.gate,
            standings,
            tell=into.log.event,
            wrote=telling.events.status_written if telling is not None else None,
            serving=serving,
            never_fit=telling.ceilings.by_quota if telling is not None else dict,
        )

    quotas = _quotas(settings, into, connection, watchdog, writer)
    return Inputs(quotas, state, _ledger(settings, into, connection, quotas, state, store))


def _quotas(
    settings: Settings, into: Into, connection: Connection | None, watchdog: Watchdog, writer: MakesWriter
) -> QuotaInput:
    def from_file(quotas: quota_file.Quotas) -> Taken:
        into.gate.load_quotas(quotas.tree, into.clock())
        told = [*quotas.warnings, *_unmatched(settings, into.gate)]
        return Taken({"quotas": len(quotas.tree.nodes)}, told)

    if settings.quotas == KUBERNETES:
        assert connection is not None
        return LiveQuotaInput(connection, into, watchdog, writer if settings.numbers.tells_owners else None)
    if isinstance(settings.quotas, str):
        return ServiceQuotaInput(settings, into)
    assert settings.quotas is not None
    return QuotaFileInput("quotas", Watched(settings.quotas, quota_file.parse), from_file, into)


def _ledger(
    settings: Settings,
    into: Into,
    connection: Connection | None,
    quotas: QuotaInput,
    state: StateInput,
    store: LedgerStore | None,
) -> LedgerInput | None:
    if not settings.shares_ledger:
        return None
    assert connection is not None
    assert isinstance(quotas, LiveQuotaInput)
    assert isinstance(state, LiveStateInput)
    committer = Committer(
        into.gate,
        store if store is not None else KubernetesStore(connection, into.clock),
        Together((quotas.progress, state.progress)),
        settings.window_s,
        into.clock,
        look=state.reads.read_anew,
        list_anew=state.list_anew,
        holds_new=settings.on("unclean-start") == "deny",
        wrote=into.metrics.ledger_write,
        tell=into.log.event,
    )
    return LedgerInput(committer, into.metrics)


def _unmatched(settings: Settings, gate: Gate) -> list[FileProblem]:
    """Only for files: in a cluster the status of a quota says that it covers nothing."""
    if isinstance(settings.quotas, Path) and isinstance(settings.state, Path):
        return unmatched(gate.ledger.coverage, settings.quotas)
    return []


def _state(settings: Settings, into: Into, connection: Connection | None, watchdog: Watchdog) -> StateInput:
    def from_file(file: state_file.StateFile) -> Taken:
        state = file.state
        into.gate.load_state(state, into.clock())
        counts = {
            "namespaces": len(state.namespaces),
            "workloads": len(state.workloads),
            "not_counted": dict(state.not_counted),
        }
        return Taken(counts, [*file.warnings, *_unmatched(settings, into.gate)])

    where = pod_groups.where(settings.pod_groups)
    if settings.state == KUBERNETES:
        assert connection is not None
        return LiveStateInput(
            connection,
            into,
            watchdog,
            templates=where,
            tells_owners=settings.numbers.tells_owners,
        )
    assert settings.state is not None
    parse = partial(state_file.parse, templates=where)
    return StateFileInput("state", Watched(settings.state, parse), from_file, into)


def policies(
    settings: Settings, log: Log, metrics: Metrics, clock: Callable[[], float], more: Iterable[Enlisted] = ()
) -> Policies:
    """Those that ``settings`` name, and ``more``. Each that is missing is logged.

    Raises:
        SettingsError: more than one gives ranks.
    """
    found = (*more, *enlisted(settings.policies))
    for one in found:
        if isinstance(one.policy, Missing):
            log.event(
                "error", "policy-missing", policy=one.name, why=one.policy.why, growth=settings.on("unknown-policy")
            )
    try:
        return Policies(found, metrics.policy_failed, Patience(settings.numbers.policy_timeout_s, clock).ask)
    except TwoOrdersError as error:
        raise SettingsError(f"--policies: {error}") from None


def running(found: Policies, host: Host) -> list[Coroutine[None, None, None]]:
    """What those that run beside the gate do, until they are cancelled."""
    return [_running(name, policy, host) for name, policy in _live(found)]


async def _running(name: str, policy: LivePolicy, host: Host) -> None:
    """A policy that fails does not take the gate with it: it begins anew after a while."""
    while True:
        try:
            await policy.run(host)
            return
        except Exception as error:  # noqa: BLE001 (code of others)
            host.event("error", "policy-failed", policy=name, why=f"{type(error).__name__}: {error}")
        await asyncio.sleep(AGAIN_S)


def notes(found: Policies) -> list[str]:
    """Notes for ``/readyz``: of each that is missing, and what those that run have to say."""
    return [f"policy {name}: {note}" for name, policy in _live(found) for note in _notes(policy)]


def _notes(policy: LivePolicy) -> list[str]:
    try:
        return list(policy.notes())
    except Exception as error:  # noqa: BLE001 (code of others)
        return [f"its notes fail: {type(error).__name__}: {error}"]


def levels(found: Policies) -> dict[tuple[str, ...], float]:
    """Numbers of those that run: policy, what is measured, and of what → how much."""
    return {(name, what, of): value for name, policy in _live(found) for (what, of), value in _levels(policy)}


def _levels(policy: LivePolicy) -> list[tuple[tuple[str, str], float]]:
    try:
        return list(policy.levels().items())
    except Exception:  # noqa: BLE001 (code of others: a scrape goes on without it)
        return []


def _live(found: Policies) -> Iterator[tuple[str, LivePolicy]]:
    return ((one.name, one.policy) for one in found.all if isinstance(one.policy, LivePolicy))
