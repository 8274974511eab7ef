"""Tries mutants in one pytest session: tests are collected once, and each mutant runs in a fork that has its code.

Only those tests run that run its lines, the fast ones first. Used by ``tests.mutants``; told by a JSON file, tells by
lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pytest
from coverage import Coverage

from tests.mutants.swap import swap

ROOT = Path(__file__).parents[2]
SLACK_S = 20.0
SURVIVED, KILLED, NOT_TRIED, BROKEN = range(4)
"""What a fork ends with."""
NAMES = {SURVIVED: "survived", KILLED: "tests", NOT_TRIED: "not-tried", BROKEN: "not-tried"}


class Measured(NamedTuple):
    """What the tests do where nothing is changed."""

    seconds: dict[str, float]
    """Of each test."""
    by_line: dict[str, dict[str, list[str]]]
    """Tests that run a line of a file."""
    failed: str = ""

    def chosen(self, items: list[pytest.Item], mutant: dict[str, Any]) -> list[pytest.Item]:
        """Those that run its lines; all where none is seen to: lines of a long expression are not told apart."""
        lines = self.by_line.get(str(ROOT / mutant["path"]), {})
        names = {name for line in range(mutant["line"], mutant["last"] + 1) for name in lines.get(str(line), ())}
        chosen = [item for item in items if item.nodeid in names] or items
        return sorted(chosen, key=lambda item: self.seconds[item.nodeid])

    def limit_s(self, item: pytest.Item) -> int:
        """How long a test may take where something is changed: else one that waits for ever would hold up all."""
        return int(3 * self.seconds[item.nodeid] + SLACK_S)


class Trying:
    """A plugin of pytest."""

    def __init__(self, folder: Path, files: Iterable[str], mutants: Sequence[dict[str, Any]], jobs: int, to: TextIO):
        self._folder = folder
        self._files = sorted(set(files))
        self._mutants = mutants
        self._jobs = jobs
        self._to = to
        self._failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = f"{report.nodeid}\n{report.longreprtext}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        found = self._folder / "measured.json"
        pid = _fork(lambda: self._measure(session.items, found))
        _, status = os.waitpid(pid, 0)
        measured = Measured(*json.loads(found.read_text())) if status == 0 else Measured({}, {}, "they ended")
        if measured.failed:
            self._tell(failed=measured.failed)
        else:
            self._try_all(session.items, measured)
        return True

    def _tell(self, **what: object) -> None:
        print(json.dumps(what), file=self._to, flush=True)

    def _measure(self, items: list[pytest.Item], to: Path) -> int:
        """Which tests run which line, and how long each takes."""
        coverage = Coverage(data_file=None, config_file=False, branch=False, include=self._files)
        coverage.start()
        seconds = {}
        for item, after in zip(items, [*items[1:], None], strict=True):
            coverage.switch_context(item.nodeid)
            began_s = time.monotonic()
            self._run(item, after)
            seconds[item.nodeid] = time.monotonic() - began_s
        coverage.stop()
        data = coverage.get_data()
        by_line = {file: data.contexts_by_lineno(file) for file in data.measured_files()}
        to.write_text(json.dumps(Measured(seconds, by_line, self._failed)))
        return 0

    def _run(self, item: pytest.Item, after: pytest.Item | None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)

    def _try_all(self, items: list[pytest.Item], measured: Measured) -> None:
        under_way: dict[int, int] = {}
        for number, mutant in enumerate(self._mutants):
            if len(under_way) == self._jobs:
                self._wait(under_way)
            under_way[_fork(lambda one=mutant: self._try(one, items, measured))] = number
        while under_way:
            self._wait(under_way)

    def _wait(self, under_way: dict[int, int]) -> None:
        pid, status = os.wait()
        _end_group(pid)
        code = os.waitstatus_to_exitcode(status)
        self._tell(number=under_way.pop(pid), fate="timeout" if code == -signal.SIGALRM else NAMES.get(code, "tests"))

    def _try(self, mutant: dict[str, Any], items: list[pytest.Item], measured: Measured) -> int:
        if not swap(ROOT / mutant["path"], mutant["before"], mutant["after"]):
            return NOT_TRIED
        chosen = measured.chosen(items, mutant)
        for item, after in zip(chosen, [*chosen[1:], None], strict=True):
            signal.alarm(measured.limit_s(item))
            self._run(item, after)
            if self._failed:
                return KILLED
        return SURVIVED


def _fork(what: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        code = KILLED
        try:
            code = what()
        finally:
            os._exit(code)
    return pid


def _end_group(pid: int) -> None:
    """Servers that a test had started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def main(told: str, descriptor: str) -> None:
    wanted = json.loads(Path(told).read_text())
    folder = Path(told).parent
    files = [str(ROOT / one["path"]) for one in wanted["mutants"]]
    with os.fdopen(int(descriptor), "w") as to:
        plugin = Trying(folder, files, wanted["mutants"], wanted["jobs"], to)
        flags = ["-s", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'tests'}"]
        pytest.main([*flags, *wanted["tests"]], plugins=[plugin])


if __name__ == "__main__":
    main(*sys.argv[1:])
