"""One gate of the simulated world: the assembly that ``serve`` runs, on a virtual clock and a simulated connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from extauthz.core.decision.gate import Gate
from extauthz.core.intake import admission
from extauthz.core.model import Decision, Lower, Unreadable
from extauthz.core.objects.custom import Shapes
from extauthz.serve.ledger_store.store import LedgerStore
from extauthz.serve.servers.ext_authz import Checks
from extauthz.serve.servers.webhook import Webhook
from extauthz.serve.service.assembly import Assembly, Decide, Surroundings
from extauthz.serve.service.loading import load
from extauthz.serve.service.numbers import Numbers
from extauthz.serve.service.settings import Settings
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Levels, Metrics
from extauthz.tell.observe.observers import Report
from extauthz.tell.record.files import Files
from tests.worlds import wire
from tests.worlds.connection import Link, SimulatedConnection
from tests.worlds.excuses import PENDING_PER_TREE
from tests.worlds.loop import VirtualLoop
from tests.worlds.policies import Odd, enlisted
from tests.worlds.server import ApiServer
from tests.worlds.views import Horizon
from tests.worlds.wire import Answer, Question

GRACE_S = 1.0
"""How long checks under way may take to finish once the gate is told to stop."""

WRITES_AT_MOST = 3000
"""Writes of the ledger by one life of a gate: some hundreds are usual. A gate that writes without end is stopped
here."""

USUAL_ERRORS = frozenset({"stale", "ledger-put-back", "ledger-unreadable", "refused"})
"""Errors in the log that are no mistake of the gate: a watch is held, the ledger was edited, a quota's parent is
gone."""

IN_FORCE_S = 0.2
"""How long a change from a watch may take to be in force. Changes of quotas are gathered for half of that."""

RECORDED_S = 1.0
"""How often it writes its record."""

T = TypeVar("T")


@dataclass(frozen=True)
class Wiring:
    """What all gates of a world share."""

    loop: VirtualLoop
    server: ApiServer
    settings: Settings
    store: LedgerStore | None
    """The store of a shared ledger that is not behind the API server."""
    ids: Callable[[], str]
    tell: Callable[[str], None]
    """A line for the trace."""
    odd: Callable[[str], Odd | None] = lambda name: None
    """The plug-in of the gate of that name, if there is one."""
    ahead_s: Callable[[str], float] = lambda name: 0.0
    """By how much its wall clock is ahead."""
    record: Path | None = None
    """Folder that all gates record to; ``None``: nothing is recorded."""


def settings(window_s: float, ledger: str, objects: str) -> Settings:
    """The numbers of all gates of a world."""
    found = load(
        {
            "quotas": "kubernetes",
            "state": "kubernetes",
            "ledger": "memory" if ledger == "memory" else "kubernetes",
            "window_s": window_s,
            "objects": objects,
        },
        {},
        None,
    )
    numbers = Numbers(
        stale_after_s=6.0,
        recount_every_s=10.0,
        pending_writes_per_tree=PENDING_PER_TREE,
        tells_owners=False,
    )
    return replace(found, numbers=numbers)


_reviewed: ContextVar[list[Decision] | None] = ContextVar("reviewed")
"""Takes the decisions of the AdmissionReview that is being answered: its answer has not their id."""


class TraceLog(Log):
    """Takes a gate's log into the trace, at once and without a thread."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:  # no stream, so nothing of Log's own is made
        self._name = name
        self._tell = tell
        self.dropped = 0
        self.failures: list[str] = []
        """Errors. What failed inside is a finding."""
        self.decisions: dict[str, Decision] = {}
        """Decisions by id, until somebody takes them."""

    def decided(self, told: Report) -> None:
        """Keep the decision: the answer has only its sentence. That of a clamp says all."""
        reviewed = _reviewed.get(None)
        if isinstance(told.decision.todo, Lower):
            return
        if reviewed is not None:
            reviewed.append(told.decision)
        else:
            self.decisions[told.decision.id] = told.decision

    def event(self, level: str, event: str, **fields: object) -> None:
        """A line of the trace."""
        if level == "error" and event not in USUAL_ERRORS:
            self.failures.append(f"{event} {fields}")
        self._tell(f"{self._name}: {event} {' '.join(f'{key}={value}' for key, value in fields.items())}")

    def close(self) -> None:
        """There is nothing to write."""


class CountedMetrics(Metrics):
    """Stops a gate that writes ledgers without end: no time would pass any more."""

    def __init__(self, stop: Callable[[], None]) -> None:
        super().__init__(_no_levels)
        self.writes = 0
        """Writes of the ledger object, whatever their result."""
        self._stop = stop

    def ledger_write(self, result: str, grants: int) -> None:
        """Count it."""
        super().ledger_write(result, grants)
        self.writes += 1
        if self.writes > WRITES_AT_MOST:
            self._stop()


def _no_levels() -> Levels:
    raise NotImplementedError("nobody scrapes a simulated gate")


class ReadsLate:
    """Reads some AdmissionReviews some time after they came, as the process does that reads long ones for ``serve``."""

    async def review(self, body: bytes, shapes: Shapes, source: str | None) -> admission.Review | Unreadable:
        """Bodies overtake each other."""
        await asyncio.sleep(0.01 * (len(body) % 10))
        return admission.read(body, shapes=shapes)


