"""Quotas, state and shared ledger as the settings name them, put in force in one gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from extauthz.cluster import file as state_file
from extauthz.core.decision.gate import Gate
from extauthz.files.problems import FileProblem
from extauthz.files.watch import Watched
from extauthz.kube.connection import Connection
from extauthz.ledger_store.committing import Committer
from extauthz.ledger_store.kubernetes import KubernetesStore
from extauthz.ledger_store.store import LedgerStore
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics
from extauthz.observe.serving import Serving
from extauthz.service import notifying, unmatched
from extauthz.service.agreeing import LedgerInput
from extauthz.service.http import ServiceQuotaInput
from extauthz.service.inputs import Clock, Input, QuotaFileInput, QuotaInput, StateFileInput, StateInput, Taken
from extauthz.service.live import LiveQuotaInput, LiveStateInput, StatusHandler, StatusWritten, Watchdog
from extauthz.service.notifying import Notifying
from extauthz.service.setting_types import templates
from extauthz.service.settings import KUBERNETES, Settings
from extauthz.service.sharing import Together
from extauthz.sources import file as quota_file


class Into(NamedTuple):
    """Where quotas come into force, and who is notified."""

    gate: Gate
    log: Log
    metrics: Metrics
    clock: Clock
    notifying: Notifying | None = None
    """``None``: there are no receivers of notices."""
    serving: Callable[[], Serving] = Serving
    """Who asks the gates."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of the gate."""

    quotas: QuotaInput
    state: StateInput
    ledger: LedgerInput | None
    """``None``: there is no other gate."""

    def __iter__(self) -> Iterator[Input]:
        yield from (self.quotas, self.state)
        if self.ledger is not None:
            yield self.ledger


def inputs(settings: Settings, into: Into, connection: Connection | None, store: LedgerStore | None = None) -> Inputs:
    """The inputs of ``settings``. ``connection`` is there if one of them is the cluster; a ledger that is shared is
    kept there too, unless ``store`` is given."""
    watchdog = Watchdog(into.log, settings.stale_after_s)
    state = _state(settings, into, connection, watchdog)
    events = state.status_written if isinstance(state, LiveStateInput) else None
    quotas = _quotas(settings, into, connection, watchdog, events)
    if settings.ledger != KUBERNETES:
        return Inputs(quotas, state, None)
    assert connection is not None
    assert isinstance(state, LiveStateInput)
    progress = Together(
        tuple(one.progress for one in (quotas, state) if isinstance(one, LiveQuotaInput | LiveStateInput))
    )
    committer = Committer(
        into.gate,
        store if store is not None else KubernetesStore(connection, into.clock),
        progress,
        settings.window_s,
        into.clock,
        look=state.reads.read_anew,
        list_anew=state.list_anew,
        holds_new=settings.on_unclean_start == "deny",
        wrote=into.metrics.ledger_write,
        tell=into.log.event,
    )
    return Inputs(quotas, state, LedgerInput(committer, into.metrics))


def _quotas(
    settings: Settings,
    into: Into,
    connection: Connection | None,
    watchdog: Watchdog,
    events: StatusHandler | None,
) -> QuotaInput:
    gate, log, metrics, clock, notices, serving = into
    known = notifying.names(settings)

    def from_file(quotas: quota_file.Quotas) -> Taken:
        gate.load_quotas(quotas.tree, clock())
        for problem in notifying.odd(quotas.tree, known):
            log.event("warning", "odd", source="quotas", problem=problem)
        odd = [*quotas.warnings, *_unmatched(settings, gate)]
        return Taken({"quotas": len(quotas.tree.nodes)}, odd)

    if settings.quotas == KUBERNETES:
        assert connection is not None
        handlers = (notices.status_written if notices is not None else None, events)
        wrote = [one for one in handlers if one is not None]
        written = StatusWritten(known, wrote, serving) if settings.write_status else None
        return LiveQuotaInput(connection, gate, watchdog, log, metrics, clock, status=written)
    if isinstance(settings.quotas, str):
        return ServiceQuotaInput(settings, gate, log, metrics, clock)
    assert settings.quotas is not None
    return QuotaFileInput("quotas", Watched(settings.quotas, quota_file.parse), from_file, log, metrics)


def _unmatched(settings: Settings, gate: Gate) -> list[FileProblem]:
    """Only for files: in a cluster the status of a quota says that it covers nothing."""
    if isinstance(settings.quotas, Path) and isinstance(settings.state, Path):
        return unmatched.warnings(gate.ledger.coverage, settings.quotas)
    return []


def _state(settings: Settings, into: Into, connection: Connection | None, watchdog: Watchdog) -> StateInput:
    gate, log, metrics, clock, *_ = into

    def from_file(file: state_file.StateFile) -> Taken:
        state = file.state
        gate.load_state(state, clock())
        counts = {
            "namespaces": len(state.namespaces),
            "workloads": len(state.workloads),
            "not_counted": dict(state.not_counted),
        }
        return Taken(counts, [*file.warnings, *_unmatched(settings, gate)])

    declared = templates(settings.scaled_templates)
    if settings.state == KUBERNETES:
        assert connection is not None
        return LiveStateInput(
            connection, gate, watchdog, log, metrics, clock, templates=declared, write_events=settings.write_events
        )
    assert settings.state is not None
    parse = partial(state_file.parse, templates=declared)
    return StateFileInput(Watched(settings.state, parse), from_file, log, metrics)
