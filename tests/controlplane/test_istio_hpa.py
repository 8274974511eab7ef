"""The HPA as a Deployment in the mesh: ``inside_istio_hpa.py`` in a network of its own, as ``test_istio.py`` does."""

from __future__ import annotations

import pytest

from tests.controlplane.test_istio import alone, run_inside

__all__ = ["alone"]

pytestmark = pytest.mark.controlplane("istiod", "kube-controller-manager")


def test_the_hpa_in_the_mesh_scales_by_what_the_gate_decides(alone, tmp_path):
    run_inside(alone, "inside_istio_hpa.py", tmp_path)
