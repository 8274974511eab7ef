"""The policy as the gate runs it: its file, and the looks at the nodes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from extauthz.core.quota.problems import dotted
from extauthz.inputs.files import content
from extauthz.inputs.files.content import FileProblem, FilesError
from extauthz.inputs.files.objects import Placed, objects
from extauthz.inputs.kube.connection import ApiError, Unreachable
from extauthz.inputs.policies import Host, LivePolicy

from . import nodes
from .options import STALE_AFTER_S, PressureOptions, PressureOptionsError, parse
from .policy import MemoryPressure, PoolLevel

FILE: Final = "MEMORY_PRESSURE_FILE"
"""The variable that names the file with the pools."""


class WatchedMemory(MemoryPressure, LivePolicy):
    """The policy of one gate, which looks at the nodes itself."""

    def __init__(self, options: PressureOptions) -> None:
        super().__init__(options)
        self._host: Host | None = None
        """``None``: the gate does not run yet."""
        self._problem = ""
        """Why nodes could not be read; empty: they could."""
        self._held: frozenset[str] = frozenset()

    async def run(self, host: Host) -> None:
        """Look at the nodes for ever. Ends by cancellation."""
        self._host = host
        while True:
            await self.look_at_nodes(host)
            await asyncio.sleep(self._options.every_s)

    async def look_at_nodes(self, host: Host) -> None:
        """One round. What cannot be read is tried again in the next one."""
        self._host = host
        if host.lists is None:
            self._tell_problem(host, "the gate reads no cluster; set state: kubernetes")
            return
        try:
            found = await nodes.read(host.lists, host.wall(), STALE_AFTER_S)
        except (ApiError, Unreachable, KeyError, TypeError, ValueError, AttributeError) as error:
            self._tell_problem(host, str(error) if isinstance(error, ApiError | Unreachable) else repr(error))
            return
        self._tell_problem(host, "")
        for _ in self.looking(found, host.clock()):
            await asyncio.sleep(0)
        self._tell_held(host)

    def notes(self) -> list[str]:
        """A note about each pool that nothing is known of."""
        why = f": {self._problem}" if self._problem else ""
        return [f"memory of node pool {one.name} is not known{why}" for one in self._now() if one.used is None]

    def levels(self) -> Mapping[tuple[str, str], float]:
        """``used`` (a part of 1, no value while it is not known), ``held`` (0 or 1) and ``waiting``, of each pool."""
        pools = self._now()
        used = {("used", one.name): one.used for one in pools if one.used is not None}
        held = {("held", one.name): float(one.is_held) for one in pools}
        return used | held | {("waiting", one.name): float(one.waiting) for one in pools}

    def _now(self) -> list[PoolLevel]:
        return self.pools(self._host.clock() if self._host is not None else 0.0)

    def _tell_problem(self, host: Host, problem: str) -> None:
        if problem and problem != self._problem:
            host.event("warning", "nodes-unread", error=problem)
        self._problem = problem

    def _tell_held(self, host: Host) -> None:
        pools = self._now()
        held = frozenset(one.name for one in pools if one.is_held)
        for one in pools:
            if (one.name in held) != (one.name in self._held) and one.used is not None:
                event = "pool-held" if one.is_held else "pool-open"
                host.event("info", event, pool=one.name, used=round(one.used, 3), waiting=one.waiting)
        self._held = held


def from_environment(environment: Mapping[str, str] = os.environ) -> WatchedMemory:
    """What the entry point names: the gate calls it once, without arguments. Raises FilesError."""
    path = environment.get(FILE, "")
    if not path:
        raise FilesError([FileProblem(FILE, None, "", "is not set", "name the file with the pools of nodes")])
    return WatchedMemory(load(Path(path)))


def load(path: Path) -> PressureOptions:
    """The options of a file. Raises FilesError with everything that is wrong."""
    placed, problems = objects(content.read(path))
    if problems:
        raise FilesError(problems)
    if len(placed) != 1:
        raise FilesError([_one_object(path, placed)])
    try:
        return parse(placed[0].tree)
    except PressureOptionsError as error:
        raise FilesError(list(_located(placed[0], error))) from None


def _one_object(path: Path, placed: list[Placed]) -> FileProblem:
    if not placed:
        return FileProblem(
            str(path), None, "", "there is nothing in it", "write pools: [{name: all, nodeSelector: {}}]"
        )
    return placed[1].problem((), "", "there is a second document", "write all pools in one")


def _located(placed: Placed, error: PressureOptionsError) -> Iterator[FileProblem]:
    for one in error.problems:
        yield placed.problem(one.path, dotted(one.path), one.detail, one.cure)
