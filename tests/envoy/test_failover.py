"""Several real gates behind one real Envoy: the preferred one decides, and another as soon as it is gone.

Every write is a dry run, which charges nothing: so the gates need no ledger in common. ``tests/e2e`` has one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from extauthz.demo.envoy import Alter, Envoy
from extauthz.demo.gate import Gate
from extauthz.tools.render.options import Endpoint, GateTls, SidecarOptions
from tests.controlplane.plane import free_ports
from tests.support import objects
from tests.support.apiserver import ApiServer
from tests.support.authz import ScriptedAuthz
from tests.support.balancing import Balancer
from tests.support.certs import Authority
from tests.support.stack import (
    PATCH,
    SCALE,
    TOKEN,
    Stack,
    echo,
    scale_body,
    sidecar,
    status_of,
    until_blank,
    unused_port,
    upgrade,
    workload,
)
from tests.waiting import eventually

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
SILENT_S = 7.0


ASKED_WITHIN_S = 1.0


class Zones:
    """An Envoy, the gate of its own zone, and one of another. A context manager."""

    def __init__(
        self, authority: Authority, folder: Path, *flags: str, alter: Alter = lambda tree: None, **options: Any
    ) -> None:
        self._folder = folder
        pair = authority.issue("localhost")
        self.api, self._pair, self._authority = ApiServer(pair, [workload()]), pair, authority
        sockets = [folder / f"{name}.sock" for name in ("own", "other")]
        self.own, self.other = self._gates = [a_gate(folder, f"unix:{socket}", *flags) for socket in sockets]
        own, other = (Endpoint("", 0, str(socket)) for socket in sockets)
        self._options, self._alter = {"gate": own, "failover_gates": (other,)} | options, alter
        self._trust = ssl.create_default_context(cafile=str(authority.ca))
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for part in (self.api, *self._gates):
                stack.enter_context(part)
            options = sidecar(self._pair, self._authority, self.api.port, **self._options)
            self.envoy = stack.enter_context(Envoy(options, self._folder / "envoy", self._alter))
            base = f"https://127.0.0.1:{self.envoy.port}"
            self._client = stack.enter_context(
                httpx.Client(base_url=base, verify=self._trust, headers=TOKEN, timeout=60)
            )
            self._running = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def write(self) -> httpx.Response:
        return self._client.patch(f"{SCALE}?dryRun=All", content=scale_body(3), headers=PATCH)

    def decider(self) -> Gate:
        """Who decides a write that passes now."""
        before = [decided(gate) for gate in self._gates]
        answer = self.write()
        assert answer.status_code == 200, answer.text
        counts = list(zip(self._gates, before, strict=True))
        [gate] = eventually(lambda: [gate for gate, was in counts if decided(gate) > was])
        return gate


def a_gate(folder: Path, address: str, *flags: str) -> Gate:
    quotas, state = folder / "quotas.yaml", folder / "state.json"
    quotas.write_text(json.dumps(objects.quota("acme", {"pods": "10"}, labels={})))
    state.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [objects.namespace("team-a"), workload()]})
    )
    log = folder / f"{address.rpartition('/')[2].rpartition(':')[2]}.log"
    return Gate(quotas, state, log, ("--allow-unknown=unclean-start", *flags), grpc=address)


def decided(gate: Gate) -> int:
    """How many writes, as its log says."""
    return len(list(gate.events("decision")))


@pytest.fixture(scope="module", params=["plain", "mtls"])
def zones(authority: Authority, tmp_path_factory: pytest.TempPathFactory, request) -> Iterator[Zones]:
    folder = tmp_path_factory.mktemp("zones")
    if request.param == "plain":
        with Zones(authority, folder) as zones:
            yield zones
        return
    gate, client = authority.issue("gate"), authority.issue("sidecar")
    flags = ("--tls-cert", str(gate.cert), "--tls-client-ca", str(authority.ca))
    tls = GateTls(str(authority.ca), "localhost", str(client.cert), str(client.key))
    with Zones(authority, folder, *flags, gate_tls=tls) as zones:
        yield zones


def test_the_gate_of_the_own_zone_decides(zones: Zones):
    assert {zones.decider() for _ in range(10)} == {zones.own}


@pytest.mark.parametrize("ends", [Gate.kill, Gate.terminate])
def test_without_it_the_very_next_write_is_decided_by_another_and_by_it_again_once_it_is_back(zones: Zones, ends):
    assert zones.decider() is zones.own
    ends(zones.own)
    assert {zones.decider() for _ in range(10)} == {zones.other}
    zones.own.start()
    eventually(lambda: zones.decider() is zones.own)


def test_one_that_is_silent_is_left_though_its_connection_stands(zones: Zones):
    os.kill(zones.own.pid, signal.SIGSTOP)
    try:
        eventually(lambda: zones.envoy.stat("cluster.extauthz.membership_healthy") == 1)
        eventually(lambda: zones.decider() is zones.other)
    finally:
        os.kill(zones.own.pid, signal.SIGCONT)
    eventually(lambda: zones.decider() is zones.own)


def test_a_gate_that_takes_its_time_is_waited_for(zones: Zones):
    os.kill(zones.own.pid, signal.SIGSTOP)
    with ThreadPoolExecutor() as threads:
        under_way = threads.submit(zones.decider)
        time.sleep(ASKED_WITHIN_S)
        os.kill(zones.own.pid, signal.SIGCONT)
        assert under_way.result(60) is zones.own


def test_a_write_that_a_dying_gate_may_have_decided_is_put_to_no_other(zones: Zones):
    others = decided(zones.other)
    os.kill(zones.own.pid, signal.SIGSTOP)
    with ThreadPoolExecutor() as threads:
        under_way = threads.submit(zones.write)
        time.sleep(ASKED_WITHIN_S)  # no statistics tell a Check from the stream of the access log
        assert not under_way.done()
        zones.own.kill()
        assert status_of(under_way.result(60))["code"] == 503
    assert zones.decider() is zones.other
    assert decided(zones.other) == others + 1
    zones.own.start()
    eventually(lambda: zones.decider() is zones.own)


def test_without_any_gate_growth_is_refused_with_a_status(zones: Zones):
    for gate in (zones.own, zones.other):
        gate.kill()
    passed = len(zones.api.writes())
    assert "quota gate unavailable" in status_of(zones.write())["message"]
    eventually(lambda: zones.envoy.stat("cluster.extauthz.membership_healthy") == 0)
    for _ in range(3):
        assert "quota gate unavailable" in status_of(zones.write())["message"]
    assert len(zones.api.writes()) == passed
    zones.other.start()
    eventually(lambda: zones.envoy.stat("cluster.extauthz.membership_healthy") == 1)
    eventually(lambda: {zones.write().status_code for _ in range(8)} == {200})  # each worker hears of it by itself
    assert zones.decider() is zones.other
    zones.own.start()
    eventually(lambda: zones.decider() is zones.own)


# The connection itself, which a Service leads to a gate only when it is made.


def with_http_options(change: Callable[[dict[str, Any]], None]) -> Alter:
    def alter(tree: dict[str, Any]) -> None:
        [cluster] = [one for one in tree["static_resources"]["clusters"] if one["name"] == "extauthz"]
        change(cluster["typed_extension_protocol_options"][HTTP_OPTIONS])

    return alter


def test_connections_are_replaced_from_time_to_time_and_no_write_suffers(authority: Authority, tmp_path: Path):
    def hurry(options: dict[str, Any]) -> None:
        assert options["common_http_protocol_options"]["max_connection_duration"] == "300s"
        options["common_http_protocol_options"]["max_connection_duration"] = "0.5s"

    with Zones(authority, tmp_path, alter=with_http_options(hurry), failover_gates=()) as zones:

        def replaced() -> int:
            assert zones.write().status_code == 200
            return zones.envoy.stat("cluster.extauthz.upstream_cx_max_duration_reached")

        eventually(lambda: replaced() >= 4)


def test_a_gate_bears_to_be_asked_by_ping_whether_it_is_there(authority: Authority, tmp_path: Path):
    """gRPC's default would end the connection at the fourth ping in a row."""

    def hurry(options: dict[str, Any]) -> None:
        options["explicit_http_config"]["http2_protocol_options"]["connection_keepalive"]["interval"] = "1.2s"

    with Zones(authority, tmp_path, alter=with_http_options(hurry), failover_gates=()) as zones:
        assert zones.write().status_code == 200
        time.sleep(SILENT_S)
        assert zones.envoy.stat("cluster.extauthz.upstream_cx_active") == 1
        assert zones.envoy.stat("cluster.extauthz.upstream_cx_close_notify") == 0


