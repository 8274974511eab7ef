"""The shared plane is the real thing, in the version that was asked for."""

from __future__ import annotations

import pytest

from tests.controlplane.plane import Plane

pytestmark = pytest.mark.controlplane


def test_the_api_server_is_the_version_that_go_mod_asks_for(plane: Plane):
    assert plane.api.call("GET", "/version")["gitVersion"] == "v1.36.3"


def test_kubectl_reaches_it_with_the_administrators_kubeconfig(plane: Plane):
    assert "namespace/default" in plane.kubectl("get", "namespaces", "-o", "name").split()
