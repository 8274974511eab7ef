"""The real gate behind the real Envoy: what the API server answers frees the room of an allowed write, or does not."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from extauthz.core.ledger.entry import Event
from extauthz.demo.envoy import Alter, Envoy
from extauthz.demo.gate import Gate
from extauthz.testing import workload
from extauthz.tools.render.options import Endpoint, GateTls
from tests.support import objects
from tests.support.apiserver import ApiServer
from tests.support.certs import Authority
from tests.support.stack import PATCH, TOKEN, scale_body, sidecar
from tests.waiting import eventually

TEAMS = ("code-401", "code-409", "code-503", "mtls", *(f"team-{number}" for number in range(16)))
"""A namespace with a quota of its own for each test: what one leaves behind is in nobody's way. ``test_answers.py`` has
what else the API server may answer, and what becomes of it."""

ROOM = 4
"""Pods in each. Two Deployments of one pod are there."""


def items() -> list[dict[str, Any]]:
    namespaces = [objects.namespace(team, team=team) for team in TEAMS]
    return namespaces + [
        workload(name, 1, {}, namespace=team, uid=f"{team}-{name}") for team in TEAMS for name in ("web", "other")
    ]


class Real:
    """Stand-in API server, real gate, real Envoy. A context manager."""

    mode = "Enforce"

    def __init__(self, authority: Authority, directory: Path, *flags: str, grpc: str = "", **options: Any) -> None:
        self._directory = directory
        self._pair = authority.issue("localhost")
        self._authority = authority
        self.api = ApiServer(self._pair, items())
        quota_file, self._state = directory / "quotas.yaml", directory / "state.json"
        quotas = [objects.quota(team, {"pods": str(ROOM)}, {"team": team}, mode=self.mode) for team in TEAMS]
        quota_file.write_text("".join(f"---\n{json.dumps(quota)}\n" for quota in quotas))
        self.show_state()
        socket = directory / "gate.sock"
        self.gate = Gate(quota_file, self._state, directory / "gate.log", flags, grpc=grpc or f"unix:{socket}")
        self._options = {"gate": Endpoint("", 0, str(socket))} | options
        self.alter: Alter = lambda tree: None
        """What the test changes about Envoy's configuration."""
        self._running = ExitStack()

    def __enter__(self) -> Real:
        self._running.enter_context(self.api)
        self._running.enter_context(self.gate)
        if self.gate.port:
            self._options["gate"] = Endpoint("127.0.0.1", self.gate.port)
        options = sidecar(self._pair, self._authority, self.api.port, **self._options)
        self.envoy = self._running.enter_context(Envoy(options, self._directory / "envoy", self.alter))
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def show_state(self) -> None:
        """What the API server holds, for the gate to read."""
        new = self._state.with_suffix(".new")
        new.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(self.api.objects.items.values())}))
        new.replace(self._state)

    def grow(self, team: str, **options: Any) -> httpx.Response:
        """``web`` to 3: all the room there is."""
        return self._scale(team, "web", 3, **options)

    def has_room(self, team: str) -> bool:
        """Whether ``other`` could have one pod more. Asked as a dry run, which charges nothing."""
        answer = self._scale(team, "other", 2, "?dryRun=All")
        assert answer.status_code in (200, 403), answer.text
        return answer.status_code == 200

    def answers(self, event: Event) -> float:
        """How many of them the gate was told so far."""
        return self.gate.metric(f'extauthz_answers_total{{event="{event}"}}')

    def usage(self, team: str, column: str) -> float:
        return self.gate.metric(f'extauthz_quota_{column}{{quota="{team}",resource="pods"}}')

    def _scale(self, team: str, name: str, replicas: int, query: str = "", **options: Any) -> httpx.Response:
        path = f"/apis/apps/v1/namespaces/{team}/deployments/{name}/scale{query}"
        trust = ssl.create_default_context(cafile=str(self._authority.ca))
        with httpx.Client(base_url=f"https://127.0.0.1:{self.envoy.port}", verify=trust, timeout=60) as client:
            return client.patch(path, content=scale_body(replicas), headers=PATCH | TOKEN, **options)


@pytest.fixture(scope="module")
def real(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with Real(authority, tmp_path_factory.mktemp("real")) as real:
        yield real


def hears(real: Real, event: Event) -> None:
    eventually(lambda: real.answers(event) == 1)


def test_a_write_that_the_api_server_refuses_frees_its_room_at_once(real: Real):
    """At once: W is minutes."""
    real.api.failing = 409
    assert real.grow("code-409").status_code == 409
    real.api.failing = 0
    hears(real, Event.REFUSED)
    assert real.has_room("code-409")
    assert real.usage("code-409", "reserved") == 0


def test_answers_reach_a_gate_that_asks_for_certificates(authority: Authority, tmp_path: Path):
    pair = authority.issue("gate")
    flags = ("--tls-cert", str(pair.cert), "--tls-client-ca", str(authority.ca))
    client = authority.issue("sidecar")
    tls = GateTls(str(authority.ca), "localhost", str(client.cert), str(client.key))
    with Real(authority, tmp_path, *flags, grpc="127.0.0.1:0", gate_tls=tls) as real:
        real.api.failing = 409
        assert real.grow("mtls").status_code == 409
        real.api.failing = 0
        hears(real, Event.REFUSED)
        assert real.has_room("mtls")