# Envoy's hot restart under load: a new process takes the listener over, and the old one ends once it is done.
#
# https://www.envoyproxy.io/docs/envoy/v1.40.0/intro/arch_overview/operations/hot_restart


CLIENTS = 3
BETWEEN = 100
"""Writes before, beside and after two processes."""


class Generation(Envoy):
    """One process of those that follow each other on the same port. ``epoch`` counts them."""

    def __init__(self, options: SidecarOptions, folder: Path, port: int, epoch: int) -> None:
        def on_port(tree: dict[str, Any]) -> None:
            tree["static_resources"]["listeners"][0]["address"]["socket_address"]["port_value"] = port

        super().__init__(options, folder / f"epoch-{epoch}", on_port)
        self._epoch, self._id = epoch, folder / "base-id"

    def _command(self, config: Path, admin: Path) -> list[str]:  # type: ignore[override]
        chosen = ["--use-dynamic-base-id", "--base-id-path", str(self._id)]
        if self._epoch:
            chosen = ["--base-id", self._id.read_text(), "--restart-epoch", str(self._epoch)]
        times = ["--drain-time-s", "2", "--parent-shutdown-time-s", "4"]
        command = [word for word in super()._command(config, admin) if word != "--disable-hot-restart"]
        return [*command, *chosen, *times]

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running


