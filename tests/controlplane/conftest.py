"""What tests of a real API server share: a way to it that can be disturbed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from extauthz.inputs.kube.connection import Connection, connect
from tests.contract.worlds import Relay, relaying
from tests.controlplane.plane import Plane, write_kubeconfig


@pytest.fixture
async def relay(plane: Plane) -> AsyncIterator[Relay]:
    async with relaying(plane.port) as running:
        yield running


@pytest.fixture
def relayed_kubeconfig(plane: Plane, relay: Relay, tmp_path: Path) -> Path:
    """An administrator's, by way of the relay."""
    user = {"client-certificate": str(plane.folder / "admin.crt"), "client-key": str(plane.folder / "admin.key")}
    write_kubeconfig(tmp_path / "relayed", f"https://127.0.0.1:{relay.port}", plane.ca, user)
    return tmp_path / "relayed"


@pytest.fixture
async def relayed(relayed_kubeconfig: Path) -> AsyncIterator[Connection]:
    """To the API server, by way of the relay."""
    async with connect(relayed_kubeconfig) as connection:
        yield connection
