"""What all simulated worlds have: a clock, an API server, gates that live and die, and a trace."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from itertools import count
from random import Random
from typing import Any, Protocol

from tests.worlds.connection import Link, Odds
from tests.worlds.loop import VirtualLoop
from tests.worlds.member import Member, Wiring
from tests.worlds.plan import Step
from tests.worlds.server import ApiServer

READY_WITHIN_S = 90.0


class Planned(Protocol):
    """What follows from a seed."""

    @property
    def seed(self) -> int:
        """The one."""

    @property
    def gates(self) -> int:
        """How many."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """What happens."""

    @property
    def faults(self) -> frozenset[str]:
        """What may go wrong."""


class Ground(ABC):
    """A world, for one run. Its rules, and what happens in it, are its own."""

    wiring: Wiring

    def __init__(self, planned: Planned, *, streams_lists: bool = True) -> None:
        self._planned = planned
        self.loop = VirtualLoop(self.random("order"))
        self.server = ApiServer()
        self.trace: list[str] = []
        self.mistake: Exception | None = None
        """The simulation's own."""
        self.under_way = 0
        """Of what was spawned."""
        self.members: list[Member | None] = [None] * planned.gates
        self.links = [
            Link(self.random(f"link {one}"), self._odds(), streams_lists=streams_lists) for one in range(planned.gates)
        ]
        self._lives, self._ids = count(1), count(1)

    def random(self, of: str) -> Random:
        """A random generator for one purpose."""
        return Random(f"{self._planned.seed} {of}")

    def _odds(self) -> Odds:
        lost = 0.05 if "lost" in self._planned.faults else 0.0
        lags = 0.2 if "lag" in self._planned.faults else 0.0
        return Odds(lost_request=lost, lost_reply=lost, late=lost, slow=lags, refused=lost, lag=lags)

    def next_id(self) -> str:
        """Of a decision."""
        return f"d{next(self._ids):015d}"

    def tell(self, line: str) -> None:
        """Add to the trace."""
        self.trace.append(f"{self.loop.time():9.4f} {line}")

    @abstractmethod
    def broken(self, rule: str, what: str) -> None:
        """A rule is broken. The first one is kept."""

    @abstractmethod
    def over(self) -> bool:
        """A rule is broken: what comes after that says nothing new."""

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run something beside the rest."""

        async def guarded() -> None:
            self.under_way += 1
            try:
                await coroutine
            except Exception as error:  # noqa: BLE001 (the simulation's own mistake)
                self.broken("simulation", f"{error!r}")
                self.mistake = error
            finally:
                self.under_way -= 1

        self.loop.world.start(guarded())

    async def until(self, what: Callable[[], bool], within_s: float) -> bool:
        until_s = self.loop.time() + within_s
        while not what():
            if self.loop.time() > until_s or self.over():
                return False
            await asyncio.sleep(0.1)
        return True

    # Gates.

    def any_gate(self, random: Random) -> Member | None:
        """Choose a gate like a load balancer that has not noticed yet which gates are gone."""
        return random.choice(self.members)

    def start(self, number: int, link: Link | None = None) -> Member:
        """Start a gate; one with a ``link`` of its own is one more."""
        name = f"gate{number}.{next(self._lives)}"
        if link is not None:
            return Member(name, self.wiring, link)
        is_first = self.members[number] is None
        member = self.members[number] = Member(name, self.wiring, self.links[number], is_first=is_first)
        return member

    async def start_all(self) -> None:
        """Until all serve."""
        for number in range(self._planned.gates):
            self.start(number)
        await self.until(lambda: all(one is not None and one.serves for one in self.members), READY_WITHIN_S)

    def kill(self, number: int, member: Member | None, after: int, for_s: float) -> None:
        """One life of a gate ends after so many callbacks. The gate is started again after so long."""
        if member is None or member.process.ended or member.process.ends_at is not None:
            return

        def died() -> None:
            self.tell(f"{member.name} was killed")
            self.loop.call_later(for_s, self.start, number)

        member.process.ends_at = member.process.steps + after
        member.process.on_end.append(died)

    def heal(self) -> None:
        """Faults stop."""
        for link in self.links:
            link.heal()
        for member in self.members:
            if member is not None:
                member.process.ends_at = None

    async def live(self, take: Callable[[Step], None]) -> bool:
        """Start all gates, and take each step in its time. False: a rule is broken before the end."""
        await self.start_all()
        begin_s = self.loop.time()
        for step in self._planned.steps:
            await asyncio.sleep(max(begin_s + step.at_s - self.loop.time(), 0.0))
            if self.over():
                return False
            self.tell(str(step))
            take(step)
        return True
