"""One gate of the simulated world: the real parts, wired as ``extauthz.service`` wires them, on the virtual clock."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from extauthz.cluster.live import LiveCluster
from extauthz.cluster.reads import ConsistentReads
from extauthz.cluster.sinks import Troubles
from extauthz.core.decision.gate import Gate
from extauthz.core.decision.policy import Policy
from extauthz.core.ledger.intents import Event
from extauthz.core.model import Decision, Request, Verdict
from extauthz.service.deciding import Deciding
from extauthz.service.sharing import Together
from extauthz.shared.committing import Committer
from extauthz.shared.kubernetes import KubernetesStore
from extauthz.shared.store import LedgerStore
from extauthz.sources.kubernetes import LiveQuotas, Quotas

from .connection import Link, SimulatedConnection
from .loop import VirtualLoop
from .server import ApiServer

STALE_AFTER_S = 6.0
TICK_S = 1.0

WRITES_AT_MOST = 3000
"""Of ledgers, by one life of a gate: some hundreds are usual. Who writes without end is stopped here."""

Records = Sequence[Mapping[str, object]]

NOT_SERVING = Decision("", Verdict.UNAVAILABLE, "not-serving", "the gate has not opened its doors yet")


@dataclass(frozen=True)
class Wiring:
    """What all gates of a world have in common."""

    loop: VirtualLoop
    server: ApiServer
    window_s: float
    ledger: str
    """``memory``: one gate by itself. ``store``: shared, in memory. ``kubernetes``: shared, in the API server."""
    store: LedgerStore | None
    """The one of ``store``."""
    ids: Callable[[], str]
    tell: Callable[[str], None]
    """A line for the trace."""


class Unheard:
    """Takes the place of metrics and log."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self._name = name
        self._tell = tell
        self.failures: list[str] = []

    def decision(self, *what: object) -> None:
        """One more decision."""

    def event(self, level: str, event: str, **fields: Any) -> None:  # noqa: ANN401
        """A line of the log. What failed inside is a finding."""
        if level == "error":
            self.failures.append(f"{event} {fields}")
        self._tell(f"{self._name}: {event} {' '.join(f'{key}={value}' for key, value in fields.items())}")


class Member:
    """One life of one gate, from its start to its end."""

    def __init__(self, name: str, wiring: Wiring, link: Link, handed_over: Records | None) -> None:
        self.name = name
        self.process = wiring.loop.process(name)
        self.serves = False
        self.holds = False
        """It does not know what an earlier life has allowed."""
        self.gate = Gate(Policy(window_s=wiring.window_s))
        self.log = Unheard(name, wiring.tell)
        self.writes = 0
        """Of ledger objects, whatever came of them."""
        self._wiring = wiring
        self._loop = loop = wiring.loop
        self._handed_over = handed_over
        self._connection = SimulatedConnection(wiring.server, link, loop)
        self._quotas_known = asyncio.Event()
        self._quotas = LiveQuotas(self._connection, self._accept, clock=loop.time)
        self._cluster = LiveCluster(
            self._connection, self.gate, Troubles(self._bad), look=lambda ref: self._reads.soon(ref), clock=loop.time
        )
        self._reads = ConsistentReads(self._connection, self.gate, self._cluster, lambda *read: None, loop.time)
        self.committer = self._committer()
        self._deciding = Deciding(
            self.gate,
            cast(Any, self.log),
            cast(Any, self.log),
            self._look,
            commit=self.committer.commit if self.committer is not None else None,
            clock=loop.time,
            ids=wiring.ids,
        )
        self.process.on_end.append(self._unplug)
        self.running = self.process.start(self._run(link))

    def _committer(self) -> Committer | None:
        wiring, clock = self._wiring, self._loop.time
        if wiring.ledger == "memory":
            return None
        store = wiring.store if wiring.store is not None else KubernetesStore(self._connection, clock)
        progress = Together((self._quotas, self._cluster))
        list_anew = self._cluster.list_anew
        return Committer(
            self.gate,
            store,
            progress,
            wiring.window_s,
            clock,
            look=self._reads.read_anew,
            list_anew=list_anew,
            wrote=self._wrote,
            tell=self.log.event,
        )

    def _wrote(self, result: str, grants: int) -> None:
        self.writes += 1
        if self.writes > WRITES_AT_MOST:  # it would go on for ever, and no time pass
            self.process.ends_at = self.process.steps

    def _unplug(self) -> None:
        """The process ends: nothing that it still does reaches anybody."""
        self.serves = False
        self._connection.close()

    # As in service/app.py.

    async def _run(self, link: Link) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._quotas.run())
            group.create_task(self._cluster.run())
            if self.committer is not None:
                group.create_task(self.committer.run())
            group.create_task(self._tick())
            await self._quotas_known.wait()
            await self._cluster.synced.wait()
            group.create_task(self._reads.run())
            if self.committer is not None:
                await self.committer.known.wait()
            elif self._handed_over is not None:
                self.gate.import_intents(self._handed_over, self._loop.time())
            else:
                until_s = self._loop.time() + self._wiring.window_s
                self.holds = True
                self.gate.hold(until_s)
                group.create_task(self._release(until_s))
            self.serves = True

    async def _release(self, until_s: float) -> None:
        """As ``service.holding.Holding.release``."""
        await asyncio.sleep(until_s - self._loop.time())
        await self._cluster.list_anew()
        self.gate.release()
        self.holds = False

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.gate.tick(self._loop.time())
            self.gate.stale(self._stale())

    def _stale(self) -> str | None:
        now_s = self._loop.time()
        ages = [(one.resource, one.age_s) for one in self._cluster.watches() if one.synced]
        if self._quotas.reflector.synced:
            ages.append(("quotas", now_s - self._quotas.reflector.last_heard_s))
        old = [resource for resource, age_s in ages if age_s > STALE_AFTER_S]
        return f"nothing was heard of {old[0]}" if old else None

    def unwell(self) -> list[str]:
        """Why it grants nothing for now."""
        why = [self._stale() or ""] + (self.committer.notes() if self.committer is not None else [])
        return [f"{self.name}: {one}" for one in why if one]

    def _accept(self, quotas: Quotas) -> None:
        self.gate.load_quotas(quotas.tree, self._loop.time())
        self._quotas_known.set()

    def _bad(self, resource: object, name: str, why: str) -> None:
        self.log.event("error", "unreadable-object", resource=resource, name=name, why=why)

    # What others ask of it.

    async def _look(self, ref: Any) -> None:  # noqa: ANN401
        await self._reads.look(ref)

    async def check(self, request: Request) -> Decision:
        """As the ext_authz door."""
        if not self.serves:
            return NOT_SERVING
        answer = self._deciding(request)
        return await answer if inspect.isawaitable(answer) else answer

    def answered(self, decision_id: str, event: Event) -> None:
        """As the access-log door."""
        ref = self.gate.settle(decision_id, event, self._loop.time())
        if ref is not None:
            self._reads.soon(ref)

    def hand_over(self) -> Records:
        """Stop serving; what the next life takes over."""
        self.serves = False
        return self.gate.export_intents(self._loop.time())
