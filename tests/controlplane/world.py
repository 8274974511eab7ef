"""A whole cluster under the gate: real API server, Envoy, gate, kube-controller-manager; stand-ins for the rest.

One for a session (fixture ``world``); each test has a workspace of its own in it (``tests/controlplane/workspace.py``).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from extauthz.demo.envoy import Envoy
from extauthz.demo.gate import Gate
from extauthz.tools.render.options import Endpoint, Profile, SidecarOptions
from tests.controlplane.access import service_account
from tests.controlplane.api import Api
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.manager import ControllerManager
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.support.kubelet import Kubelet
from tests.support.metricsapi import MetricsApi, route
from tests.waiting import eventually

GATES_OWN = "extauthz-system"
"""The gate's namespace: ``deploy/`` is installed there. The process that runs is a child of the tests all the same."""
WINDOW_S = 10
"""W. This API server answers in milliseconds; with the default a start after a crash would hold for two minutes."""
DEPLOY = Path(__file__).parents[2] / "deploy"


class World:
    """Everything, started in order by the ``with`` block, and ended in the other order. Logs stay in *folder*."""

    mode = "Enforce"
    """Of its quotas, unless a test says another one."""

    def __init__(self, plane: Plane, folder: Path, gate_options: Sequence[str] = ()) -> None:
        self.plane, self.folder = plane, folder
        self.api, self.kubectl = plane.api, plane.kubectl
        self._socket = folder / "gate.sock"
        self._kubeconfig = folder / "gate.kubeconfig"
        options = {"kubeconfig": self._kubeconfig, "window-s": WINDOW_S, "allow-unknown": "unclean-start"}
        flags = [f"--{name}={value}" for name, value in options.items()]
        self.gate = Gate(
            "kubernetes", "kubernetes", folder / "gate.log", [*flags, *gate_options], grpc=f"unix:{self._socket}"
        )
        self.kubelet = Kubelet(plane.url, plane.tls)
        self.metrics = MetricsApi(plane.url, plane.tls)
        self._envoys: dict[Profile, Envoy] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._install()
            for part in (self.gate, self.kubelet, self.metrics):
                stack.enter_context(part)
            eventually(lambda: not self.gate.holding)
            self._stack = stack.pop_all()
        return self

    def _install(self) -> None:
        """As docs/envoy.md has it; the gate gets the token of its own service account, and with it no more rights."""
        self.kubectl("apply", f"--kustomize={DEPLOY}")
        eventually(lambda: self.api.serves("WorkspaceQuota"))
        token = service_account(self.plane, GATES_OWN, "extauthz")
        write_kubeconfig(self._kubeconfig, self.plane.url, self.plane.ca, {"token": token})

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @functools.cached_property
    def manager(self) -> ControllerManager:
        """kube-controller-manager behind the Envoy of its profile; started when first asked for."""
        return self._stack.enter_context(ControllerManager(self.plane, self.url(Profile.SCALE), self.folder))

    def envoy(self, profile: Profile) -> Envoy:
        """The Envoy of one profile, started when first asked for. All ask the same gate."""
        if profile not in self._envoys:
            envoy = Envoy(self._options(profile), self.folder / f"envoy-{profile}", self._add_metrics)
            self._envoys[profile] = self._stack.enter_context(envoy)
        return self._envoys[profile]

    def url(self, profile: Profile) -> str:
        return f"https://127.0.0.1:{self.envoy(profile).port}"

    def client(self, profile: Profile = Profile.WRITES) -> Api:
        """A cluster administrator with a bearer token, through an Envoy."""
        return Api(self.url(profile), self.plane.tls, self._token)

    def kubectl_through(self, profile: Profile = Profile.WRITES) -> Kubectl:
        """A cluster administrator with a bearer token, through an Envoy."""
        kubeconfig = self.folder / f"through-{profile}.kubeconfig"
        write_kubeconfig(kubeconfig, self.url(profile), self.plane.ca, {"token": self._token})
        return Kubectl(kubeconfig)

    @functools.cached_property
    def _token(self) -> str:
        return service_account(self.plane, "kube-system", "filtered-administrator", "cluster-admin")

    def _options(self, profile: Profile) -> SidecarOptions:
        return self.plane.sidecar(Endpoint("", 0, str(self._socket)), profile=profile)

    def _add_metrics(self, tree: dict[str, Any]) -> None:
        route(self.metrics.port, tree)
