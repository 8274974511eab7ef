"""A test that ran out of time runs once more, alone, at the end of the run, and is named. A plugin of pytest.

Tests of real parts wait for other processes, and a busy machine is slow. Their waits say so by a type. Whatever else
fails is never run again: a failed assertion is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from extauthz.demo.processes import SlowStartError
from tests.waiting import OutOfTimeError

OUT_OF_TIME: Final = "ran out of time"
AGAIN: Final = "well once alone"
"""Tests that only ran out of time, and passed when they ran again."""

MOST: Final = 10
"""No more run again: then it is not one slow moment."""

_SECOND_RUN: Final = "SECOND_RUN"
_ENVIRONMENT: Final = dict(os.environ)
"""Before other plugins take out what is theirs."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed and call.excinfo is not None and _ran_out(call.excinfo.value):
        report.user_properties.append((OUT_OF_TIME, True))
    return report  # type: ignore[return-value]


def _ran_out(error: BaseException) -> bool:
    """Whether that is all that went wrong, in a group of tasks too."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_ran_out, error.exceptions))
    return isinstance(error, OutOfTimeError | SlowStartError)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Before the summary. Where tests run side by side, the others have no terminal."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput") or _SECOND_RUN in _ENVIRONMENT:
        return
    failed = [report for kind in ("failed", "error") for report in reporter.getreports(kind)]
    late = {one.nodeid for one in failed} - {one.nodeid for one in failed if not _is_late(one)}
    if not 0 < len(late) <= MOST:
        return
    reporter.ensure_newline()
    well = [one for one in sorted(late) if _runs_well(session.config, one)]
    for kind in ("failed", "error"):
        reporter.stats[kind] = [one for one in reporter.getreports(kind) if one.nodeid not in well]
    reporter.stats[AGAIN] = [one for one in failed if one.nodeid in well]
    if session.exitstatus == pytest.ExitCode.TESTS_FAILED and len(well) == len({one.nodeid for one in failed}):
        session.exitstatus = pytest.ExitCode.OK


def _is_late(report: pytest.TestReport) -> bool:
    return any(name == OUT_OF_TIME for name, _ in getattr(report, "user_properties", ()))  # one of collecting has none


def _runs_well(config: pytest.Config, test: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "--no-summary", test]
    return (
        subprocess.run(command, cwd=config.rootpath, env={**_ENVIRONMENT, _SECOND_RUN: "1"}, check=False).returncode
        == 0
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports(AGAIN):
        terminalreporter.write_line(f"OUT OF TIME, and {AGAIN}: {report.nodeid}", yellow=True, bold=True)
