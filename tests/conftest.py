"""What all tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import hypothesis
import pytest

from tests import again, closing
from tests.cluster.marker import CLUSTER
from tests.compose.marker import CONTAINERS, IMAGE
from tests.controlplane import marker
from tests.controlplane.plane import Plane, running_plane
from tests.observability.promtool import PROMTOOL
from tests.page.chromium import CHROMIUM


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors, but for those of others that we cannot mend."""
    for plugin in (marker, CONTAINERS, IMAGE, CLUSTER, PROMTOOL, CHROMIUM, closing, again):
        config.pluginmanager.register(plugin)
    hypothesis.settings.register_profile("busy", deadline=None)  # a machine that is slow is no failure
    hypothesis.settings.load_profile("busy")
    # betterproto2's compiler wrote it into envoy-data-plane 2.2.0.
    config.addinivalue_line("filterwarnings", "ignore:Using `@model_validator`:DeprecationWarning")


TOLD = "told"


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Print a line at the end of the run, also where tests run side by side: a seed, what was counted."""
    return partial(record_property, TOLD)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, line in report.user_properties:
            if name == TOLD:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[0]}: {line}")


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A real API server that all tests share, each in namespaces of its own. Mark the test ``controlplane``."""
    with running_plane(folder=tmp_path_factory.mktemp("plane")) as running:
        yield running
