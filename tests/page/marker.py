"""The marker ``chromium``: a test in a real browser is skipped loudly where there is none.

With ``chromium`` in ``EXTAUTHZ_REQUIRE`` it fails instead.
"""

from __future__ import annotations

import os

import pytest

from tests.page import chromium

MARK = "chromium"
REQUIRED = MARK in os.environ.get("EXTAUTHZ_REQUIRE", "").replace(",", " ").split()
"""Read when this is imported: ``tests/controlplane/marker.py`` takes the variable out of the environment."""

_SKIPPED = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is set up."""
    if item.get_closest_marker(MARK) is None or not (reason := chromium.missing()):
        return
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    item.config.stash.setdefault(_SKIPPED, []).append(item.nodeid)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What did not run must not look like what passed."""
    if tests := config.stash.get(_SKIPPED, []):
        terminalreporter.write_line(f"NOT TESTED, {len(tests)} tests: {chromium.missing()}", yellow=True, bold=True)
