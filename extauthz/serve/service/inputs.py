"""Quotas and state, each from a file or from a cluster: known before the gate serves, and followed while it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from extauthz.core.decision.gate import Gate
from extauthz.core.model import NeedsFetch
from extauthz.inputs.files.content import FileProblem, FilesError
from extauthz.inputs.files.watch import Watched
from extauthz.inputs.kube.reflector import Reflector
from extauthz.inputs.settlement.reads import ConsistentReads
from extauthz.inputs.sources.gathering import Quotas
from extauthz.serve.service.collector import spare_the_collector
from extauthz.tell.observe.ceilings import Ceilings
from extauthz.tell.observe.episodes import Episodes
from extauthz.tell.observe.kube_events import KubeEvents
from extauthz.tell.observe.log import Log
from extauthz.tell.observe.metrics import Metrics
from extauthz.tell.observe.status import StatusWriter
from extauthz.tell.observe.strays import Strays

Value = TypeVar("Value")

Clock: TypeAlias = Callable[[], float]
"""Seconds, monotonic. Whoever runs a gate gives it: the system's clock or that of a simulated world."""

Look: TypeAlias = Callable[[NeedsFetch], Awaitable[object]]
"""Reads what a decision needs, within a bounded time, and gives the result to the gate."""


class Into(NamedTuple):
    """The gate in which inputs come into force, and who is told."""

    gate: Gate
    log: Log
    metrics: Metrics
    clock: Clock
    episodes: Episodes
    """Workloads that may not grow."""


class Stale(NamedTuple):
    """What an input knows may be out of date."""

    why: str
    coverage: bool
    """Whether it decides which quotas cover what: quotas, or the labels of namespaces."""


async def all_set(events: Iterable[asyncio.Event], stop: asyncio.Event) -> bool:
    """Wait until all are set; False if ``stop`` is set before."""
    everything = asyncio.gather(*(one.wait() for one in events))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((everything, stopped), return_when=asyncio.FIRST_COMPLETED)
        return not stop.is_set()
    finally:
        everything.cancel()
        stopped.cancel()
        # asyncio logs a cancelled task that nobody awaits as an error, with a traceback.
        await asyncio.gather(everything, stopped, return_exceptions=True)


class Input:
    """Where quotas, the state or a shared ledger come from."""

    name: str
    """``quotas``, ``state`` or ``ledger``, as in flags and metrics."""
    known: asyncio.Event
    """Set once what it brings is in force."""

    async def load(self) -> None:
        """Put in force what can be loaded at once.

        Raises:
            FilesError: a file cannot be used.
        """

    async def follow(self) -> None:
        """Put every change in force, for ever. Ends by cancellation."""
        raise NotImplementedError

    def missing(self) -> list[str]:
        """Why it is not ``known`` yet."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """Notes for ``/readyz`` while it serves."""
        return []

    def stale(self) -> Stale | None:
        """Why growth cannot rely on it; ``None``: it can."""
        return None

    def watches(self) -> Iterable[Reflector[Any]]:
        """The watches that it uses, as far as an operator must look at them."""
        return ()


class QuotaInput(Input):
    """Where quotas come from."""

    status: StatusWriter | None = None
    """Writes to each quota how it stands; ``None``: nobody does."""


class GatheredQuotaInput(QuotaInput):
    """Quotas each of which has another author, so that a bad one affects no other."""

    name = "quotas"

    def __init__(self, into: Into) -> None:
        self.known = asyncio.Event()
        self._into = into
        self._faults: dict[str, str] = {}

    def notes(self) -> list[str]:
        return [f"WorkspaceQuota {name} is not in force as written: {why}" for name, why in self._faults.items()]

    def _accept(self, quotas: Quotas) -> None:
        gate, log, metrics, clock, _ = self._into
        if gate.written is not quotas.tree or not self.known.is_set():
            gate.load_quotas(quotas.tree, clock())
            metrics.reload(self.name, "ok", time.time())
            log.event("info", "loaded", source=self.name, quotas=len(quotas.tree.nodes))
            for warning in quotas.warnings:
                log.event("warning", "odd", source=self.name, problem=str(warning))
        faults = {one.name: one.why for one in quotas.faults}
        for name, why in faults.items():
            if self._faults.get(name) != why:
                metrics.reload(self.name, "refused", time.time())
                log.event("error", "refused", source=self.name, problems=[f"WorkspaceQuota {name}: {why}"])
        self._faults = faults
        self.known.set()


class Telling(NamedTuple):
    """What tells owners in the cluster."""

    events: KubeEvents
    ceilings: Ceilings
    strays: Strays


class StateInput(Input):
    """Where the state comes from. It also ends pending writes."""

    reads: ConsistentReads | None = None
    """Reads one workload anew; ``None``: there is no way."""
    telling: Telling | None = None

    def is_believed(self) -> bool:
        """Whether it shows all that could land so far, where there are no ``reads``. Watches may be behind."""
        return False

    async def list_anew(self) -> None:
        """Everything that was written before this call is known after it."""


class Taken(NamedTuple):
    """The result of putting a value in force, for the log."""

    counts: dict[str, object]
    """``{"quotas": 12}``."""
    warnings: Sequence[FileProblem] = ()


class FileInput(Input, Generic[Value]):
    """One watched file or directory; the last good content holds. It is believed as it is: nobody can tell that it
    is out of date.

    Args:
        name: as in ``Input``.
        watched: reads it in a thread, now and after every change.
        put_in_force: takes the value, on the event loop.
    """

    def __init__(self, name: str, watched: Watched[Value], put_in_force: Callable[[Value], Taken], into: Into) -> None:
        self.name = name
        self.known = asyncio.Event()
        self.refused = False
        """The last change was refused: what is in force is not what the path holds."""
        self._watched = watched
        self._put_in_force = put_in_force
        self._log = into.log
        self._metrics = into.metrics

    async def load(self) -> None:
        """Read it and put it in force.

        Raises:
            FilesError: with everything that is wrong with it.
        """
        self._accept(await asyncio.to_thread(self._watched.load))

    async def follow(self) -> None:
        """Put every good change in force, for ever. A refused change leaves the last good value."""
        await self._watched.watch(self._accept, self._refuse)

    def missing(self) -> list[str]:
        """Nothing is missing: it is read before anybody can ask."""
        return [] if self.known.is_set() else [f"{self.name} is being read"]

    def notes(self) -> list[str]:
        return [f"the last change of {self.name} was refused; the one before is in force"] if self.refused else []

    def _accept(self, value: Value) -> None:
        counts, warnings = self._put_in_force(value)
        self.refused = False
        self.known.set()
        spare_the_collector()
        self._metrics.reload(self.name, "ok", time.time())
        self._log.event("info", "loaded", source=self.name, **counts)
        for warning in warnings:
            self._log.event("warning", "odd", source=self.name, problem=str(warning))

    def _refuse(self, error: FilesError) -> None:
        self.refused = True
        self._metrics.reload(self.name, "refused", time.time())
        self._log.event("error", "refused", source=self.name, problems=[str(problem) for problem in error.problems])


class QuotaFileInput(FileInput[Value], QuotaInput):
    """Quotas from files."""


class StateFileInput(FileInput[Value], StateInput):
    """A state file. It has no watch that could settle a pending write: the landing window ends it, and then the file
    is believed."""

    def is_believed(self) -> bool:
        """While a change of the file stands refused, pending writes stay."""
        return not self.refused
