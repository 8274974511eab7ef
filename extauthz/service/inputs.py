"""The two inputs, quotas and state: read before the gate serves and followed while it does; the last good one holds."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from extauthz.files.problems import FileProblem, FilesError
from extauthz.files.watch import Watched
from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics

Value = TypeVar("Value")


class Taken(NamedTuple):
    """What came of putting a value in force, for the log."""

    counts: dict[str, object]
    """``{"quotas": 12}``."""
    warnings: Sequence[FileProblem] = ()


class Input(Generic[Value]):
    """One watched file or directory.

    Args:
        name: ``quotas`` or ``state``, as in flags and metrics.
        watched: reads it in a thread, now and after every change.
        put_in_force: takes the value, on the event loop.
    """

    def __init__(
        self,
        name: str,
        watched: Watched[Value],
        put_in_force: Callable[[Value], Taken],
        log: Log,
        metrics: Metrics,
    ) -> None:
        self.name = name
        self.stale = False
        """The last change was refused: what is in force is not what the path holds."""
        self._watched = watched
        self._put_in_force = put_in_force
        self._log = log
        self._metrics = metrics

    async def load(self) -> None:
        """Read it and put it in force.

        Raises:
            FilesError: with everything that is wrong with it.
        """
        self._accept(await asyncio.to_thread(self._watched.load))

    async def follow(self) -> None:
        """Put every good change in force, for ever. What is refused leaves the last good value there."""
        await self._watched.watch(self._accept, self._refuse)

    def _accept(self, value: Value) -> None:
        counts, warnings = self._put_in_force(value)
        self.stale = False
        _spare_the_collector()
        self._metrics.reload(self.name, "ok", time.time())
        self._log.event("info", "loaded", source=self.name, **counts)
        for warning in warnings:
            self._log.event("warning", "odd", source=self.name, problem=str(warning))

    def _refuse(self, error: FilesError) -> None:
        self.stale = True
        self._metrics.reload(self.name, "refused", time.time())
        self._log.event("error", "refused", source=self.name, problems=[str(problem) for problem in error.problems])


def _spare_the_collector() -> None:
    """What was just loaded lives long: without this, each full collection would walk over a million workloads."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
