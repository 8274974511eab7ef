"""One simulated world: built from its plan, run step by step, brought to rest, and judged."""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from extauthz.ledger_store.memory import MemoryStore
from extauthz.ledger_store.payload import Payload, encode

from . import objects
from .checks import Checks, Violation
from .clients import W_S, Client
from .connection import Link, Odds
from .loop import VirtualLoop
from .member import WRITES_AT_MOST, Handover, Member, Wiring, settings
from .plan import Plan, Step
from .rest import Rest
from .server import ApiServer
from .steps import LEDGER, LEDGERS, TAKEN, key_of
from .truth import DEPLOYMENTS, NAMESPACES, QUOTAS, Truth

FORGETS_S = 4 * W_S + 30.0
"""How long an intent may live at most: its W may begin anew with each gate that sees it first, and what ends it then is
a read, which may have to be tried again."""

UNSETTLING = frozenset({"crash", "pause", "partition", "lost", "deleted", "edited", "lag"})
"""Faults with which a write that was refused may stay in a ledger object for longer than the next one takes."""

READY_WITHIN_S = 90.0


@dataclass(frozen=True)
class Result:
    """How a world went."""

    plan: Plan
    violation: Violation | None
    trace: tuple[str, ...]
    answers: int
    virtual_s: float


class World:
    """Everything there is, for one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = VirtualLoop(self._random("order"))
        self.server = ApiServer()
        self.truth = Truth(self.server)
        refused_s = FORGETS_S if plan.faults & UNSETTLING else 2.0
        self.checks = Checks(self.truth, FORGETS_S, refused_s)
        self.trace: list[str] = []
        self.client = Client(self.loop, self.server, self.truth, self.checks, self, self.tell)
        self.members: list[Member | None] = [None] * plan.gates
        self.mistake: Exception | None = None
        self._lives = count(1)
        self.dice = self._random("rest")
        ids = count(1)
        store = MemoryStore() if plan.ledger == "store" else None
        self._wiring = Wiring(
            self.loop, self.server, settings(W_S, plan.ledger), store, lambda: f"d{next(ids):015d}", self.tell
        )
        self._handovers = [Handover() if plan.ledger == "memory" else None for _ in range(plan.gates)]
        self.links = [
            Link(self._random(f"link {one}"), self._odds(), streams_lists=plan.seed % 7 != 0)
            for one in range(plan.gates)
        ]

    def _random(self, of: str) -> Random:
        return Random(f"{self.plan.seed} {of}")  # noqa: S311 (to be repeated, not to be secret)

    def _odds(self) -> Odds:
        lost = 0.05 if "lost" in self.plan.faults else 0.0
        return Odds(lost, lost, lost, lost, 0.2 if "lag" in self.plan.faults else 0.0)

    def tell(self, line: str) -> None:
        """Add to the trace."""
        self.trace.append(f"{self.loop.time():9.4f} {line}")

    # Gates.

    def any_gate(self, random: Random) -> Member | None:
        """As a load balancer that has not noticed yet which are gone."""
        return random.choice(self.members)

    def start(self, number: int) -> Member:
        """A gate begins a life."""
        name = f"gate{number}.{next(self._lives)}"
        member = self.members[number] = Member(name, self._wiring, self.links[number], self._handovers[number])
        return member

    def live(self) -> list[Member]:
        """Gates that serve."""
        return [one for one in self.members if one is not None and one.serves and not one.process.stopped]

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Something goes on by itself."""

        async def guarded() -> None:
            try:
                await coroutine
            except Exception as error:  # noqa: BLE001 (the simulation's own mistake)
                self.checks.broken("simulation", f"{error!r}")
                self.mistake = error

        self.loop.world.start(guarded())

    def failed(self) -> str | None:
        """What broke inside a gate."""
        for member in self.members:
            if member is not None and member.metrics.writes > WRITES_AT_MOST:
                return f"{member.name} has written ledgers {member.metrics.writes} times"
            if member is None or member.process.ended:
                continue
            if member.log.failures:
                return f"{member.name}: {member.log.failures[0]}"
            if member.running.done() and not (member.stop.is_set() and member.running.exception() is None):
                return f"{member.name} has ended by itself: {member.running.exception()!r}"
        return next((one for one in self.loop.errors if "never retrieved" in one), None)

    # The run.

    async def run(self) -> None:
        """All of it."""
        await self._furnish()
        for number in range(self.plan.gates):
            self.start(number)
        await self.until(lambda: all(one is not None and one.serves for one in self.members), READY_WITHIN_S)
        begin_s = self.loop.time()
        for step in self.plan.steps:
            await asyncio.sleep(max(begin_s + step.at_s - self.loop.time(), 0.0))
            if self.over():
                return
            self._take(step)
        await Rest(self).come()

    def over(self) -> bool:
        """A rule is broken: what comes after it tells nothing new."""
        failure = self.failed()
        if failure is not None:
            self.checks.broken("no failure", failure)
        return self.checks.found is not None

    async def until(self, what: Callable[[], bool], within_s: float) -> bool:
        until_s = self.loop.time() + within_s
        while not what():
            if self.loop.time() > until_s or self.over():
                return False
            await asyncio.sleep(0.1)
        return True

    async def _furnish(self) -> None:
        """What there is at the start, with ledgers that are old in most worlds: new ones let nothing grow for W."""
        self.server.wrote.append(lambda where, key, _, after: self.checks.wrote(self.loop.time(), where, key, after))
        for name in ("shop", "lab", "zoo"):
            self._post(NAMESPACES, objects.namespace(name))
        for one in self.plan.quotas:
            self._post(QUOTAS, objects.quota(one["name"], one["hard"], one))
        for workload in self.plan.workloads:
            self._post(DEPLOYMENTS, objects.deployment(key_of(workload), 1, "1"))
        if self.plan.ledger != "memory" and self.plan.seed % 8:
            await self._furnish_ledger(encode(Payload(holds=False)))
        self.checks.begins()

    async def _furnish_ledger(self, payload: str) -> None:
        if self._wiring.store is not None:
            await self._wiring.store.put(payload, 0, None)
        else:
            self._post(LEDGERS, {"metadata": {"name": LEDGER}, "spec": {"payload": payload, "intents": 0}})

    def _post(self, collection: str, tree: Any) -> None:  # noqa: ANN401
        namespace = tree["metadata"].get("namespace")
        path = collection if namespace is None else _within(collection, namespace)
        self.server.request("POST", path, {}, tree)

    def _take(self, step: Step) -> None:
        self.tell(str(step))
        TAKEN[step.what](self, step, self._random(f"step {step.number}"))


def _within(collection: str, namespace: str) -> str:
    root, plural = collection.rsplit("/", 1)
    return f"{root}/namespaces/{namespace}/{plural}"


def run(plan: Plan) -> Result:
    """Run a plan to its end, or to the first rule that is broken."""
    before = chance.getstate()
    chance.seed(plan.seed)  # backoff and watch lengths draw from there
    world = World(plan)
    try:
        world.loop.run(world.run())
    finally:
        chance.setstate(before)
    if world.mistake is not None:
        raise world.mistake
    return Result(plan, world.checks.found, tuple(world.trace), world.checks.checked, world.loop.time())
