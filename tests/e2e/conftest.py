"""One cluster under the gate for all end-to-end tests, and a workspace in it for each."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from pydantic.warnings import PydanticDeprecatedSince212

from tests.controlplane.plane import running_plane

with warnings.catch_warnings():
    # envoy-data-plane declares its validators in a way that pydantic 3 will no longer take.
    warnings.simplefilter("ignore", PydanticDeprecatedSince212)
    from tests.controlplane.workspace import Workspace
    from tests.controlplane.world import World

_WORLD = pytest.StashKey[World]()
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[World]:
    """Gate, Envoys, stand-ins; kube-controller-manager when first asked for. On an API server of its own: controllers
    would meddle with what other tests put into the shared one."""
    with (
        running_plane(folder=tmp_path_factory.mktemp("plane")) as plane,
        World(plane, tmp_path_factory.mktemp("world")) as running,
    ):
        request.config.stash[_WORLD] = running
        yield running


@pytest.fixture
def workspace(world: World, request: pytest.FixtureRequest) -> Iterator[Callable[..., Workspace]]:
    """Makes workspaces that end with the test: ``workspace({"requests.cpu": "4"})``. A module may have a world of its
    own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:30].strip("-")
    with ExitStack() as stack:

        def make(hard: dict[str, str], mode: str = "") -> Workspace:
            # A namespace of the same name may still be going.
            return stack.enter_context(Workspace(world, f"{name}-{next(_NUMBERS)}", hard, mode))

        yield make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that fails says where the logs are, and what the gate said last."""
    report = yield
    world = item.config.stash.get(_WORLD, None)
    if report.failed and world is not None:
        report.sections.append(("logs", f"{world.folder} and {world.plane.folder}"))
        report.sections.append(("gate.log", (world.folder / "gate.log").read_text()[-3000:]))
    return report