class Load:
    """Writes without a pause, each with a name of its own: on connections that are kept, and on new ones.

    Over HTTP/1.1: Python's h2 takes a GOAWAY for the end of the streams that are still open, which Go's does not.
    """

    def __init__(self, stack: Stack) -> None:
        self.sent: list[str] = []
        self.failed: list[object] = []
        self._stack, self._stop = stack, threading.Event()

    def write(self, number: int) -> None:
        """Until told to stop."""
        while not self._stop.is_set():
            with self._stack.client() as client:
                for _ in range(1 if number == 0 else 1000):
                    if self._stop.is_set():
                        break
                    self._one(client, f"{SCALE}?fieldManager=w-{number}-{len(self.sent)}")

    def _one(self, client: Any, path: str) -> None:
        try:
            answer = client.patch(path, content=scale_body(3), headers=PATCH)
        except Exception as error:  # noqa: BLE001 (whatever a client may see)
            self.failed.append(error)
            return
        self.sent.append(path)
        if answer.status_code != 200:
            self.failed.append(answer.text)

    def go_on(self) -> None:
        """Until so many more writes are through."""
        enough = len(self.sent) + BETWEEN
        eventually(lambda: len(self.sent) > enough or self.failed)

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def loaded(stack: Stack) -> Iterator[Load]:
    load = Load(stack)
    with ThreadPoolExecutor(CLIENTS) as threads:
        running = [threads.submit(load.write, number) for number in range(CLIENTS)]
        try:
            yield load
        finally:
            load.stop()
    for each in running:
        each.result()


@pytest.fixture
def generation(authority: Authority, tmp_path: Path) -> Iterator[tuple[Callable[[int], Generation], Callable]]:
    """Makes the processes, and the stack of one of them."""
    pair, port = authority.issue("localhost"), unused_port()
    with ApiServer(pair, [workload()]) as api, ScriptedAuthz() as gate:
        options = sidecar(pair, authority, api.port, gate=Endpoint("127.0.0.1", gate.port))
        yield (
            lambda epoch: Generation(options, tmp_path, port, epoch),
            lambda envoy: Stack(authority, api, gate, envoy),
        )
    # Envoy leaves it behind, under ten times its base id.
    Path(f"/dev/shm/envoy_shared_memory_{(tmp_path / 'base-id').read_text()}0").unlink()


def test_a_hot_restart_fails_no_write_and_none_passes_undecided(generation):
    start, stack_of = generation
    with ExitStack() as running:
        old = running.enter_context(start(0))
        stack = stack_of(old)
        with loaded(stack) as load:
            load.go_on()
            new = running.enter_context(start(1))
            load.go_on()
            eventually(lambda: not old.running)
            load.go_on()
        assert not load.failed
        assert sorted(check.attributes.request.http.path for check in stack.gate.checks) == sorted(load.sent)
        assert sorted(one.target for one in stack.api.writes(SCALE)) == sorted(load.sent)
        assert new.stat("server.hot_restart_epoch") == 1
        eventually(lambda: len(stack.gate.entries) == len(load.sent))


def test_gates_that_are_replaced_behind_a_service_fail_no_write(authority: Authority, tmp_path: Path):
    """As a rollout does it: what ends is led to no more, and its connections stand (``preStop``, docs/upgrade.md)."""
    pair, ports = authority.issue("localhost"), free_ports(2)
    gates = [a_gate(tmp_path, f"127.0.0.1:{port}") for port in ports]
    with ExitStack() as running:
        api = running.enter_context(ApiServer(pair, [workload()]))
        service, nobody, *_ = (running.enter_context(one) for one in (Balancer(ports), ScriptedAuthz(), *gates))
        options = sidecar(pair, authority, api.port, gate=Endpoint("127.0.0.1", service.port))
        envoy = running.enter_context(Envoy(options, tmp_path / "envoy"))
        stack = Stack(authority, api, nobody, envoy)
        with loaded(stack) as load:
            for gate, other in zip(gates * 2, ports[::-1] * 2, strict=True):
                load.go_on()
                service.ports = [other]
                assert gate.terminate() == 0
                gate.start()
                service.ports = ports
            load.go_on()
        assert not load.failed


# Towards the API server: upgrades, HTTP/2, and who it must prove to be.


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
