"""The marker ``containers``: a test of docker-compose.yml is skipped loudly where images or an engine are missing.

With ``containers`` in ``EXTAUTHZ_REQUIRE`` it fails instead.
"""

from __future__ import annotations

import functools
import os

import pytest

from tests.compose import engine, prepare, standins

MARK = "containers"
REQUIRED = MARK in os.environ.get("EXTAUTHZ_REQUIRE", "").replace(",", " ").split()
"""Read when this is imported: ``tests/controlplane/marker.py`` takes the variable out of the environment."""

_SKIPPED = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is set up."""
    if item.get_closest_marker(MARK) is None or not (reason := missing()):
        return
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    item.config.stash.setdefault(_SKIPPED, []).append(item.nodeid)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What did not run must not look like what passed."""
    if tests := config.stash.get(_SKIPPED, []):
        terminalreporter.write_line(f"NOT TESTED, {len(tests)} tests: {missing()}", yellow=True, bold=True)


@functools.cache
def missing() -> str:
    """What is not here, with the cure; empty if all is."""
    if reason := engine.missing():
        return reason
    absent = [image for image in (*standins.wanted(), *prepare.OWN) if not engine.has(engine.official(image))]
    return f"images are not here ({', '.join(absent)}): {engine.CURE}" if absent else ""
