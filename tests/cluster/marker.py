"""The marker ``cluster``: a test that needs a cluster with pods is skipped loudly where this machine cannot have one.

With ``cluster`` in ``EXTAUTHZ_REQUIRE`` it fails instead.
"""

from __future__ import annotations

import functools

import pytest

from tests.cluster import lacking
from tests.controlplane.marker import asked_for, skip

MARK = "cluster"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is set up."""
    if item.get_closest_marker(MARK) is None or not (reason := _lacks()):
        return
    if MARK in asked_for(item.config):
        pytest.fail(reason, pytrace=False)
    skip(item, reason)


@functools.cache
def _lacks() -> str:
    return lacking.sentence()
