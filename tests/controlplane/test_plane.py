"""The shared plane is the real thing, in the version that was asked for."""

from __future__ import annotations

import json
import subprocess
import urllib.request

import pytest

from tests.controlplane.parts import find
from tests.controlplane.plane import Plane

pytestmark = pytest.mark.controlplane


def test_the_api_server_is_the_version_that_go_mod_asks_for(plane: Plane):
    with urllib.request.urlopen(f"{plane.url}/version", context=plane.tls, timeout=10) as answer:
        assert json.load(answer)["gitVersion"] == "v1.36.3"


def test_kubectl_reaches_it_with_the_administrators_kubeconfig(plane: Plane):
    command = [find("kubectl"), f"--kubeconfig={plane.kubeconfig}", "get", "namespaces", "-o", "name"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    assert "namespace/default" in said.split()
