"""The gate as a process: settings in, servers up, a clean stop. ``assembly`` has what is behind the servers."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from typing import TextIO, TypeAlias

import uvloop
from aiohttp import web

from extauthz import version
from extauthz.inputs.kube.connection import Connection, connect
from extauthz.inputs.kube.session import NoClusterError
from extauthz.serve.rpc.link import Server
from extauthz.serve.servers.api.answers import Answers
from extauthz.serve.servers.api.people import People
from extauthz.serve.servers.api.rights import Access, ThisHost
from extauthz.serve.servers.api.routes import routes
from extauthz.serve.servers.ext_authz import Checks
from extauthz.serve.servers.ext_proc import Processor
from extauthz.serve.servers.http import Health, Readiness, application
from extauthz.serve.servers.listener import more_descriptors
from extauthz.serve.servers.page.live import Knowledge
from extauthz.serve.servers.page.routes import Page
from extauthz.serve.servers.webhook import Webhook
from extauthz.serve.service import certificates, listening
from extauthz.serve.service.aside import AsideProcess
from extauthz.serve.service.assembly import Assembly, Decide, Surroundings
from extauthz.serve.service.certificates import Handshakes, SelfSigned
from extauthz.serve.service.collector import spare_the_collector
from extauthz.serve.service.ids import new_id
from extauthz.serve.service.recording import files
from extauthz.serve.service.setting_types import OFF, Address, SettingsError
from extauthz.serve.service.settings import Settings
from extauthz.serve.service.sources import Inputs
from extauthz.serve.service.sources import levels as levels_of_policies
from extauthz.tell.observe.log import Bridge, Log
from extauthz.tell.observe.metrics import Levels, Metrics, each
from extauthz.tell.observe.quota_facts import DeviceOwners, Level, Waiting
from extauthz.tell.record.recorder import RecordThread

Leave: TypeAlias = Callable[[], Awaitable[None]]


def serve(settings: Settings, stream: TextIO) -> None:
    """Run the gate until SIGTERM or SIGINT.

    Args:
        settings: with ``quotas`` and ``state`` given.
        stream: where the log goes.

    Raises:
        FilesError: quotas or state cannot be used.
        ListenError: an address cannot be listened on.
        SettingsError: it cannot be told where the cluster is.
    """
    log = Log(stream, settings.log_level, "text" if stream.isatty() else "json")
    bridge = Bridge(log)
    logging.basicConfig(level=logging.WARNING, handlers=[bridge], force=True)
    more_descriptors()
    try:
        uvloop.run(App(settings, log).run())
    finally:
        logging.getLogger().removeHandler(bridge)
        log.close()


class App:
    """One gate as a process: its addresses, its signals, its log."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._metrics = Metrics(self._levels)
        self._aside = AsideProcess(log.event)
        self._files = files(settings)
        around = Surroundings(log, self._metrics, time.monotonic, new_id, record=self._files, name=socket.gethostname())
        self._gate = Assembly(settings, around)
        known = self._gate.gate.customs
        self._answers = Answers(
            self._gate.queries, self._gate.ask, time.monotonic, self._gate.recent, known, self._gate.may_ask_for
        )
        self._device_owners = DeviceOwners(self._gate.queries)
        self._health = Health()
        self._stop = asyncio.Event()
        self._stage = "starting"
        """What prevents checks besides missing inputs; empty while the servers listen."""
        self._connection: Connection | None = None
        self._certificates: list[Handshakes] = []
        """What the listeners show."""
        self._self_signed: SelfSigned | None = None

    async def run(self) -> None:
        """Start, serve until told to stop, stop cleanly."""
        self._stop_on_signals()
        async with AsyncExitStack() as stack:
            http = await self._open_http(stack)
            await self._connect(stack)
            api_tls = Handshakes.of(certificates.API, self._settings, self._log.event)
            addresses = {"http": http, "api": await self._open_api(stack, api_tls)}
            if self._files is not None and self._gate.recording is not None:
                stack.callback(RecordThread(self._gate.recording.recorder, self._files, self._log.event).close)
            await self._gate.run(self._connection, self._stop, partial(self._serve, addresses, api_tls))
            if self._stage == "stopping":
                self._log.event("info", "stopped")

    async def _open_http(self, stack: AsyncExitStack) -> Address:
        """The operators' server opens first, because a liveness probe must not end a gate that reads a large state."""
        app = application(self._ready, self._metrics.scrape, self._settings.http_names)
        self._add_api(app, ThisHost())
        runner, address = await listening.bind_http(app, self._settings)
        stack.push_async_callback(runner.cleanup)
        return address

    def _add_api(self, app: web.Application, access: Access) -> None:
        """The API and the page, for those whom ``access`` lets in."""

        def known() -> Answers | None:
            return None if self._gate.missing() else self._answers

        app.add_routes(routes(known, access))
        Page(known, access, self._knowledge, signs_in=isinstance(access, People)).add_to(app)

    async def _open_api(self, stack: AsyncExitStack, tls: Handshakes | None) -> Address | None:
        """The API for others than this host. The API server judges who asks."""
        if tls is None:
            return None
        assert self._connection is not None
        app = web.Application()
        covers = self._gate.queries.own_namespaces
        people = People(self._connection, self._log.event, audience=self._settings.api_audience, covers=covers)
        self._add_api(app, people)
        runner, address = await listening.bind_api(app, self._settings, tls.context)
        stack.push_async_callback(runner.cleanup)
        return address

    async def _connect(self, stack: AsyncExitStack) -> None:
        if not self._settings.live:
            return
        try:
            connecting = connect(self._settings.kubeconfig, user_agent=f"extauthz/{version()}")
            self._connection = await stack.enter_async_context(connecting)
        except NoClusterError as error:
            raise SettingsError(f"--kubeconfig: {error}") from None
        self._log.event("info", "connected", server=self._connection.server)

    async def _serve(self, addresses: dict[str, Address | None], api_tls: Handshakes | None, decide: Decide) -> None:
        spare_the_collector()
        server, grpc_address = self._open_grpc(decide)
        leave_webhook, webhook_address = await self._open_webhook(decide)
        if api_tls is not None:
            self._certificates.append(api_tls)
        async with self._aside, asyncio.TaskGroup() as group:
            watching = [group.create_task(one.watch()) for one in self._certificates]
            watching.append(group.create_task(self._device_owners.run()))
            if server is not None:
                await server.start()
            if self._self_signed is None or await self._self_signed.waited(self._stop):
                self._announce({"grpc": grpc_address} | addresses | {"webhook": webhook_address})
                await self._stop.wait()
            await self._leave(server, leave_webhook)
            for task in watching:
                task.cancel()

    def _open_grpc(self, decide: Decide) -> tuple[Server | None, Address | None]:
        if self._settings.grpc == OFF:
            return None, None
        clamping = self._gate.clamping
        assert clamping is not None, "it runs"
        services = Checks(decide), Processor(clamping), self._gate.access_logs, self._health
        methods = {path: method for one in services for path, method in one.methods().items()}
        tls = Handshakes.of(certificates.GRPC, self._settings, self._log.event)
        if tls is not None:
            self._certificates.append(tls)
        return listening.grpc_server(methods, self._settings, tls.context if tls is not None else None)

    async def _open_webhook(self, decide: Decide) -> tuple[Leave | None, Address | None]:
        tls: Handshakes | None
        if self._settings.makes_certificate:
            assert self._connection is not None
            tls = self._self_signed = SelfSigned(self._settings, self._connection, self._log.event)
        else:
            tls = Handshakes.of(certificates.WEBHOOK, self._settings, self._log.event)
        if tls is None:
            return None, None
        self._certificates.append(tls)
        webhook = Webhook(decide, self._aside.review, self._gate.clamping, self._gate.gate.shapes)
        runner, address = await listening.bind_webhook(webhook.application(), self._settings, tls.context)
        return partial(webhook.leave, runner), address

    def _stop_on_signals(self) -> None:
        """The first signal stops cleanly, a second one at once: who asks twice does not want to wait."""

        def stop(number: int) -> None:
            if self._stop.is_set():
                self._gate.observers.drain()
                self._log.event("error", "killed", signal=signal.Signals(number).name)
                self._log.close()
                os._exit(128 + number)
            self._stop.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number)

    def _announce(self, addresses: Mapping[str, Address | None]) -> None:
        self._stage = ""
        tls = self._settings.tls_cert is not None
        there = {name: str(address) for name, address in addresses.items() if address is not None}
        self._log.event("info", "serving", version=version(), **there, tls=tls, pid=os.getpid())
        if self._settings.mode == "audit":
            self._log.event("warning", "auditing", cure="set mode to enforce, and growth beyond a quota is refused")
        grpc_address = addresses["grpc"]
        if grpc_address is not None and not tls and not grpc_address.loopback:
            cure = "set tls-cert and tls-client-ca, or listen on loopback or a unix socket"
            self._log.event("warning", "plain-text", grpc=str(grpc_address), cure=cure)

    async def _leave(self, server: Server | None, leave_webhook: Leave | None) -> None:
        """First NOT_SERVING, then no new checks, then the running ones, then what the next start needs."""
        self._stage = "stopping"
        self._log.event("info", "stopping")
        self._health.leave()
        stopping: list[Awaitable[None]] = []
        if server is not None:
            stopping.append(server.stop(self._settings.numbers.grace_s))
        if leave_webhook is not None:
            stopping.append(leave_webhook())
        await asyncio.gather(*stopping)

    # What is told.

    def _ready(self) -> Readiness:
        problem = self._self_signed.problem if self._self_signed is not None else ""
        told = [f"the certificate of the webhook: {problem}"] if problem else []
        if self._stage:
            return Readiness(self._gate.missing() or told or [self._stage], self._gate.notes())
        return Readiness(self._gate.missing(), [*self._gate.notes(), *told])

    def _knowledge(self) -> Knowledge:
        queries, inputs = self._gate.queries, self._gate.inputs
        return Knowledge(
            version(),
            self._gate.stale or "",
            self._gate.notes(),
            queries.quota_count,
            queries.workload_count,
            queries.pending_count,
            [(one.resource.group_resource, one.age_s) for each in inputs or () for one in each.watches()],
        )

    def _levels(self) -> Levels:
        most = self._settings.numbers.metrics_of_quotas
        queries, inputs, now_s = self._gate.queries, self._gate.inputs, time.time()
        policies, recording, reached = self._gate.gate.policies, self._gate.recording, self._gate.reaching.reached
        ends = {use: at - now_s for one in self._certificates for use, at in one.ends_s().items()}
        others: dict[str, Level] = {
            "extauthz_quotas": {(): queries.quota_count},
            "extauthz_quotas_left_out": {(): max(queries.quota_count - most, 0)},
            "extauthz_intents": {(): queries.pending_count},
            "extauthz_workloads": {(): queries.workload_count},
            "extauthz_ready": {(): int(not self._stage)},
            "extauthz_stale": {(): int(self._gate.stale is not None)},
            "extauthz_log_dropped_total": {(): self._log.dropped},
            "extauthz_record_dropped_total": {(): recording.recorder.dropped if recording is not None else 0},
            "extauthz_webhook_reached": {(): int(reached)} if reached is not None else {},
            "extauthz_api_calls_total": each(self._connection.calls if self._connection is not None else {}),
            "extauthz_certificate_ends_in_seconds": each(ends),
            "extauthz_quota_used_by_kind": self._device_owners.used,
            "extauthz_policy_level": levels_of_policies(policies),
            **(_of_inputs(inputs) if inputs is not None else {}),
        }
        uses = list(islice(queries.quotas(), most))
        waiting = [Waiting(one.latest, max(now_s - one.began_s, 0.0)) for one in self._gate.recent.episodes()]
        return Levels(uses, waiting, others)


def _of_inputs(inputs: Inputs) -> dict[str, Level]:
    watches = [one for each in inputs for one in each.watches()]
    status, telling = inputs.quotas.status, inputs.state.telling
    return {
        "extauthz_watch_age_seconds": each({one.resource.group_resource: one.age_s for one in watches}),
        "extauthz_watch_relists_total": each({one.resource.group_resource: one.relists for one in watches}),
        "extauthz_quotas_failing": each(status.failing() if status is not None else {}),
        "extauthz_status_writes_total": each(status.results if status is not None else {}),
        "extauthz_event_writes_total": each(telling.events.results if telling is not None else {}),
    }
