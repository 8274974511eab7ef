"""One gate, assembled, from its start to its end: what decides, what it knows, and what receives answers.

``serve`` runs it as a process and listens for Envoy. `tests/worlds` run the same in simulated worlds. So time,
randomness, the connection and stores are arguments, and nothing here opens a port or a file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from extauthz.core.decision.gate import Gate
from extauthz.core.intake.counts import Reader
from extauthz.core.model import Decision, Fetch, Question, Reading, Request, WorkloadRef
from extauthz.core.policies import Enlisted
from extauthz.core.queries import Queries
from extauthz.core.quota.overrides import MARGIN_S
from extauthz.core.texts import MAX_SENTENCE, cut
from extauthz.inputs.kube.connection import Connection
from extauthz.inputs.policies.plugins import Host
from extauthz.inputs.settlement.answers import Settlement
from extauthz.serve.ledger_store.store import LedgerStore
from extauthz.serve.servers.access_log import AccessLogs
from extauthz.serve.service import sources
from extauthz.serve.service.counting import Counting
from extauthz.serve.service.deciding import Clamping, Deciding, briefly, terse
from extauthz.serve.service.holding import Holding
from extauthz.serve.service.inputs import Clock, Into, Look, Stale, all_set
from extauthz.serve.service.live import Askers
from extauthz.serve.service.reaching import Reaching
from extauthz.serve.service.recording import Recording, recorder
from extauthz.serve.service.recounting import Recounting
from extauthz.serve.service.settings import Settings, policy
from extauthz.serve.service.sources import notes as notes_of_policies
from extauthz.serve.service.sources import policies
from extauthz.serve.service.sources import running as running_policies
from extauthz.tell.observe import observers
from extauthz.tell.observe.episodes import Recent, would_get_now
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Metrics
from extauthz.tell.observe.observers import Observer, Observers
from extauthz.tell.record.files import Files

CLOCK_TOLD_S = 2.0
"""By more than that off the API server's clock, it is told."""

TICK_S = 1.0
"""How late a pending write may end. The landing window is much longer."""

MAX_UNREADABLE = 1_024
"""Workloads that are told to be unreadable before the first may be told again."""

CHECKED_FOR_S = 10.0
"""How long a look at the inputs counts. Only a process that was suspended exceeds it."""


Decide: TypeAlias = Callable[[Request | Question], Decision | Awaitable[Decision]]
"""What servers ask. It answers at once, unless something must be fetched first."""


@dataclass(frozen=True)
class Surroundings:
    """What a gate needs from outside, and who observes it."""

    log: Log
    metrics: Metrics
    clock: Clock
    ids: Callable[[], str]
    """Makes the id of each decision."""
    ledger_store: LedgerStore | None = None
    """The store of a shared ledger. ``None``: the objects behind the connection."""
    policies: Sequence[Enlisted] = ()
    """Policies beside those of the settings."""
    wall: Clock = time.time
    """Seconds since 1970."""
    record: Files | None = None
    """Where the lines of its record go; ``None``: nothing is recorded."""
    name: str = ""
    """Its own, in the record."""


