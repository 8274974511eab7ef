"""The gate's two inputs, quotas and state: read before it serves and followed while it does; the last good one rules."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Generic, TypeVar

from extauthz.observe.log import Log
from extauthz.observe.metrics import Metrics

T = TypeVar("T")


class InputError(Exception):
    """An input cannot be used. One line a problem: file, line, field and cure."""


class Input(Generic[T]):
    """One watched file or directory.

    Args:
        name: ``quotas`` or ``state``, as in flags and metrics.
        path: what is read.
        read: makes the value of the path, in a thread; raises InputError.
        put_in_force: takes the value, on the event loop.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        read: Callable[[Path], T],
        put_in_force: Callable[[T], str],
        log: Log,
        metrics: Metrics,
    ) -> None:
        self.name = name
        self.path = path
        self.fresh = False
        """What is in force is what the path holds: no change of it was refused since."""
        self._read = read
        self._put_in_force = put_in_force
        self._log = log
        self._metrics = metrics

    async def load(self) -> None:
        """Read it once more and put it in force.

        Raises:
            InputError: nothing has changed but ``fresh``, the metric and the log.
        """
        started = time.monotonic()
        try:
            value = await asyncio.to_thread(self._read, self.path)
        except InputError as error:
            self.fresh = False
            self._metrics.reload(self.name, "refused", time.time())
            self._log.event(
                "error", "refused", source=self.name, path=str(self.path), problems=str(error).splitlines()
            )
            raise
        summary = self._put_in_force(value)
        self.fresh = True
        _spare_the_collector()
        self._metrics.reload(self.name, "ok", time.time())
        seconds = round(time.monotonic() - started, 3)
        self._log.event("info", "loaded", source=self.name, path=str(self.path), summary=summary, seconds=seconds)

    async def follow(self, changes: AsyncIterator[object]) -> None:
        """Load at every change, for ever. What is refused leaves the last good value in force."""
        async for _ in changes:
            try:
                await self.load()
            except InputError:
                continue


def _spare_the_collector() -> None:
    """What was just loaded lives long: without this, each full collection would walk over a million workloads."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
