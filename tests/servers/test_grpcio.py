"""``extauthz serve --grpc-server grpcio``: what Envoy asks is answered as by the gate's own server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from extauthz.serve.service.listening import ListenError, grpc_server
from extauthz.serve.service.settings import Settings
from tests.servers.honest import EXPECTED, HONEST, honest
from tests.servers.running import Running, metadata, within

GRPCIO = ("--grpc-server", "grpcio")


async def test_checks_health_and_a_stop_are_those_of_the_own_server(tmp_path: Path):
    with Running(tmp_path, *GRPCIO) as gate:
        assert await honest(gate, HONEST) == EXPECTED
        assert gate.health() == "SERVING"
        granted = metadata(gate.check(4))
        assert within(5, lambda: granted["decision_id"] in [line["id"] for line in gate.events("decision")])
        assert gate.child.terminate() == 0


async def test_an_address_that_is_taken_is_refused_by_name():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError, match=f"--grpc {address}: cannot be listened on; end the process"):
            grpc_server({}, Settings(grpc=address, grpc_server="grpcio"), None)


async def test_it_listens_on_a_unix_socket_that_its_group_may_use(tmp_path: Path):
    path = tmp_path / "gate.sock"
    with Running(tmp_path, *GRPCIO, grpc_address=f"unix:{path}") as gate:
        assert gate.allows(4)
        assert not gate.allows(5)
        assert path.stat().st_mode & 0o777 == 0o660
