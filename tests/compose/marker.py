"""The markers ``containers`` and ``image``: a test of docker-compose.yml, or of the gate's image alone, is skipped
loudly where images or an engine are missing.

With the marker's name in ``EXTAUTHZ_REQUIRE`` it fails instead.
"""

from __future__ import annotations

import functools

import pytest

from tests.compose import engine, prepare, standins
from tests.controlplane.marker import asked_for, skip

MARKS = ("containers", "image")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is set up."""
    for mark in MARKS:
        if item.get_closest_marker(mark) is None or not (reason := missing(mark)):
            continue
        if mark in asked_for(item.config):
            pytest.fail(reason, pytrace=False)
        skip(item, reason)


@functools.cache
def missing(mark: str) -> str:
    """What is not here, with the cure; empty if all is."""
    alone = mark == "image"
    cure = engine.IMAGE_CURE if alone else engine.CURE
    if reason := engine.missing(with_compose=not alone):
        return f"{reason}: {cure}"
    wanted = [*standins.bases("gate"), "extauthz"] if alone else [*standins.wanted(), *prepare.OWN]
    absent = [image for image in wanted if not engine.has(engine.official(image))]
    return f"images are not here ({', '.join(absent)}): {cure}" if absent else ""
