"""``extauthz doctor`` in a mesh: ``inside_doctor.py`` in a network of its own, as ``test_istio.py`` does."""

from __future__ import annotations

import pytest

from tests.controlplane.test_istio import alone, run_inside

__all__ = ["alone"]

pytestmark = pytest.mark.controlplane("istiod")


def test_each_fault_of_an_installation_in_a_mesh_is_caught_by_the_doctor(alone, tmp_path):
    run_inside(alone, "inside_doctor.py", tmp_path)