class Assembly:
    """The parts of one gate. ``run`` is its life.

    Args:
        settings: with ``quotas`` and ``state`` given.
    """

    def __init__(self, settings: Settings, around: Surroundings) -> None:
        self.gate = Gate(policy(settings))
        self._counting = Counting(self.gate)
        self._unreadable: dict[WorkloadRef, str] = {}
        """Workloads whose cost cannot be worked out, and why."""
        self.gate.ledger.usage.on_unreadable = self._tell_unreadable
        self.gate.enlist(policies(settings, around.log, around.metrics, around.clock, around.policies))
        self.gate.epoch_s = around.wall() - around.clock()
        self.queries = Queries(self.gate.ledger)
        is_known = lambda: self.gate.synced and not self.gate.is_stale  # noqa: E731
        self.recent = Recent(would_get_now=would_get_now(self.queries, is_known, self.ask))
        self.observers = Observers((), around.log.event)
        """Who is told of decisions. Nobody, before it runs."""
        heard = around.metrics.answer
        self.settlement = Settlement(self.gate.ledger.pending, lambda event: heard(event.value), around.clock)
        self.access_logs = AccessLogs(self.settlement.answered, around.metrics.skipped)
        self.inputs: sources.Inputs | None = None
        """``None``: it does not run yet."""
        self.clamping: Clamping | None = None
        """What servers ask that can change a write. ``None``: it does not run yet."""
        self.stale: str | None = None
        """Why growth cannot rely on what is known."""
        self._clock_off_s = 0.0
        self._limits = True
        """Some quota is in force, or it is not known yet."""
        self._settings = settings
        self._around = around
        self._log = around.log
        self._clock = around.clock
        self.reaching = Reaching(settings.webhook is not None, around.log.event, lambda: self.askers.unanswered())
        self.askers = Askers(
            settings,
            around.log,
            lambda: self.clamping is not None and self.clamping.asked,
            lambda: self.reaching.is_unreached,
        )
        self._holding = Holding(settings, self.gate, around.log, around.clock)
        self.recording: Recording | None = None
        """``None``: nothing is recorded."""
        if around.record is not None:
            self.recording = Recording(self.gate, recorder(self.gate, around.record, around.name, around.wall))

    async def run(
        self, connection: Connection | None, stop: asyncio.Event, serve: Callable[[Decide], Awaitable[None]]
    ) -> None:
        """Read all inputs and ``serve``. If a part that runs for ever fails, all of it ends.

        Args:
            connection: to the cluster, if quotas or state come from there.
            stop: where it is set before all is known, nothing is served.
            serve: answers by the function that it is given until it is told to stop.

        Raises:
            FilesError: quotas or state cannot be used.
            Exception: what ``serve`` raises.
        """
        deciding, inputs = self._wired(connection)
        await inputs.quotas.load()
        await inputs.state.load()
        refused: Exception | None = None
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(each) for each in self._beside(inputs, connection)]
            try:
                if await all_set([one.known for one in inputs], stop):
                    self._holding.begin()
                    if self.recording is not None:
                        await self.recording.begin()
                        running.append(group.create_task(self.recording.run()))
                    running.append(group.create_task(self._holding.release(inputs.state.list_anew)))
                    try:
                        await serve(self._worded(deciding))
                    finally:
                        self.observers.drain()
            except Exception as error:  # noqa: BLE001 (a group would wrap what is meant for the person)
                refused = error
            for task in running:
                task.cancel()
        if refused is not None:
            raise refused

    def _beside(self, inputs: sources.Inputs, connection: Connection | None) -> Iterator[Coroutine[Any, Any, None]]:
        """What runs beside the answers, for ever."""
        yield from (one.follow() for one in inputs)
        yield self._tick(inputs, connection)
        yield self._recounting().run()
        yield self._counting.run()
        if connection is not None:
            yield self.askers.run(connection)
            yield self.reaching.run(connection)
        host = Host(connection, self._clock, self._around.wall, self._log.event)
        yield from running_policies(self.gate.policies, host)

    def _wired(self, connection: Connection | None) -> tuple[Deciding, sources.Inputs]:
        settings, log, metrics, clock = self._settings, self._log, self._around.metrics, self._clock
        inputs = self.inputs = sources.inputs(
            settings,
            Into(self.gate, log, metrics, clock, self.recent.blocked),
            connection,
            self.askers.serving,
            self._around.ledger_store,
        )
        self.settlement.reads, self.settlement.is_believed = inputs.state.reads, inputs.state.is_believed
        fetch: dict[Fetch, Look] = {}
        if (reads := inputs.state.reads) is not None:
            fetch[Fetch.WORKLOAD] = briefly(lambda needs: reads.look(needs.ref))
        fetch[Fetch.COUNT] = briefly(self._counting.whole)
        self.observers = Observers(self._observers(), log.event)
        deciding = Deciding(
            self.gate,
            self.observers,
            log.event,
            fetch=fetch,
            commit=inputs.ledger.commit if inputs.ledger is not None else None,
            audits=settings.mode == "audit",
            clock=clock,
            ids=self._around.ids,
            read=Reader(),
            note=self.recording.recorder.decided if self.recording is not None else None,
        )
        self.clamping = Clamping(self.gate, deciding, is_terse=settings.refusals == "terse")
        return deciding, inputs

    def _observers(self) -> list[Observer]:
        """Who is told of decisions, in this order."""
        policies = self.gate.policies
        found: list[Observer] = [self._log.decided, self._around.metrics.decided, self.recent.decided]
        if policies.all:
            found.insert(0, lambda told: policies.decided(told.decision, told.held))
        return found

    def _worded(self, deciding: Deciding) -> Decide:
        return terse(deciding) if self._settings.refusals == "terse" else deciding

    def _recounting(self) -> Recounting:
        return Recounting(self.gate, self._settings.numbers.recount_every_s, self._log, self._around.metrics)

    async def _tick(self, inputs: sources.Inputs, connection: Connection | None) -> None:
        """Let time pass for the ledger, and check whether the inputs are still reliable."""
        while True:
            await asyncio.sleep(TICK_S)
            now_s = self._clock()
            self.gate.epoch_s = self._around.wall() - now_s
            self.gate.turn(now_s)
            self.settlement.tick(now_s)
            if self.gate.state_known:
                self.gate.ledger.turns.tick(now_s)
            self.recent.tick()
            self._tell_limits()
            if connection is not None:
                self._tell_clock(connection.clock.off_s)
            self._tell_stale([found for one in inputs if (found := one.stale()) is not None], now_s)

    def _tell_clock(self, off_s: float) -> None:
        """Overrides allow for clocks that are ``MARGIN_S`` off. Of one that is further off, nobody knows what holds."""
        before, self._clock_off_s = self._clock_off_s, off_s
        self.gate.clock_why = self._off() if abs(off_s) > MARGIN_S else None
        was, is_now = (_grade(each) for each in (before, off_s))
        if is_now > was:
            self._log.event(("warning", "error")[is_now - 1], "clock-off", why=self._off(), seconds=round(off_s, 1))
        if was and not is_now:
            self._log.event("info", "clock-right")

    def _tell_unreadable(self, ref: WorkloadRef, error: Exception) -> None:
        """Once of each, until it raises something else. Objects that are remembered are bounded."""
        why = cut(repr(error), MAX_SENTENCE)
        if self._unreadable.get(ref) == why:
            return
        if len(self._unreadable) >= MAX_UNREADABLE:
            self._unreadable.clear()
        self._unreadable[ref] = why
        self._around.metrics.unreadable(ref.group_resource)
        name = f"{ref.namespace}/{ref.name}"
        self._log.event("error", "unreadable-object", resource=ref.group_resource, name=name, why=why)

    def _off(self) -> str:
        way = "ahead of" if self._clock_off_s > 0 else "behind"
        return f"its clock is at least {abs(self._clock_off_s):.1f} s {way} the API server's; have NTP keep both"

    def _tell_limits(self) -> None:
        before, self._limits = self._limits, not self.gate.quotas_known or bool(self.gate.ledger.coverage.tree.nodes)
        if before and not self._limits:
            self._log.event("warning", "no-quotas", why="nothing is limited: no WorkspaceQuota is there")

    def _tell_stale(self, found: list[Stale], now_s: float) -> None:
        why = found[0].why if found else None
        coverage = any(one.coverage for one in found)
        self.gate.stale(why, coverage=coverage, until_s=now_s + CHECKED_FOR_S)
        if why is not None and self.stale is None:
            self._log.event("error", "stale", why=why, growth=self._settings.on("stale"))
        if why is None and self.stale is not None:
            self._log.event("info", "fresh")
        self.stale = why

    @property
    def holds(self) -> bool:
        """Whether growth waits for the landing window of writes that an earlier run allowed."""
        return bool(self._holding.notes())

    def ask(self, reading: Reading) -> Decision:
        """What a write would get now. Nothing is charged, logged or counted."""
        return self.gate.asked(reading, self._around.ids(), self._clock())

    def may_ask_for(self, ref: WorkloadRef) -> int | None:
        """The most replicas that an autoscaler of a workload may ask for; ``None``: none is known."""
        telling = self.inputs.state.telling if self.inputs is not None else None
        return telling.ceilings.most(ref) if telling is not None else None

    def missing(self) -> list[str]:
        return [why for one in self.inputs or () for why in one.missing()]

    def notes(self) -> list[str]:
        """Notes for ``/readyz`` while it serves."""
        notes = [note for one in self.inputs or () for note in one.notes()] + self._holding.notes()
        notes += self.reaching.notes() + self.notes_of_installation() + notes_of_policies(self.gate.policies)
        if _grade(self._clock_off_s):
            growth = (
                f"; growth under quotas with overrides: {self._settings.on('stale')}" if self.gate.clock_why else ""
            )
            notes.append(self._off() + growth)
        if self.stale is not None:
            notes.append(f"{self.stale}; growth: {self._settings.on('stale')}")
        return notes

    def notes_of_installation(self) -> list[str]:
        """Those of ``notes`` that say how it is set up. They pass when somebody installs it otherwise."""
        notes = observers.notes(self.queries, self.askers.serving())
        if self._settings.mode == "audit":
            notes.append("only audits: nothing is refused")
        if self.gate.policy.objects == "webhook" and self._settings.webhook is None:
            notes.append("leaves whole objects to the webhook, and serves none: another gate of this ledger must")
        return notes


def _grade(off_s: float) -> int:
    """Of a clock: 0 right, 1 so far off that it is told, 2 further off than overrides allow for."""
    return (abs(off_s) > CLOCK_TOLD_S) + (abs(off_s) > MARGIN_S)
