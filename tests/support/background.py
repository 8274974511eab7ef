"""A coroutine in a thread of its own, for stand-ins that run beside blocking tests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self

STOP_S = 10.0
LAST_S = 0.25
"""aiohttp closes TLS connections a moment later (its documentation, "Graceful Shutdown")."""


class Background:
    """Runs ``main`` from enter to exit. A context manager; what ``main`` raised is raised again at the exit."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._error: Exception | None = None

    async def main(self) -> None:
        """What runs; ended by cancellation. It calls ``started`` once it can be used."""
        raise NotImplementedError

    def started(self) -> None:
        """``main`` can be used."""
        self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(STOP_S) or self._error:
            raise RuntimeError(f"{self._thread.name} did not start") from self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), f"{self._thread.name} does not stop"
        if self._error is not None and error is None:
            raise self._error

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError), asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            runner.run(self._guarded())

    async def _guarded(self) -> None:
        self._task = asyncio.current_task()
        try:
            await self.main()
        except Exception as error:  # noqa: BLE001 (handed to whoever waits)
            self._error = error
        finally:
            self._ready.set()
            await asyncio.sleep(LAST_S)
