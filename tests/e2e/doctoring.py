"""``extauthz doctor`` in an autoscaler's place: through an Envoy in front of the world's API server and gate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from extauthz.cli import main
from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Endpoint, SidecarOptions
from tests.controlplane.access import service_account
from tests.controlplane.world import World

Rows = dict[str, dict[str, str]]


def options(world: World) -> SidecarOptions:
    """Of that Envoy."""
    return world.plane.sidecar(Endpoint("", 0, str(world.folder / "gate.sock")))


def given(world: World, envoy: Envoy, folder: Path, canary: str) -> dict[str, object]:
    """A way through the Envoy, and an administrator's kubeconfig: the flags of ``doctor`` and their values."""
    token = folder / "token"
    token.write_text(service_account(world.plane, "kube-system", "filtered-administrator", "cluster-admin"))
    return {
        "admin": "http://" + (envoy.access_log.parent / "admin").read_text(),
        "url": f"https://127.0.0.1:{envoy.port}",
        "ca": world.plane.ca,
        "token-file": token,
        "kubeconfig": world.plane.kubeconfig,
        "canary": canary,
    }


def examined(capsys: pytest.CaptureFixture[str], flags: Mapping[str, object]) -> tuple[int, Rows]:
    """Exit code, and rows by name. A flag without a value (``None``) is left out."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items() if value is not None]
    code = main(["doctor", *words, "-o", "json"])
    return code, {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
