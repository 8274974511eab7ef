"""Starts and ends the processes that tests and the demo need, each bounded in time."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

START_S = 30.0
"""Bounds every start. Generous: a busy machine is no failure."""


_SETPRIV = shutil.which("setpriv")
_WITH_PARENT = [_SETPRIV, "--pdeathsig", "TERM", "--"] if _SETPRIV else []
"""util-linux: the child ends with the thread that started it (``PR_SET_PDEATHSIG``), also where that one was killed."""


class StartError(Exception):
    """A process ended, or did not get ready in time. The message holds the end of its log."""


class SlowStartError(StartError):
    """It did not get ready in time."""


class Child:
    """One child process with its output in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self._name = Path(command[0]).name
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*_WITH_PARENT, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def until(self, ready: Callable[[], T | None], within_s: float = START_S) -> T:
        """Polls until ``ready`` has something to return.

        Raises:
            StartError: the process ended, or (``SlowStartError``) time is up.
        """
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise StartError(f"{self._name} ended with {self._process.returncode}: {self.tail()}")
            result = ready()
            if result is not None:
                return result
            time.sleep(0.02)
        self.kill()
        raise SlowStartError(f"{self._name} was not ready within {within_s:.0f} s: {self.tail()}")

    def terminate(self) -> int:
        """SIGTERM, then SIGKILL if it does not help. The exit code."""
        self._process.terminate()
        try:
            return self._process.wait(10)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL: no goodbye to anyone."""
        self._process.kill()
        return self._process.wait(10)

    def tail(self, characters: int = 4000) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-characters:]


# A coroutine in a thread of its own, for stand-ins that run beside blocking tests.


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


# Fetches a page over HTTP.


def page(url: str, *, within_s: float = 5.0, context: ssl.SSLContext | None = None) -> str:
    """Its text.

    Args:
        within_s: how long the server may say nothing.
        context: for https.

    Raises:
        OSError: it does not answer, or not with 200: an ``HTTPError``, which is closed and has no body any more.
    """
    try:
        with urllib.request.urlopen(url, timeout=within_s, context=context) as answer:
            return bytes(answer.read()).decode()
    except urllib.error.HTTPError as error:
        error.close()  # it is also the answer, and open
        raise
