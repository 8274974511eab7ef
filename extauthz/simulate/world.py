"""One simulated world: its clock, API server, gates and clients. ``run`` makes things happen in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from extauthz.core.model import Tree
from extauthz.ledger_store.store import MemoryStore

from .admission import Admission, Around
from .asking import Asking
from .checks import FAILURE, Checks
from .clients import W_S, Client
from .connection import Link, Odds
from .controllers import Controllers
from .judge import Key
from .loop import VirtualLoop
from .member import WRITES_AT_MOST, Handover, Member, Wiring, settings
from .objects import REPLICA_SET, workload_of
from .plan import Plan
from .reference import NAMESPACES, QUOTAS, Odd, ReferenceModel, owner
from .server import ApiServer

FORGETS_S = 4 * W_S + 60.0
"""How long a pending write may live at most, not counted while it is in a handover. Its landing window may begin again
with each gate that sees it first. Then a read ends it, which may have to be tried again."""

HEARD_S = 1.0
"""How long other gates may not know of a write that no quota covers: a quarter of a second, what the ledger's write
takes, and the delay of a watch."""

UNSETTLING = frozenset({"again", "crash", "pause", "partition", "lost", "deleted", "edited", "lag"})
"""Faults after which a refused write may stay in a ledger object for longer than the next write of it, and after which
the ledger may be written late."""


CALM = frozenset(
    {
        "adopted",
        "late",
        "unheard",
        "leaves",
        "cut",
        "ungated",
        "refused-later",
        "webhook-lost",
        "applied",
        "remade",
        "spelled",
    }
)
"""Faults beside which gates see what is stored, and agree, soon."""

SEEN_S = 3.0
"""How soon. A write of a ledger may have to wait for others."""


class World:
    """Everything there is, for one run.

    Args:
        plan: what happens.
        record: folder that its gates record to; ``None``: nothing is recorded.
    """

    def __init__(self, plan: Plan, record: Path | None = None) -> None:
        self.plan = plan
        self.loop = VirtualLoop(self.random("order"))
        self.server = ApiServer()
        self.reference = ReferenceModel(self.server, self.loop.time)
        refused_s = FORGETS_S if plan.faults & UNSETTLING else 2.0
        heard_s = W_S if plan.faults & UNSETTLING else HEARD_S
        told = "not-a-count" if plan.entrances == "envoy" else "left-to-webhook"
        self.checks = Checks(self.reference, FORGETS_S, refused_s, heard_s, told, alone=plan.gates == 1)
        self.server.wrote.append(self._wrote)
        self.controllers = Controllers(self.loop, self.server, self.random("controllers"))
        self.trace: list[str] = []
        self.peace = asyncio.Event()
        """Set once no faults happen any more."""
        asking = Asking(self.loop, self.reference, self.checks, self, self.tell)
        self._turning = asking.turning
        around = Around(self.loop, self.server, self.reference, self.checks, asking, self.tell, self._passed)
        admission = Admission(around, plan.faults, asks=plan.entrances != "envoy", clamps=plan.clamps)
        self.client = Client(self.loop, self.reference, self, asking, admission, plan.entrances)
        self.members: list[Member | None] = [None] * plan.gates
        self.mistake: Exception | None = None
        self._lives = count(1)
        self.dice = self.random("rest")
        ids = count(1)
        self.store = MemoryStore() if plan.ledger == "store" else None
        """The store of the shared ledger, if it is no object of the API server."""
        self._wiring = Wiring(
            self.loop,
            self.server,
            settings(W_S, plan.ledger, "refuse" if plan.entrances == "envoy" else "webhook"),
            self.store,
            lambda: f"d{next(ids):015d}",
            self.tell,
            self._odd,
            self._ahead_s,
            record,
        )
        in_memory = plan.ledger == "memory"
        self._handovers = [
            Handover(self.loop.time, self.checks.stood_still) if in_memory else None for _ in range(plan.gates)
        ]
        self.links = [
            Link(self.random(f"link {one}"), self._odds(), streams_lists=plan.seed % 7 != 0)
            for one in range(plan.gates)
        ]

    def random(self, of: str) -> Random:
        """A random generator for one purpose."""
        return Random(f"{self.plan.seed} {of}")  # noqa: S311 (to be repeated, not to be secret)

    def _odd(self, name: str) -> Odd | None:
        return Odd(self.random(f"policy {name}"), self.peace) if "policies" in self.plan.faults else None

    def _ahead_s(self, name: str) -> float:
        """Clocks are up to 5 s apart."""
        return self.random(f"clock {name[:5]}").uniform(-2.5, 2.5) if "overrides" in self.plan.faults else 0.0

    def turned(self, quota: str) -> None:
        """Another amount holds from now on, and nobody has written anything."""
        self.server.pass_version()
        self.checks.wrote(self.loop.time(), self.server.version, QUOTAS, ("", quota))

    def _odds(self) -> Odds:
        lost = 0.05 if "lost" in self.plan.faults else 0.0
        lags = 0.2 if "lag" in self.plan.faults else 0.0
        return Odds(lost_request=lost, lost_reply=lost, late=lost, slow=lags, refused=lost, lag=lags)

    def tell(self, line: str) -> None:
        """Add to the trace."""
        self.trace.append(f"{self.loop.time():9.4f} {line}")

    def _wrote(self, collection: str, key: Key, before: Tree, after: Tree) -> None:
        self.checks.wrote(self.loop.time(), self.server.version, collection, key)
        if after is None or collection in (QUOTAS, NAMESPACES):
            self._turning.changed()
        if collection == REPLICA_SET.collection:
            owners = {owner(one) for one in (before, after) if one is not None} - {None, workload_of(key)[1]}
            for name in owners:
                self.checks.wrote(self.loop.time(), self.server.version, collection, (key[0], str(name)))

    def _passed(self, decision: str) -> None:
        """A write that the webhook has admitted has landed, or can land no more: a newer version shows it."""
        if self.plan.faults <= CALM:
            self.loop.call_later(SEEN_S, self._must_have_ended, decision)

    def _must_have_ended(self, decision: str) -> None:
        for member in self.live():
            if member.gate.ledger.pending.follows(decision):
                self.checks.broken("ended when seen", f"{member.name} still follows {decision}")

    # Gates.

    def any_gate(self, random: Random) -> Member | None:
        """Choose a gate like a load balancer that has not noticed yet which gates are gone."""
        return random.choice(self.members)

    def start(self, number: int) -> Member:
        """Start a gate."""
        name = f"gate{number}.{next(self._lives)}"
        member = self.members[number] = Member(name, self._wiring, self.links[number], self._handovers[number])
        return member

    def live(self) -> list[Member]:
        """Gates that serve."""
        return [one for one in self.members if one is not None and one.serves and not one.process.stopped]

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run something beside the rest."""

        async def guarded() -> None:
            try:
                await coroutine
            except Exception as error:  # noqa: BLE001 (the simulation's own mistake)
                self.checks.broken("simulation", f"{error!r}")
                self.mistake = error

        self.loop.world.start(guarded())

    def failed(self) -> str | None:
        """What failed inside a gate."""
        for member in self.members:
            if member is not None and member.metrics.writes > WRITES_AT_MOST:
                return f"{member.name} has written ledgers {member.metrics.writes} times"
            if member is None or member.process.ended:
                continue
            if member.odd is not None and member.odd.wrong:
                return f"{member.name}: a policy: {member.odd.wrong}"
            if member.log.failures:
                return f"{member.name}: {member.log.failures[0]}"
            if member.running.done() and not (member.stop.is_set() and member.running.exception() is None):
                return f"{member.name} has ended by itself: {member.running.exception()!r}"
        return next((one for one in self.loop.errors if "never retrieved" in one), None)

    # What goes on.

    def over(self) -> bool:
        """A rule is broken: what comes after that says nothing new."""
        failure = self.failed()
        if failure is not None:
            self.checks.broken(FAILURE, failure)
        return self.checks.found is not None

    async def until(self, what: Callable[[], bool], within_s: float) -> bool:
        until_s = self.loop.time() + within_s
        while not what():
            if self.loop.time() > until_s or self.over():
                return False
            await asyncio.sleep(0.1)
        return True
