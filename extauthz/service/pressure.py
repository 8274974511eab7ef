"""The policy ``memory-pressure`` wired: its file, and who looks at the nodes for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from extauthz.core.policies import Enlisted
from extauthz.core.quota.problems import dotted
from extauthz.files import content
from extauthz.files.objects import Placed, objects
from extauthz.files.problems import FileProblem, FilesError
from extauthz.kube import node_memory
from extauthz.kube.calls import Lists
from extauthz.kube.connection import ApiError, Unreachable
from extauthz.observe.log import Log
from extauthz.policies.memory_pressure import MemoryPressure, PoolLevel
from extauthz.policies.names import MEMORY_PRESSURE
from extauthz.policies.pressure_options import PressureOptions, PressureOptionsError, parse
from extauthz.service.inputs import Clock


def load(path: Path) -> PressureOptions:
    """The options of a file. Raises FilesError with everything that is wrong."""
    placed = [one for each in content.read(path) for one in objects(each)]
    if len(placed) > 1:
        raise FilesError([placed[1].problem((), "", "there is a second document", "write all pools in one")])
    try:
        return parse(placed[0].tree)
    except PressureOptionsError as error:
        raise FilesError(list(_located(placed[0], error))) from None


def _located(placed: Placed, error: PressureOptionsError) -> Iterator[FileProblem]:
    for one in error.problems:
        yield placed.problem(one.path, dotted(one.path), one.detail, one.cure)


class Pressure:
    """The policy of one gate. ``run`` is one more task of it."""

    def __init__(self, options: PressureOptions, log: Log, clock: Clock, wall: Clock) -> None:
        self.policy = MemoryPressure(options)
        self.enlisted = Enlisted(MEMORY_PRESSURE, self.policy, options.audits)
        self._options = options
        self._log = log
        self._clock = clock
        self._wall = wall
        self._problem = ""
        """Why nodes could not be read; empty: they could."""
        self._held: frozenset[str] = frozenset()

    async def run(self, lists: Lists) -> None:
        """Look at the nodes for ever. Ends by cancellation."""
        while True:
            await self.look(lists)
            await asyncio.sleep(self._options.every_s)

    async def look(self, lists: Lists) -> None:
        """One round. What cannot be read is tried again in the next one."""
        try:
            nodes = await node_memory.read(lists, self._wall(), self._options.stale_after_s)
        except (ApiError, Unreachable, KeyError, TypeError, ValueError, AttributeError) as error:
            self._tell_problem(str(error) if isinstance(error, ApiError | Unreachable) else repr(error))
            return
        self._tell_problem("")
        for _ in self.policy.looking(nodes, self._clock()):
            await asyncio.sleep(0)
        self._tell_held()

    def levels(self) -> list[PoolLevel]:
        """How all pools stand."""
        return self.policy.levels(self._clock())

    def notes(self) -> list[str]:
        """A note for ``/readyz`` about each pool that nothing is known of."""
        why = f": {self._problem}" if self._problem else ""
        return [f"memory of node pool {one.name} is not known{why}" for one in self.levels() if one.used is None]

    def _tell_problem(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._log.event("warning", "nodes-unread", error=problem)
        self._problem = problem

    def _tell_held(self) -> None:
        levels = self.levels()
        held = frozenset(one.name for one in levels if one.is_held)
        for one in levels:
            if (one.name in held) != (one.name in self._held) and one.used is not None:
                event = "pool-held" if one.is_held else "pool-open"
                self._log.event("info", event, pool=one.name, used=round(one.used, 3), waiting=one.waiting)
        self._held = held


def pressure(path: Path | None, log: Log, clock: Clock, wall: Callable[[], float]) -> Pressure | None:
    """``None``: there is no file. Raises FilesError."""
    return Pressure(load(path), log, clock, wall) if path is not None else None
