"""The marker ``containers``: a test of docker-compose.yml is skipped loudly where images or an engine are missing.

With ``containers`` in ``EXTAUTHZ_REQUIRE`` it fails instead.
"""

from __future__ import annotations

import functools

import pytest

from tests.compose import engine, prepare, standins
from tests.controlplane.marker import asked_for, skip

MARK = "containers"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is set up."""
    if item.get_closest_marker(MARK) is None or not (reason := missing()):
        return
    if MARK in asked_for(item.config):
        pytest.fail(reason, pytrace=False)
    skip(item, reason)


@functools.cache
def missing() -> str:
    """What is not here, with the cure; empty if all is."""
    if reason := engine.missing():
        return reason
    absent = [image for image in (*standins.wanted(), *prepare.OWN) if not engine.has(engine.official(image))]
    return f"images are not here ({', '.join(absent)}): {engine.CURE}" if absent else ""
