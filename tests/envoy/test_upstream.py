"""Towards the API server: upgrades, HTTP/2, and who it must prove to be."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from extauthz.render.options import Endpoint
from extauthz.testing.certs import Authority
from extauthz.testing.stack import PATCH, SCALE, Stack, echo, scale_body, status_of, until_blank, upgrade
from tests.waiting import eventually

EXEC = "/api/v1/namespaces/team-a/pods/web-0/exec?command=sh&stdin=true"

# exec, attach and port-forward.


def spdy_server(certificate) -> Iterator[tuple[int, list[bytes]]]:
    """Takes any upgrade over TLS, keeps the request's head, and says back what it hears."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    heads: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_spdy, args=(listener, context, heads), daemon=True)
        thread.start()
        yield listener.getsockname()[1], heads


def serve_spdy(listener: socket.socket, context: ssl.SSLContext, heads: list[bytes]) -> None:
    plain, _ = listener.accept()
    with context.wrap_socket(plain, server_side=True) as connection:
        heads.append(until_blank(connection))
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n")
        while data := connection.recv(1024):
            connection.sendall(data)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_spdy_execs_pass_over_http1_though_the_api_server_offers_h2(launch, authority, method: str):
    for port, heads in spdy_server(authority.issue("spdy")):
        for stack in launch(apiserver=Endpoint("127.0.0.1", port)):
            with stack.connect() as shell:
                assert upgrade(shell, method, EXEC, "SPDY/3.1").startswith(b"HTTP/1.1 101 ")
                shell.sendall(b"\x80\x03\x00\x01ping")
                assert shell.recv(1024) == b"\x80\x03\x00\x01ping"
            assert heads[0].startswith(f"{method} {EXEC} HTTP/1.1".encode())
            assert not stack.gate.checks


# TLS and HTTP/2 towards the API server: a second sidecar stands in for one, since it offers h2 as a real one does.


def test_an_api_server_that_offers_h2_is_spoken_to_in_h2_and_upgrades_still_pass(launch, authority, tmp_path):
    for inner in launch():
        for outer in launch(apiserver=Endpoint("127.0.0.1", inner.envoy.port)):
            assert outer.send("PATCH", SCALE, content=scale_body(7), headers=PATCH, h2=True).status_code == 200
            assert [len(one.gate.checks) for one in (outer, inner)] == [1, 1]
            assert outer.envoy.stat("cluster.apiserver.upstream_cx_http2_total") == 1
            with outer.connect() as shell:
                assert upgrade(shell, "GET", EXEC, "websocket").startswith(b"HTTP/1.1 101 ")
                assert echo(shell, b"hello") == b"hello"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda other: {"apiserver_name": "impostor.example"}, id="another-name"),
        pytest.param(lambda other: {"apiserver_name": "127.0.0.2"}, id="another-address"),
        pytest.param(lambda other: {"apiserver_ca_file": str(other)}, id="another-ca"),
    ],
)
def test_an_api_server_with_another_certificate_gets_no_request(launch, other_ca, wrong: Callable[..., dict]):
    for stack in launch(**wrong(other_ca)):
        answer = stack.send("GET", "/api/v1/namespaces", headers={"authorization": "Bearer s3cret"})
        assert status_of(answer)["code"] == 503
        assert not stack.api.seen


@pytest.fixture
def other_ca(tmp_path):
    return Authority(tmp_path, "another CA").ca


def test_clients_are_spoken_to_in_tls_of_today_only(stack: Stack):
    with socket.create_connection(("127.0.0.1", stack.envoy.port), 10) as plain:
        plain.sendall(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n")
        assert plain.recv(100) == b""
    assert not stack.api.seen
    with stack.connect("h2", "http/1.1") as connection:
        assert connection.version() == "TLSv1.3"
        assert connection.selected_alpn_protocol() == "h2"


# Whose connections these are.


def test_each_client_has_connections_of_its_own_and_they_end_after_it(launch):
    """Why: tests/envoy/test_anonymous.py."""

    def soon(tree: dict[str, Any]) -> None:
        (ordinary,) = (one for one in tree["static_resources"]["clusters"] if one["name"] == "apiserver")
        (protocol,) = ordinary["typed_extension_protocol_options"].values()
        assert protocol["common_http_protocol_options"] == {"idle_timeout": "30s"}
        protocol["common_http_protocol_options"] = {"idle_timeout": "8s"}

    for stack in launch(soon):
        with stack.client() as one, stack.client(h2=True) as other:
            for client in (one, other, one, other):
                assert client.get(SCALE).status_code == 200
            assert stack.envoy.stat("cluster.apiserver.upstream_cx_active") == 2
        eventually(partial(has_none, stack))
        assert stack.envoy.stat("cluster.apiserver.upstream_cx_idle_timeout") == 2


def has_none(stack: Stack) -> bool:
    return stack.envoy.stat("cluster.apiserver.upstream_cx_active") == 0
