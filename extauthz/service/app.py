"""The gate as a process: settings in, doors open, inputs followed, a clean stop. The one place that wires the rooms."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from itertools import groupby
from typing import TextIO

import grpc.aio
import uvloop

from extauthz.core.decision.gate import Gate
from extauthz.core.intake.read import Reader
from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.ledger.intents import Event
from extauthz.doors.access_log import AccessLogs
from extauthz.doors.http import Readiness, application
from extauthz.kube.connection import Connection, connect
from extauthz.kube.credentials import NoClusterError
from extauthz.observe.log import Bridge, Log
from extauthz.observe.metrics import Levels, Metrics
from extauthz.service import certificates, listening, sources
from extauthz.service.addresses import Address
from extauthz.service.deciding import Deciding
from extauthz.service.holding import Holding
from extauthz.service.http import max_scale
from extauthz.service.listening import ListenError
from extauthz.service.loading import SettingsError
from extauthz.service.recounting import Recounting
from extauthz.service.settings import Settings, policy
from extauthz.service.version import VERSION
from extauthz.sources.max_scale import MaxScale

TICK_S = 1.0
"""How late an intent may end. W is tens of seconds."""


def serve(settings: Settings, stream: TextIO) -> None:
    """Run the gate until SIGTERM or SIGINT.

    Args:
        settings: with ``quotas`` and ``state`` given.
        stream: where the log goes.

    Raises:
        FilesError: quotas or state cannot be used.
        ListenError: a door cannot be opened.
        SettingsError: the handover file cannot be written, or it cannot be told where the cluster is.
    """
    log = Log(stream, settings.log_level, settings.log_format)
    bridge = Bridge(log)
    logging.basicConfig(level=logging.WARNING, handlers=[bridge], force=True)
    try:
        uvloop.run(App(settings, log).run())
    finally:
        logging.getLogger().removeHandler(bridge)
        log.close()


class App:
    """One gate and what is around it."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._gate = Gate(policy(settings))
        self._gate.reader = Reader()
        self._metrics = Metrics(self._levels)
        self._access_logs = AccessLogs(self._answered, self._metrics.skipped)
        self._health = listening.Health()
        self._stop = asyncio.Event()
        self._stage = "starting"
        """What stands in the way of checks besides missing inputs; empty while the doors are open."""
        self._holding = Holding(settings, self._gate, log)
        self._connection: Connection | None = None
        self._inputs: sources.Inputs | None = None
        self._stale: str | None = None
        self._audits = settings.mode == "audit"
        self._max_scale: MaxScale | None = None

    async def run(self) -> None:
        """Start, serve until told to stop, stop cleanly. Should anything that runs for ever fail, all ends."""
        self._heed_signals()
        async with AsyncExitStack() as stack:
            http = await self._open_http(stack)
            inputs = self._inputs = await self._open_inputs(stack)
            await inputs.quotas.load()
            await inputs.state.load()
            refused: Exception | None = None
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(one.follow()) for one in inputs]
                running.append(group.create_task(self._tick(inputs)))
                recounting = Recounting(self._gate, self._settings.recount_every_s, self._log, self._metrics)
                running.append(group.create_task(recounting.run()))
                if await self._unless_stopped(inputs):
                    try:
                        await self._serve(inputs, http, group, running)
                    except (ListenError, SettingsError) as error:  # a group would wrap what is meant for the person
                        refused = error
                for task in running:
                    task.cancel()
            if refused is not None:
                raise refused

    async def _open_http(self, stack: AsyncExitStack) -> Address:
        """The operators' door opens first: a liveness probe must not end a gate that reads a large state."""
        app = application(self._ready, self._metrics.scrape)
        runner, address = await listening.bind_http(app, self._settings)
        stack.push_async_callback(runner.cleanup)
        return address

    async def _open_inputs(self, stack: AsyncExitStack) -> sources.Inputs:
        if self._settings.live:
            try:
                connecting = connect(self._settings.kubeconfig, user_agent=f"extauthz/{VERSION}")
                self._connection = await stack.enter_async_context(connecting)
            except NoClusterError as error:
                raise SettingsError(f"--kubeconfig: {error}") from None
            self._log.event("info", "connected", server=self._connection.server)
        self._max_scale = max_scale(self._settings, self._log, self._metrics)
        if self._max_scale is not None:
            await stack.enter_async_context(self._max_scale.client)
            self._gate.scales = self._max_scale.scales
        return sources.inputs(self._settings, self._gate, self._connection, self._log, self._metrics)

    async def _unless_stopped(self, inputs: sources.Inputs) -> bool:
        """Wait until all is known; False if told to stop before."""
        waiting = [asyncio.ensure_future(one.known.wait()) for one in inputs]
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            everything = asyncio.gather(*waiting)
            await asyncio.wait((everything, stop), return_when=asyncio.FIRST_COMPLETED)
            return not self._stop.is_set()
        finally:
            for one in (*waiting, stop):
                one.cancel()

    async def _serve(
        self, inputs: sources.Inputs, http: Address, group: asyncio.TaskGroup, running: list[asyncio.Task[None]]
    ) -> None:
        self._holding.take_over()
        running.append(group.create_task(self._holding.release(inputs.state.list_anew)))
        commit = inputs.ledger.commit if inputs.ledger is not None else None
        deciding = Deciding(
            self._gate,
            self._metrics,
            self._log,
            inputs.state.look,
            inputs.state.heed,
            commit,
            ask=self._max_scale.ask if self._max_scale is not None else None,
            audits=self._audits,
        )
        server = listening.grpc_server(deciding, self._access_logs, self._health, self._settings)
        tls = certificates.of(self._settings, self._log.event)
        grpc_address = listening.bind_grpc(server, self._settings, tls.credentials if tls is not None else None)
        if tls is not None:
            running.append(group.create_task(tls.watch()))
        await server.start()
        self._announce(grpc_address, http)
        await self._stop.wait()
        await self._leave(server)

    def _heed_signals(self) -> None:
        """The first one stops cleanly, a second one at once: a person who asks twice does not want to wait."""

        def heed(number: int) -> None:
            if self._stop.is_set():
                self._log.event("error", "killed", signal=signal.Signals(number).name)
                self._log.close()
                os._exit(128 + number)
            self._stop.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, heed, number)

    def _announce(self, grpc_address: Address, http: Address) -> None:
        self._stage = ""
        tls = self._settings.tls_cert is not None
        self._log.event(
            "info", "serving", version=VERSION, grpc=str(grpc_address), http=str(http), tls=tls, pid=os.getpid()
        )
        if self._audits:
            self._log.event("warning", "auditing", cure="set mode to enforce, and growth beyond a quota is refused")
        if not tls and not grpc_address.loopback:
            cure = "set tls-cert, tls-key and tls-client-ca, or listen on loopback or a unix socket"
            self._log.event("warning", "plain-text", grpc=str(grpc_address), cure=cure)

    async def _leave(self, server: grpc.aio.Server) -> None:
        """NOT_SERVING first, then no new checks, then those under way, then what the next start needs."""
        self._stage = "stopping"
        self._log.event("info", "stopping")
        self._health.leave()
        self._access_logs.leave()
        await server.stop(self._settings.grace_s)
        self._holding.hand_over()
        self._log.event("info", "stopped")

    def _answered(self, decision_id: str, event: Event) -> None:
        """What became of a decided request; most often an intent ends by it, or by the read that is made then."""
        self._metrics.answer(event.value)
        ref = self._gate.settle(decision_id, event, time.monotonic())
        if ref is not None and self._inputs is not None:
            self._inputs.state.answered(ref)

    async def _tick(self, inputs: sources.Inputs) -> None:
        """Let time pass for the ledger, and look whether the inputs can still be relied on."""
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            self._gate.tick(now_s)
            inputs.state.tick(now_s)
            self._tell_stale(next((why for one in inputs if (why := one.stale()) is not None), None))

    def _tell_stale(self, why: str | None) -> None:
        self._gate.stale(why)
        if why is not None and self._stale is None:
            self._log.event("error", "stale", why=why, growth=self._settings.on_stale)
        if why is None and self._stale is not None:
            self._log.event("info", "fresh")
        self._stale = why

    # What is told.

    def _ready(self) -> Readiness:
        inputs = self._inputs or ()
        missing = [why for one in inputs for why in one.missing()]
        notes = [note for one in inputs for note in one.notes()] + self._holding.notes()
        if self._audits:
            notes.append("only audits: nothing is refused")
        if self._stale is not None:
            notes.append(f"{self._stale}; growth: {self._settings.on_stale}")
        return Readiness(missing or ([self._stage] if self._stage else []), notes)

    def _levels(self) -> Levels:
        most = self._settings.metrics_max_quotas
        quotas = len(self._gate.ledger.scope.tree.nodes)
        return Levels(
            rows=list(_of_first(most, self._gate.usage())),
            quotas=quotas,
            left_out=max(quotas - most, 0),
            intents=self._gate.ledger.intents,
            workloads=len(self._gate.ledger),
            ready=not self._stage,
            log_dropped=self._log.dropped,
            stale=self._stale is not None,
            watches=[(one.resource, one.age_s, one.relists) for each in self._inputs or () for one in each.watches()],
            calls=self._connection.calls if self._connection is not None else {},
            status_writes=self._inputs.quotas.status_writes() if self._inputs is not None else {},
            event_writes=self._inputs.state.event_writes() if self._inputs is not None else {},
        )


def _of_first(quotas: int, rows: Iterable[UsageRow]) -> Iterable[UsageRow]:
    """The rows of so many quotas; those of one follow each other."""
    for number, (_, group) in enumerate(groupby(rows, key=lambda row: row.quota)):
        if number == quotas:
            return
        yield from group
