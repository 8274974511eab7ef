"""What needs the wheel, and the package index."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

import tools.release.__main__ as release
from tests.controlplane.marker import asked_for, skip

INDEX = "wheel"
"""In ``EXTAUTHZ_REQUIRE``: the package index may be asked for all that the wheel needs."""


@pytest.fixture
def index(request: pytest.FixtureRequest) -> None:
    """It takes a minute, and some 150 MB."""
    if INDEX not in asked_for(request.config):
        skip(request.node, "no wheel was built and installed: ask for it by EXTAUTHZ_REQUIRE=wheel")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """The wheel, built once, by who needs it."""
    return functools.cache(lambda: release.packages(tmp_path_factory.mktemp("dist")))


@pytest.fixture
def wheel(index: None, made: Callable[[], Path]) -> Path:
    return made()
