"""``helm upgrade`` and ``helm rollback`` while real autoscalers grow workloads: no write fails, no quota is exceeded.

``rolled.py`` says what is real, and what is stood in. Gates behind the webhook are upgraded in ``tests/cluster``.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Endpoint, GateTls, Profile
from tests.controlplane.api import Api
from tests.controlplane.test_chart import NAMESPACE
from tests.e2e.kubeproxy import KubeProxy
from tests.e2e.rolled import Scene, upgraded_and_rolled_back
from tests.support.certs import Authority
from tests.support.metricsapi import route

pytestmark = pytest.mark.controlplane("kube-controller-manager", "helm")

Tree = Any
ENDS = {(200, "allow"), (403, "deny"), (409, "allow")}
"""Status and verdict. Each write was decided: it landed, a quota refused it, or it met another of the same object."""


GATE_TIMEOUT_S = 20.0
"""A busy machine is no failure."""


class Asked:
    """Envoy asks the gates' Service by mutual TLS, as ``extauthz render`` configures it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.scene = Scene(folder, stack)
        self._plane = self.scene.plane
        tls = self._certificates(folder)
        proxy = stack.enter_context(KubeProxy(self.scene.pods, (NAMESPACE, "extauthz"), "grpc"))
        service = Endpoint("127.0.0.1", proxy.port)
        options = self._plane.sidecar(service, profile=Profile.SCALE, gate_tls=tls, gate_timeout_s=GATE_TIMEOUT_S)
        metrics = self.scene.metrics
        self._envoy = stack.enter_context(Envoy(options, folder / "envoy", lambda tree: route(metrics.port, tree)))
        self._url = f"https://127.0.0.1:{self._envoy.port}"
        self.scene.install(self._url)
        self.scene.populate()

    def _certificates(self, folder: Path) -> GateTls:
        """As step 2 of docs/envoy.md: a Secret for the gates, a client's for Envoy."""
        authority = Authority(folder)
        gate, envoy = authority.issue("gate", (f"extauthz.{NAMESPACE}.svc",)), authority.issue("envoy")
        files = {"ca.crt": authority.ca, "tls.crt": gate.cert, "tls.key": gate.key}
        data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}
        metadata = {"name": "extauthz-tls", "namespace": NAMESPACE}
        self._plane.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        return GateTls(str(authority.ca), f"extauthz.{NAMESPACE}.svc", str(envoy.cert), str(envoy.key))

    def client(self) -> Api:
        return Api(self._url, self._plane.tls, self.scene.token)

    def writes(self) -> list[Tree]:
        """What Envoy was asked to scale, and how each ended."""
        return [line for line in self._envoy.access_lines() if line["path"].endswith("/scale")]


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with ExitStack() as stack:
        yield Asked(tmp_path, stack)


def test_every_gate_is_replaced_twice_and_no_write_of_anybody_fails(asked: Asked, tell):
    upgraded_and_rolled_back(asked.scene, asked.client)
    told = Counter((line["status"], line["verdict"]) for line in asked.writes())
    tell(f"{dict(told)}, {asked.scene.grown()} times an HPA grew")
    assert set(told) <= ENDS
