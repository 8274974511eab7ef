"""Runs the real gate, ``extauthz serve``, as a process on its own ports."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from extauthz.demo.processes import START_S, Child, page

SERVE = [sys.executable, "-c", "import sys; from extauthz.cli import main; sys.exit(main())", "serve"]
"""The command's entry point, with this very interpreter."""


class Gate:
    """One running gate. A context manager.

    Args:
        quotas: a file or folder, or ``kubernetes``; ``state`` likewise.
        log: its file.
        options: more flags.
        grpc: where it listens, or ``off``. A unix socket is the same after a restart.
        serve: the command, for a test that alters it.
        within_s: bounds each of its starts.
    """

    def __init__(
        self,
        quotas: Path | str,
        state: Path | str,
        log: Path,
        options: Sequence[str] = (),
        *,
        grpc: str = "127.0.0.1:0",
        serve: Sequence[str] = SERVE,
        within_s: float = START_S,
    ) -> None:
        places = ["--quotas", str(quotas), "--state", str(state), "--grpc", grpc, "--http", "127.0.0.1:0"]
        self._command = [*serve, *places, *options]
        self._log, self._within_s = log, within_s
        self._child: Child | None = None
        self.port = 0
        """Of the ext_authz service; 0 if that is a unix socket."""
        self._http = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def start(self) -> None:
        """Starts it, also again; returns once it is ready."""
        before = len(list(self.events("serving"))) if self._log.exists() else 0
        self._child = Child(self._command, self._log)
        serving = self._child.until(
            lambda: next(itertools.islice(self.events("serving"), before, None), None), self._within_s
        )
        port = serving.get("grpc", "").rpartition(":")[2]
        self.port = int(port) if port.isdigit() else 0
        self._http = serving["http"]
        self._child.until(self._ready, self._within_s)

    @property
    def running(self) -> bool:
        """It was started, and not ended from here."""
        return self._child is not None

    @property
    def pid(self) -> int:
        assert self._child is not None, "it is not running"
        return self._child.pid

    def terminate(self) -> int | None:
        """A clean stop. The exit code, ``None`` if it was stopped before."""
        child, self._child = self._child, None
        return child.terminate() if child else None

    def kill(self) -> None:
        child, self._child = self._child, None
        if child:
            child.kill()

    @property
    def holding(self) -> bool:
        """It grants no growth yet, after a start that knew of no clean stop."""
        told = [line["event"] for line in self.lines() if line.get("event") in ("holding", "released")]
        return told[-1:] == ["holding"]

    def lines(self) -> Iterator[dict[str, Any]]:
        """The log so far: decisions and events. It is written some 100 ms late."""
        for line in self._log.read_text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                yield json.loads(line)

    def events(self, event: str) -> Iterator[dict[str, Any]]:
        """Log lines of one kind."""
        return (line for line in self.lines() if line.get("event") == event)

    def metric(self, *series: str) -> float:
        """The sum of series of /metrics, as of one moment; one that is not there is 0."""
        lines = [line.rpartition(" ") for line in self.page("/metrics").splitlines()]
        return sum(float(value) for name, _, value in lines if name in series)

    @property
    def address(self) -> str:
        """The operators' server as a URL, where a browser finds the page."""
        return f"http://{self._http}/"

    def page(self, path: str) -> str:
        """A page of the operators' server: ``/metrics``, ``/readyz``.

        Raises:
            OSError: it does not answer, or not with 200.
        """
        return page(f"http://{self._http}{path}")

    def _ready(self) -> bool | None:
        try:
            return bool(self.page("/readyz")) or None
        except OSError:
            return None
