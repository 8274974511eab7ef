"""Run by ``test_newcomer.py`` in a network namespace: the lines of docs/install.md, one after the other.

``rolled.py`` says what of the cluster is real. ``tests/cluster/test_first_week.py`` types the same lines on a cluster
with a kubelet, and writes the page anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Endpoint, Profile
from tests.cluster.test_first_week import follow
from tests.controlplane.manager import ControllerManager
from tests.controlplane.parts import find
from tests.controlplane.test_chart import NAMESPACE
from tests.e2e.inside_upgrade import PATIENT, ip
from tests.e2e.kubeproxy import KubeProxy
from tests.e2e.rolled import CONTROLLERS, Scene
from tests.e2e.webhooked import only_route
from tests.support.metricsapi import route
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
WITHIN_S = 120
BURNS = {"cpu": "50m", "memory": "1Mi"}
"""All that a pod of the page may have."""
HOLD = "grants no growth for"
"""A new ledger's, which nobody is as quick as this to meet. Audit refuses nothing for it."""
GROWS = "kubectl -n shop scale deployment web --replicas=2 --dry-run=server"


class Newcomer:
    """Who types, in a folder of its own, and the cluster."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        ip("link", "set", "lo", "up")
        ip("address", "add", "10.244.0.0/16", "dev", "lo")
        self._stack = stack
        self._scene = Scene(folder, stack, (), lambda address: address)
        self._scene.metrics.usage["shop"] = BURNS
        self._controllers(folder)
        self._folder = folder / "typed"
        (self._folder / "bin").mkdir(parents=True)
        (self._folder / "charts").symlink_to(ROOT / "charts")
        (self._folder / ".kube").mkdir()
        (self._folder / ".kube" / "config").symlink_to(self._scene.plane.kubeconfig)
        self._program("kubectl", f'exec {find("kubectl")} "$@"')
        self._program("extauthz", f'exec {sys.executable} -m extauthz.cli "$@"')
        self._program("patient", PATIENT)
        patient = f'case "$1" in install|upgrade) set -- "$@" --post-renderer={self._folder}/bin/patient;; esac'
        self._program("helm", f'{patient}\nexec {find("helm")} "$@"')

    def _controllers(self, folder: Path) -> None:
        """kube-controller-manager, behind an Envoy that only knows where metrics are."""

        def bare(tree: Any) -> None:
            route(self._scene.metrics.port, tree)
            only_route(tree)

        options = self._scene.plane.sidecar(Endpoint("127.0.0.1", 1), profile=Profile.SCALE)
        envoy = self._stack.enter_context(Envoy(options, folder / "envoy", bare))
        server = f"https://127.0.0.1:{envoy.port}"
        self._stack.enter_context(ControllerManager(self._scene.plane, server, folder, [CONTROLLERS]))

    def _program(self, name: str, script: str) -> None:
        file = self._folder / "bin" / name
        file.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def type(self, line: str) -> str:
        """What is shown."""
        environment = {
            **os.environ,
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._scene.plane.kubeconfig),
            "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{line}"],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WITHIN_S * 2,
            check=False,
        )
        if line.startswith("helm install"):
            self._serve()
        if line.startswith("kubectl patch wsq"):
            eventually(lambda: HOLD not in self.type(GROWS))
        return done.stdout

    def _serve(self) -> None:
        """The Service's address, and kube-proxy behind it."""
        address = self._scene.plane.api.get("Service", "extauthz", NAMESPACE)["spec"]["clusterIP"]
        ip("address", "add", f"{address}/32", "dev", "lo")
        self._stack.enter_context(KubeProxy(self._scene.pods, (NAMESPACE, "extauthz"), "webhook", (address, 443)))

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """What is shown, as of a ``Person``."""
        return subprocess.CompletedProcess(line, 0, self.type(line))


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    with ExitStack() as stack:
        yield Newcomer(tmp_path, stack)


def test_the_page_as_it_stands(newcomer: Newcomer):
    follow(newcomer)
