"""A coroutine in a thread of its own, for stand-ins that run beside blocking tests."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

STOP_S = 10.0


class Background:
    """Runs ``main`` from enter to exit. A context manager; what ``main`` raised is raised again at the exit."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None

    async def main(self) -> None:
        """What runs; ended by cancellation. It calls ``started`` once it can be used."""
        raise NotImplementedError

    def started(self) -> None:
        self._started.set()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(STOP_S) or self._error:
            raise RuntimeError(f"{self._thread.name} did not start") from self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), f"{self._thread.name} does not stop"
        self._loop.close()
        if self._error is not None and error is None:
            raise self._error

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self.main())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 (handed to whoever waits)
            self._error = error
        finally:
            self._started.set()
