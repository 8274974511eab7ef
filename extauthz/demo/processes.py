"""Starts and ends the processes that tests and the demo need, each bounded in time."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

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
        return self.log.read_text(errors="replace")[-characters:]


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
