"""The real kube-controller-manager, pointed at an Envoy with a bearer token, as README says to do it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Self

from extauthz.demo.processes import Child
from tests.controlplane.access import service_account
from tests.controlplane.api import RefusedError
from tests.controlplane.parts import find
from tests.controlplane.plane import Plane, write_kubeconfig

NAMESPACE = "kube-system"

QUICK = (
    "--horizontal-pod-autoscaler-sync-period=2s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=5s",
    "--horizontal-pod-autoscaler-downscale-stabilization=2s",
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
)
"""An HPA decides every two seconds, and takes its pods' first metrics; no controller waits for itself."""


class ControllerManager:
    """A running kube-controller-manager. A context manager.

    Args:
        plane: the API server, where it authenticates those who ask it.
        server: the URL of the Envoy that its own requests go through.
    """

    def __init__(self, plane: Plane, server: str, folder: Path, flags: Sequence[str] = ()) -> None:
        self._plane, self._server, self._folder, self._flags = plane, server, folder, flags
        self._child: Child | None = None

    def __enter__(self) -> Self:
        kubeconfig = self._folder / "manager.kubeconfig"
        token = service_account(self._plane, NAMESPACE, "filtered-controller-manager", "cluster-admin")
        write_kubeconfig(kubeconfig, self._server, self._plane.ca, {"token": token})
        before = self.renewed()
        command = [str(find("kube-controller-manager")), *self._all_flags(kubeconfig)]
        self._child = Child(command, self._folder / "kube-controller-manager.log")
        self._child.until(lambda: self.renewed() != before or None)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child is not None
        self._child.terminate()

    @property
    def running(self) -> bool:
        """It has not given up: without its lease it would."""
        return self._child is not None and self._child.running

    def renewed(self) -> datetime | None:
        """When it last renewed its lease; ``None`` before it ever had it."""
        try:
            lease = self._plane.api.get("Lease", "kube-controller-manager", NAMESPACE)
        except RefusedError:
            return None
        return datetime.fromisoformat(lease["spec"]["renewTime"])

    def _all_flags(self, kubeconfig: Path) -> list[str]:
        folder, direct = self._plane.folder, self._plane.kubeconfig
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={direct}",
            f"--authorization-kubeconfig={direct}",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={folder / 'sa.key'}",
            f"--root-ca-file={self._plane.ca}",
            "--secure-port=0",
            *QUICK,
            *self._flags,
        ]