class Member:
    """One life of one gate, from its start to its end.

    Args:
        is_first: nothing was allowed before it, so that a ledger in memory holds nothing.
    """

    def __init__(self, name: str, wiring: Wiring, link: Link, *, is_first: bool = False) -> None:
        self.name = name
        self.process = wiring.loop.process(name)
        self.stop = asyncio.Event()
        """Whether it was told to stop."""
        self.log = TraceLog(name, wiring.tell)
        self.metrics = CountedMetrics(self._end)
        self._aside = ReadsLate()
        self.odd = wiring.odd(name)
        """Its plug-in; ``None``: it has none."""
        wall = lambda: wiring.loop.time() + wiring.ahead_s(name)  # noqa: E731
        self._files = Files(wiring.record, name, 1 << 30, 1e9, wall) if wiring.record is not None else None
        around = Surroundings(
            self.log,
            self.metrics,
            wiring.loop.time,
            wiring.ids,
            wiring.store,
            policies=enlisted(self.odd) if self.odd is not None else (),
            wall=wall,
            record=self._files,
            name=name.partition(".")[0],
        )
        settings = wiring.settings
        if is_first and settings.ledger == "memory":
            settings = replace(settings, allow_unknown=("unclean-start",))
        self.assembly = Assembly(settings, around)
        self._connection = SimulatedConnection(wiring.server, link, wiring.loop)
        self._clock = wiring.loop.time
        self._stopped_s = self._resumed_s = float("-inf")
        """When it was last stopped, and last went on."""
        self._checks: Checks | None = None
        self._webhook: Webhook | None = None
        self._under_way: set[asyncio.Task[Any]] = set()
        self.process.on_end.append(self._unplug)
        self.running = self.process.start(self.assembly.run(self._connection, self.stop, self._serve))
        if self._files is not None:
            self.process.start(self._record(self._files))

    @property
    def gate(self) -> Gate:
        """What decides."""
        return self.assembly.gate

    @property
    def serves(self) -> bool:
        """Whether it answers checks and takes entries of the access log."""
        return self._checks is not None and not self.stop.is_set() and not self.process.ended

    def known(self, at_s: float) -> Horizon:
        """The version that it had in force by then. After a pause it has had no time to process later ones."""
        if self.process.stopped or at_s < self._resumed_s + IN_FORCE_S:
            at_s = self._stopped_s
        return partial(self._connection.taken.at, at_s - IN_FORCE_S)

    def stop_running(self) -> None:
        """Stop it, as SIGSTOP does."""
        now_s = self._clock()
        if not self.process.stopped and now_s >= self._resumed_s + IN_FORCE_S:
            self._stopped_s = now_s
        self.process.stopped = True

    def go_on(self) -> None:
        """Let it go on, as SIGCONT does."""
        self.process.stopped = False
        self._resumed_s = self._clock()

    def _end(self) -> None:
        self.process.ends_at = self.process.steps

    def _unplug(self) -> None:
        """End the process: nothing that it still does reaches anybody."""
        self._checks = None
        self._connection.close()

    async def _serve(self, decide: Decide) -> None:
        """Run checks and reviews as the servers do. When the gate is told to stop, running ones may end."""
        self._checks = Checks(decide)
        self._webhook = Webhook(decide, self._aside.review, self.assembly.clamping, self.assembly.gate.shapes)
        await self.stop.wait()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=GRACE_S)
        for one in self._under_way:
            one.cancel()
        self._checks = None

    async def _record(self, files: Files) -> None:
        """What the thread does for ``serve``. A crash loses what came since."""
        recording = self.assembly.recording
        assert recording is not None
        while not self.running.done():
            await asyncio.sleep(RECORDED_S)
            recording.recorder.flush()
        recording.recorder.finish()
        files.close()

    def begin(self, check: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Answer a check, within the gate's process."""
        task = self.process.start(check)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def answer(self, question: Question) -> tuple[Answer, Decision]:
        """The answer to a CheckRequest or an AdmissionReview, and the decision that it tells."""
        if question.by_webhook:
            return await self._review(question)
        assert self._checks is not None
        found = self._checks.answer(question.raw)
        answer = wire.answer(found if isinstance(found, bytes) else await found)
        self.assembly.observers.drain()
        logged = self.log.decisions.pop(answer.id)
        assert (logged.verdict, logged.reason) == (answer.verdict, answer.reason)
        return answer, logged

    async def _review(self, question: Question) -> tuple[Answer, Decision]:
        assert self._webhook is not None
        told: list[Decision] = []
        _reviewed.set(told)
        response = await self._webhook.validate(await self._webhook.read(question.raw))
        self.assembly.observers.drain()
        assert isinstance(response.body, bytes)
        return wire.reviewed(response.body, question.review, told[0]), told[0]

    async def lowered(self, question: Question) -> int | None:
        """What its mutating webhook makes of the count."""
        assert self._webhook is not None
        response = await self._webhook.mutate(await self._webhook.read(question.raw))
        assert isinstance(response.body, bytes)
        return wire.lowered(response.body, question.review)

    def hear(self, raw: bytes) -> None:
        """A message of the access log has come."""

        async def heard() -> None:
            self.assembly.access_logs.take(raw)

        self.process.start(heard())

    def unwell(self) -> list[str]:
        """Why it grants nothing for now. A world asks its gates without a configuration that says so."""
        usual = self.assembly.notes_of_installation()
        return [f"{self.name}: {one}" for one in self.assembly.notes() if one not in usual]
