"""The HPA as a Deployment in the mesh: ``inside_istio_hpa.py`` in a network of its own, as ``test_istio.py`` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.test_istio import WITHIN_S, alone

__all__ = ["alone"]

pytestmark = pytest.mark.controlplane("istiod", "kube-controller-manager")

INSIDE = Path(__file__).parent / "inside_istio_hpa.py"


def test_the_hpa_in_the_mesh_scales_by_what_the_gate_decides(alone, tmp_path):
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inside'}"]
    command = [*alone, sys.executable, "-m", "pytest", *options, str(INSIDE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, f"{done.stdout[-20000:]}\n{done.stderr[-2000:]}"
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
