"""The last line of a run: what was tested, what was not, and which command has it tested. A plugin of pytest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest

from tests.again import AGAIN
from tests.controlplane.marker import NOT_TESTED

TARGET = re.compile(r"run `make ([a-z-]+)`")
REQUIRED = re.compile(r"EXTAUTHZ_REQUIRE=(\w+)")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Below the line that pytest itself ends with. Where tests run side by side, the others have no terminal."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or session.config.option.collectonly:
        return
    passed, failed = (
        len(reporter.getreports("passed")) + len(reporter.getreports(AGAIN)),
        sum(len(reporter.getreports(each)) for each in ("failed", "error")),
    )
    reporter.write_line(closing(passed, failed, [*map(reasons, reporter.getreports("skipped"))]), bold=True)


def reasons(report: pytest.TestReport) -> list[str]:
    """Why a test was left out, with the cures; empty if nothing would have it tested here."""
    return [str(reason) for name, reason in report.user_properties if name == NOT_TESTED]


def closing(passed: int, failed: int, left_out: list[list[str]]) -> str:
    """The line."""
    tested = f"Tested: {passed + failed:,}, {f'{failed:,} of them red' if failed else 'all well'}."
    if not left_out:
        return f"{tested} Nothing was left out."
    whys = [why for each in left_out for why in each]
    targets = _named(TARGET, whys)
    required = _named(REQUIRED, whys)
    command = " ".join([*([f"EXTAUTHZ_REQUIRE={','.join(required)}"] if required else []), "make", *targets, "test"])
    cured = sum(any(TARGET.search(why) or REQUIRED.search(why) for why in each) for each in left_out)
    line = f"{tested} Not tested: {len(left_out):,}."
    if cured == len(left_out):
        return f"{line} `{command}` has them tested."
    return f"{line} `{command}` has {cured:,} of them tested." if cured else line


def _named(pattern: re.Pattern[str], whys: Iterable[str]) -> list[str]:
    """What the sentences name, each once."""
    return list(dict.fromkeys(name for why in whys for name in pattern.findall(why)))
