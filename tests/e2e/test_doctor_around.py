"""``extauthz doctor`` on the ways around: ``inside_around.py`` in a network of its own, as ``test_istio.py`` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import netns
from tests.controlplane.test_istio import WITHIN_S, alone

__all__ = ["alone"]

pytestmark = [pytest.mark.controlplane, pytest.mark.envoy]

INSIDE = Path(__file__).parent / "inside_around.py"


def test_each_published_address_is_tried_and_told_for_what_it_is(alone, tmp_path):
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inside'}"]
    command = [*alone, sys.executable, "-m", "pytest", *options, str(INSIDE)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WITHIN_S, check=False, env=netns.environment()
    )
    assert done.returncode == 0, f"{done.stdout[-20000:]}\n{done.stderr[-2000:]}"
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
