"""Envoy between the stand-in API server and a scripted gate, and ways to talk to it down to the last byte."""

from __future__ import annotations

import base64
import json
import socket
import ssl
from typing import Any

import httpx

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Endpoint, SidecarOptions
from tests.support import authz
from tests.support.apiserver import ApiServer
from tests.support.authz import ScriptedAuthz
from tests.support.certs import Authority, Pair

DEADLINE_S = 30.0
"""Bounds every wait."""

SCALE = "/apis/apps/v1/namespaces/team-a/deployments/web/scale"
TOKEN = {"authorization": "Bearer somebody"}
"""Envoy takes no growth write from nobody."""
HEAD = "".join(f"{name}: {value}\r\n" for name, value in TOKEN.items())
"""The same in a request that is spelled by hand."""
PATCH = {"content-type": "application/merge-patch+json"}


def scale_body(replicas: int) -> bytes:
    """A merge patch of a scale."""
    return json.dumps({"spec": {"replicas": replicas}}).encode()


def workload(kind: str = "Deployment", name: str = "web", replicas: int = 2) -> dict[str, Any]:
    """A small workload of apps/v1 in the namespace team-a."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }


def sidecar(pair: Pair, authority: Authority, api_port: int, **options: Any) -> SidecarOptions:
    """Of an Envoy that leads to an API server of this machine, and waits long for its gate: a busy machine is no
    failure."""
    settings = {
        "cert_file": str(pair.cert),
        "key_file": str(pair.key),
        "apiserver": Endpoint("127.0.0.1", api_port),
        "apiserver_name": "127.0.0.1",
        "apiserver_ca_file": str(authority.ca),
        "gate_timeout_s": 20.0,
    }
    return SidecarOptions(**settings | options)


class Stack:
    """Everything a test talks to."""

    def __init__(self, authority: Authority, api: ApiServer, gate: ScriptedAuthz, envoy: Envoy) -> None:
        self.authority, self.api, self.gate, self.envoy = authority, api, gate, envoy

    def trust(self) -> ssl.SSLContext:
        """Trust in the throw-away CA. One for each client: httpx sets its protocols (ALPN) on what it is given."""
        return ssl.create_default_context(cafile=str(self.authority.ca))

    def client(self, *, h2: bool = False) -> httpx.Client:
        """A client of one of the two protocols, that trusts the throw-away CA and has a token."""
        base = f"https://127.0.0.1:{self.envoy.port}"
        return httpx.Client(
            base_url=base, verify=self.trust(), http1=not h2, http2=h2, timeout=DEADLINE_S, headers=TOKEN
        )

    def send(self, method: str, path: str, *, h2: bool = False, **options: Any) -> httpx.Response:
        """One request over a connection of its own."""
        with self.client(h2=h2) as client:
            return client.request(method, path, **options)

    def connect(self, *protocols: str) -> ssl.SSLSocket:
        """A TLS connection that offers these protocols (HTTP/1.1 if none is given)."""
        context = self.trust()
        context.set_alpn_protocols(list(protocols) or ["http/1.1"])
        plain = socket.create_connection(("127.0.0.1", self.envoy.port), DEADLINE_S)
        return context.wrap_socket(plain, server_hostname="localhost")

    def raw(self, request: bytes) -> bytes:
        """Sends bytes as they are, and reads until Envoy closes or its answer's content-length is there."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_response(connection)

    def forget(self) -> None:
        """Empties the memories; the gate allows again."""
        self.api.seen.clear()
        self.gate.checks.clear()
        self.gate.entries.clear()
        self.gate.answer = authz.allow()


def read_response(connection: socket.socket) -> bytes:
    """One HTTP/1.1 response, or what came until the connection ended."""
    answer = b""
    while chunk := connection.recv(65536):
        answer += chunk
        head, blank, body = answer.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        if blank and lengths and len(body) >= int(lengths[0]):
            break
    return answer


def status_of(answer: httpx.Response) -> dict[str, Any]:
    """The metav1.Status of a refusal, after checking what client-go needs to see it."""
    assert answer.headers["content-type"] == "application/json"
    assert "retry-after" not in answer.headers, "client-go would block a worker with up to ten retries"
    status: dict[str, Any] = answer.json()
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == answer.status_code
    return status


def unused_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, for now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# Upgraded connections, spelled by hand: what exec, attach and port-forward look like on the wire.


def upgrade(connection: ssl.SSLSocket, method: str, path: str, protocol: str) -> bytes:
    """The head of the answer to an upgrade."""
    key = base64.b64encode(bytes(16)).decode()
    websocket = f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n" if protocol == "websocket" else ""
    connection.sendall(
        f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: {protocol}\r\n{websocket}"
        "content-length: 0\r\n\r\n".encode()
    )
    return until_blank(connection)


def until_blank(connection: socket.socket) -> bytes:
    """A head, to the blank line that ends it."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        head += byte
    return head


def echo(connection: ssl.SSLSocket, message: bytes) -> bytes:
    """Sends one binary frame (RFC 6455 §5.2, masked with zeros) and gives back the payload of the next that comes."""
    connection.sendall(bytes([0x82, 0x80 | len(message), 0, 0, 0, 0]) + message)
    head = connection.recv(2)
    return connection.recv(head[1])
