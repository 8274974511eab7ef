"""``istio/`` against a real istiod, in a network of its own, where the service IP is an address.

``inside_istio.py`` has who is asked and what becomes of it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import marker, netns

pytestmark = pytest.mark.controlplane("autoscaler-v0.50.0")

RELEASES = [pytest.param(name, marks=pytest.mark.controlplane(name)) for name in ("istiod", "istiod-1.30")]

WITHIN_S = 900
HERE = Path(__file__).parent


@pytest.fixture
def alone(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """What runs a command in a network of its own. Skips, or fails where istiod is required, if there can be none."""
    if reasons := netns.why_not():
        if marker.required(request.config, "istiod"):
            pytest.fail("; ".join(reasons), pytrace=False)
        marker.skip(request.node, *reasons)
    return netns.ALONE


@pytest.mark.parametrize("istiod", RELEASES)
def test_writes_to_the_service_ip_are_decided_in_a_sidecar_that_istiod_programs(alone, istiod, tmp_path):
    run_inside(alone, "inside_istio.py", tmp_path, istiod)


def run_inside(alone: tuple[str, ...], file: str, folder: Path, istiod: str = "istiod") -> None:
    """The tests of a file of this folder, in a network of their own; none of them skips itself."""
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'inside'}"]
    command = [*alone, sys.executable, "-m", "pytest", *options, str(HERE / file)]
    environment = {**netns.environment(), "ISTIOD_PART": istiod}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False, env=environment)
    assert done.returncode == 0, f"{done.stdout[-20000:]}\n{done.stderr[-2000:]}"
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
