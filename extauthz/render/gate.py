"""The options of the gate in a cluster, and its container, wherever it runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any as Tree

GRPC_PORT, HTTP_PORT = 9191, 9192
TLS_FOLDER = "/etc/extauthz/tls"
NOBODY = 65532
"""Any user but root. Gate and Envoy in one pod have the same user, so only they can use the socket between them."""

LOG_LEVELS = ("debug", "info", "warning", "error")


class Mode(StrEnum):
    """What happens to a write that does not fit (docs/modes.md)."""

    ENFORCE = "enforce"
    AUDIT = "audit"


class Ledger(StrEnum):
    """Where pending writes are kept (docs/ledger.md)."""

    KUBERNETES = "kubernetes"
    """In WorkspaceLedger objects: any number of gates."""
    MEMORY = "memory"
    """In the gate: one gate, and no API call for a grant."""


class Traffic(StrEnum):
    """Which gate a connection leads to (``trafficDistribution`` of the Service)."""

    PREFER_CLOSE = "PreferClose"
    """One in the caller's zone, if there is one. Every Kubernetes since 1.30 takes the word; 1.36 warns that it has a
    newer name."""
    PREFER_SAME_ZONE = "PreferSameZone"
    """The same by its new name, which Kubernetes 1.34 and later take."""
    ANY = "any"
    """No preference."""


@dataclass(frozen=True, slots=True)
class GateOptions:
    """A gate that takes quotas and state from the cluster that it runs in."""

    image: str = "extauthz"
    namespace: str = "extauthz-system"
    replicas: int = 3
    """Three survive the loss of a node during a rollout, and one is enough."""
    mode: Mode = Mode.ENFORCE
    ledger: Ledger = Ledger.KUBERNETES
    log_level: str = "info"
    tls_secret: str = "extauthz-tls"  # noqa: S105 - the name of one
    """Secret with the gate's certificate and the authority of Envoy's client certificate, as cert-manager makes it."""
    traffic: Traffic = Traffic.PREFER_CLOSE

    def __post_init__(self) -> None:
        """Refuse options with which two gates would grant the same room.

        Raises:
            ValueError: several gates that each keep their own ledger.
        """
        if self.ledger is Ledger.MEMORY and self.replicas > 1:
            raise ValueError("--ledger memory is for a single gate: add --replicas 1, or leave --ledger out")


def container(options: GateOptions, *servers: str) -> dict[str, Tree]:
    """The gate's container, with the flags of its servers."""
    chosen = {"--mode": (options.mode, Mode.ENFORCE), "--log-level": (options.log_level, "info")}
    return {
        "name": "gate",
        "image": options.image,
        "command": ["extauthz", "serve"],
        "args": [
            "--quotas=kubernetes",
            "--state=kubernetes",
            f"--ledger={options.ledger}",
            *servers,
            *(f"{flag}={value}" for flag, (value, default) in chosen.items() if value != default),
        ],
        # The first lists of a large cluster take a while; until then the gate lives, and is not ready.
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10, "failureThreshold": 3},
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": locked_down(),
    }


def locked_down() -> dict[str, Tree]:
    """What the Pod Security Standard "restricted" asks of a container, and a root file system that stays as it is."""
    return {
        "runAsNonRoot": True,
        "runAsUser": NOBODY,
        "runAsGroup": NOBODY,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
