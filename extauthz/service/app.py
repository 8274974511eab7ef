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

from extauthz.cluster import file as state_file
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.handover import HandoverError
from extauthz.core.ledger.accounts import UsageRow
from extauthz.core.ledger.intents import Event
from extauthz.doors.access_log import AccessLogs
from extauthz.doors.http import Readiness, application
from extauthz.observe.log import Bridge, Log
from extauthz.observe.metrics import Levels, Metrics
from extauthz.service import handover, listening
from extauthz.service.addresses import Address
from extauthz.service.deciding import Deciding
from extauthz.service.inputs import Input, Taken
from extauthz.service.loading import SettingsError
from extauthz.service.settings import Settings, policy
from extauthz.service.version import VERSION
from extauthz.sources import file as quota_file

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
        SettingsError: the handover file cannot be written.
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
        assert settings.quotas is not None
        assert settings.state is not None
        self._settings = settings
        self._log = log
        self._gate = Gate(policy(settings))
        self._metrics = Metrics(self._levels)
        self._access_logs = AccessLogs(self._answered, self._metrics.skipped)
        self._health = listening.Health()
        self._stop = asyncio.Event()
        self._not_ready = "quotas and state are being read"
        self._held_until_s = 0.0
        self._quota_count = 0
        self._quotas = Input("quotas", quota_file.watched(settings.quotas), self._take_quotas, log, self._metrics)
        self._state = Input("state", state_file.watched(settings.state), self._take_state, log, self._metrics)

    async def run(self) -> None:
        """Start, serve until told to stop, stop cleanly."""
        self._heed_signals()
        async with AsyncExitStack() as stack:
            http = await self._open_http(stack)
            await self._quotas.load()
            await self._state.load()
            self._take_over()
            server = self._server()
            grpc_address = listening.bind_grpc(server, self._settings)
            await server.start()
            self._announce(grpc_address, http)
            await self._live()
            await self._leave(server)

    async def _open_http(self, stack: AsyncExitStack) -> Address:
        """The operators' door opens first: a liveness probe must not end a gate that reads a large state."""
        app = application(self._ready, self._metrics.scrape)
        runner, address = await listening.bind_http(app, self._settings)
        stack.push_async_callback(runner.cleanup)
        return address

    def _server(self) -> grpc.aio.Server:
        deciding = Deciding(self._gate, self._metrics, self._log)
        return listening.grpc_server(deciding, self._access_logs, self._health, self._settings)

    async def _live(self) -> None:
        """Until told to stop. Should one of these fail, all end, and so does the process."""
        async with asyncio.TaskGroup() as group:
            forever = (self._quotas.follow(), self._state.follow(), self._tick())
            running = [group.create_task(one) for one in forever]
            await self._stop.wait()
            for task in running:
                task.cancel()

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
        self._not_ready = ""
        tls = self._settings.tls_cert is not None
        self._log.event(
            "info", "serving", version=VERSION, grpc=str(grpc_address), http=str(http), tls=tls, pid=os.getpid()
        )
        if not tls and not grpc_address.loopback:
            cure = "set tls-cert, tls-key and tls-client-ca, or listen on loopback or a unix socket"
            self._log.event("warning", "plain-text", grpc=str(grpc_address), cure=cure)

    async def _leave(self, server: grpc.aio.Server) -> None:
        """NOT_SERVING first, then no new checks, then those under way, then what the next start needs."""
        self._not_ready = "stopping"
        self._log.event("info", "stopping")
        self._health.leave()
        self._access_logs.leave()
        await server.stop(self._settings.grace_s)
        self._hand_over()
        self._log.event("info", "stopped")

    def _answered(self, decision_id: str, event: Event) -> None:
        """What became of a decided request; most often an intent ends by it."""
        self._metrics.answer(event.value)
        self._gate.settle(decision_id, event, time.monotonic())

    # What is known.

    def _take_quotas(self, quotas: quota_file.Quotas) -> Taken:
        self._gate.load_quotas(quotas.tree, time.monotonic())
        self._quota_count = len(quotas.tree.nodes)
        return Taken({"quotas": self._quota_count}, quotas.warnings)

    def _take_state(self, file: state_file.StateFile) -> Taken:
        state = file.state
        self._gate.load_state(state, time.monotonic())
        counts = {
            "namespaces": len(state.namespaces),
            "workloads": len(state.workloads),
            "not_counted": dict(state.not_counted),
        }
        return Taken(counts, file.warnings)

    def _take_over(self) -> None:
        """Intents of the last run, or a hold where it cannot be known which there were (DESIGN §6.5)."""
        path = self._settings.handover
        if path is None:
            return
        now_s = time.monotonic()
        try:
            intents, unclean = handover.take(path)
        except OSError as error:
            why = f"{error.strerror}; name a file in a directory that the gate may write"
            raise SettingsError(f"--handover {path}: {why}") from None
        try:
            self._gate.import_intents(intents, now_s)
        except HandoverError as error:
            unclean = str(error)
        if unclean is None:
            self._log.event("info", "taken-over", intents=len(intents), path=str(path))
            return
        self._held_until_s = now_s + self._settings.window_s
        self._gate.hold(self._held_until_s)
        self._log.event("warning", "holding", why=unclean, seconds=self._settings.window_s)

    def _hand_over(self) -> None:
        path = self._settings.handover
        if path is None:
            return
        intents = self._gate.export_intents(time.monotonic())
        try:
            handover.leave(path, intents)
        except OSError as error:  # the marker stays, and the next start holds
            self._log.event("error", "not-handed-over", path=str(path), why=error.strerror)
        else:
            self._log.event("info", "handed-over", path=str(path), intents=len(intents))

    async def _tick(self) -> None:
        """Let time pass for the ledger.

        Files have no watch that could settle an intent. So W alone ends it, on the word of the state file that is in
        force; while a change of that file stands refused, intents stay.
        """
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            self._gate.tick(now_s)
            if not self._state.stale:
                self._gate.consistent_read(now_s)

    # What is told.

    def _ready(self) -> Readiness:
        stale = [one.name for one in (self._quotas, self._state) if one.stale]
        notes = [f"the last change of {name} was refused; the one before is in force" for name in stale]
        left_s = self._held_until_s - time.monotonic()
        if left_s > 0:
            notes.append(f"grants no growth for another {left_s:.0f} s: writes of before the start may still land")
        return Readiness([self._not_ready] if self._not_ready else [], notes)

    def _levels(self) -> Levels:
        most = self._settings.metrics_max_quotas
        return Levels(
            rows=list(_of_first(most, self._gate.usage())),
            quotas=self._quota_count,
            left_out=max(self._quota_count - most, 0),
            intents=self._gate.ledger.intents,
            workloads=len(self._gate.ledger),
            ready=not self._not_ready,
            log_dropped=self._log.dropped,
        )


def _of_first(quotas: int, rows: Iterable[UsageRow]) -> Iterable[UsageRow]:
    """The rows of so many quotas; those of one follow each other."""
    for number, (_, group) in enumerate(groupby(rows, key=lambda row: row.quota)):
        if number == quotas:
            return
        yield from group
