"""Several real gates behind one real Envoy: the preferred one decides, and another as soon as it is gone.

Every write is a dry run, which charges nothing: so the gates need no ledger in common. ``tests/e2e`` has one.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from extauthz.render.options import Endpoint, GateTls, SidecarOptions
from extauthz.testing.apiserver import ApiServer
from extauthz.testing.certs import Authority
from extauthz.testing.envoy import Alter, Envoy
from extauthz.testing.gate import Gate
from extauthz.testing.stack import PATCH, SCALE, TOKEN, scale_body, status_of, workload
from tests.waiting import eventually

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
QUOTA = {
    "apiVersion": "extauthz.dev/v1alpha1",
    "kind": "WorkspaceQuota",
    "metadata": {"name": "acme"},
    "spec": {"namespaceSelector": {}, "hard": {"pods": "10"}},
}
SILENT_S = 7.0


ASKED_WITHIN_S = 1.0


class Zones:
    """An Envoy, the gate of its own zone, and one of another. A context manager."""

    def __init__(
        self, authority: Authority, folder: Path, *flags: str, alter: Alter = lambda tree: None, **options: Any
    ) -> None:
        self._folder = folder
        pair = authority.issue("localhost")
        self.api = ApiServer(pair, [workload()])
        sockets = [folder / f"{name}.sock" for name in ("own", "other")]
        self.own, self.other = self._gates = [self._gate(socket, flags) for socket in sockets]
        chosen = SidecarOptions(
            cert_file=str(pair.cert),
            key_file=str(pair.key),
            apiserver_name="127.0.0.1",
            apiserver_ca_file=str(authority.ca),
            gate=Endpoint("", 0, str(sockets[0])),
            **{"gate_timeout_s": 20.0, "failover_gates": (Endpoint("", 0, str(sockets[1])),)} | options,
        )
        self._options, self._alter = chosen, alter
        self._trust = ssl.create_default_context(cafile=str(authority.ca))
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for part in (self.api, *self._gates):
                stack.enter_context(part)
            options = replace(self._options, apiserver=Endpoint("127.0.0.1", self.api.port))
            self.envoy = stack.enter_context(Envoy(options, self._folder / "envoy", self._alter))
            base = f"https://127.0.0.1:{self.envoy.port}"
            self._client = stack.enter_context(
                httpx.Client(base_url=base, verify=self._trust, headers=TOKEN, timeout=60)
            )
            self._running = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def _gate(self, socket: Path, flags: Sequence[str]) -> Gate:
        quotas, state = self._folder / "quotas.yaml", self._folder / "state.json"
        quotas.write_text(json.dumps(QUOTA))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
        state.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [namespace, workload()]}))
        lenient = ("--on-unclean-start=allow", *flags)
        return Gate(quotas, state, socket.with_suffix(".log"), lenient, grpc=f"unix:{socket}")

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
    flags = ("--tls-cert", str(gate.cert), "--tls-key", str(gate.key), "--tls-client-ca", str(authority.ca))
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
