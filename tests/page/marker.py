"""The marker ``chromium``: a test in a real browser is skipped loudly where there is none.

With ``chromium`` in ``EXTAUTHZ_REQUIRE`` it fails instead.
"""

from __future__ import annotations

import pytest

from tests.controlplane.marker import asked_for, skip
from tests.page import chromium

MARK = "chromium"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is set up."""
    if item.get_closest_marker(MARK) is None or not (reason := chromium.missing()):
        return
    if MARK in asked_for(item.config):
        pytest.fail(reason, pytrace=False)
    skip(item, reason)
