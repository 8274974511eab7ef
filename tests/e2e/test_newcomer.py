"""docs/install.md: what a newcomer types, and what is shown, on a real control plane."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import netns
from tests.controlplane.test_istio import WITHIN_S, alone

__all__ = ["alone"]

pytestmark = pytest.mark.controlplane("kube-controller-manager", "helm")


def test_the_page_shows_what_a_newcomer_sees(alone, tmp_path: Path):
    """``inside_newcomer.py`` in a network of its own, where pods and the Service have their addresses."""
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inside'}"]
    inside = str(Path(__file__).parent / "inside_newcomer.py")
    done = subprocess.run(
        [*alone, sys.executable, "-m", "pytest", *options, inside],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        env=netns.environment(),
    )
    assert done.returncode == 0, f"{done.stdout[-20000:]}\n{done.stderr[-2000:]}"
    assert "1 passed" in done.stdout
