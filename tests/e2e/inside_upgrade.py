"""Run by ``test_upgrade.py`` in a network namespace: the chart with its webhook, upgraded and rolled back under load.

The API server dials the Service's cluster IP, which is this network's own, and so are the addresses of the pods. The
gates make the webhook's certificate.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Endpoint, Profile
from extauthz.tools.render.webhook import TIMEOUT_S
from tests.controlplane.api import Api, RefusedError
from tests.controlplane.test_chart import NAMESPACE
from tests.e2e.kubeproxy import KubeProxy
from tests.e2e.rolled import DRIVEN, HARD, SENTENCE, Scene, upgraded_and_rolled_back
from tests.e2e.webhooked import only_route
from tests.support.metricsapi import route
from tests.waiting import eventually

VALUES = ("--set=webhook.enabled=true,webhook.certificates=self-signed,grpc.enabled=false",)
FAILED = re.compile(r'^apiserver_admission_webhook_rejection_count\{error_type="(?!no_error").*$', re.MULTILINE)
"""Writes that the API server refused because it could not ask, or did not understand the answer."""


PATIENT = f"#!/bin/sh\nexec sed 's/timeoutSeconds: {TIMEOUT_S}$/timeoutSeconds: 20/'\n"
"""Helm's post-renderer: a busy machine is no failure."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=30)


class Asked:
    """The API server asks the gates' Service."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        ip("link", "set", "lo", "up")
        ip("address", "add", "10.244.0.0/16", "dev", "lo")
        patient = folder / "patient"
        patient.write_text(PATIENT)
        patient.chmod(0o755)
        self.scene = scene = Scene(folder, stack, (*VALUES, f"--post-renderer={patient}"), lambda address: address)
        self._plane = scene.plane

        def bare(tree: Any) -> None:
            route(scene.metrics.port, tree)
            only_route(tree)

        options = self._plane.sidecar(Endpoint("127.0.0.1", 1), profile=Profile.SCALE)
        envoy = stack.enter_context(Envoy(options, folder / "envoy", bare))
        scene.install(f"https://127.0.0.1:{envoy.port}")
        address = self._plane.api.get("Service", "extauthz", NAMESPACE)["spec"]["clusterIP"]
        ip("address", "add", f"{address}/32", "dev", "lo")
        stack.enter_context(KubeProxy(scene.pods, (NAMESPACE, "extauthz"), "webhook", (address, 443)))
        scene.populate()
        self._await_in_force()

    def client(self) -> Api:
        return Api(self._plane.url, self._plane.tls, self.scene.token)

    def _await_in_force(self) -> None:
        """Until the API server asks, and trusts who answers."""

        def refused() -> bool:
            try:
                self._plane.api.patch("Deployment", DRIVEN[0], "rolling", tree, sub="scale?dryRun=All")
            except RefusedError as error:
                return SENTENCE in str(error)
            return False

        tree = {"spec": {"replicas": HARD + 1}}
        eventually(refused)

    def certificate(self) -> Any:
        """What the gates have put into the chart's empty Secret."""
        return self._plane.api.get("Secret", "extauthz-webhook", NAMESPACE)["data"]

    def unasked(self) -> list[str]:
        """Counters of the API server that are more than none."""
        return FAILED.findall(self._plane.api.call("GET", "/metrics"))


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with ExitStack() as stack:
        yield Asked(tmp_path, stack)


def test_every_gate_is_replaced_twice_and_no_write_of_anybody_fails(asked: Asked):
    before, certificate = asked.unasked(), asked.certificate()
    upgraded_and_rolled_back(asked.scene, asked.client)
    assert (asked.unasked(), asked.certificate()) == (before, certificate)
    assert asked.scene.grown()
