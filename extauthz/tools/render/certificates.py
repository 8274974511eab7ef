"""Certificates: what Envoy shows to the autoscaler, and what Envoy and gate show each other.

Each is a Secret with ``tls.crt``, ``tls.key`` and ``ca.crt``, which is how cert-manager makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from . import filling
from .manifests import GATE, Part

NAMESPACES = {"keda": "keda", "knative": "knative-serving", "hpa-controller": "kube-system"}
"""Where each autoscaler runs, as its project has it."""

SERVER, CLIENT = "server auth", "client auth"

CLIENT_FACING = "extauthz-apiserver"
"""The Secret with what Envoy shows to the autoscaler."""
DAYS = 90
"""How long each is valid."""


class Wanted(NamedTuple):
    file: str
    namespace: str
    secret: str
    usage: str
    names: tuple[str, ...] = ()
    """DNS names and addresses; for a client, none."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """One autoscaler's certificates, and with ``service`` those of a gate behind a Service."""

    client_namespace: str = "keda"
    """Where the autoscaler runs."""
    names: tuple[str, ...] = ("127.0.0.1", "kubernetes.default.svc")
    """What the autoscaler dials. In a mesh also the address of the Service ``default/kubernetes``."""
    service: bool = False
    gate_namespace: str = "extauthz-system"

    @property
    def shown(self) -> Wanted:
        """What Envoy shows to the autoscaler."""
        return Wanted("apiserver", self.client_namespace, CLIENT_FACING, SERVER, self.names)

    @property
    def mutual(self) -> tuple[Wanted, ...]:
        """What gate and Envoy show each other, if not only a socket is between them."""
        gate = Wanted("gate", self.gate_namespace, f"{GATE}-tls", SERVER, (f"{GATE}.{self.gate_namespace}.svc",))
        envoy = Wanted("envoy", self.client_namespace, f"{GATE}-client", CLIENT)
        return (gate, envoy) if self.service else ()


_KUBECONFIG = """\
For an autoscaler that wants a kubeconfig rather than two variables. It holds no secret: the token is the projected one
of the pod, which client-go reads anew each minute. Mount it, and the volume extauthz-api-access of the chart's pod at
/var/run/secrets/kubernetes.io/serviceaccount."""

_FILES = """\
For `kubectl apply -k .` in the folder of this file (as kustomization.yaml), after these commands in it:

{commands}

A second run issues anew from the same authority. Keep certificates/ca.key where nobody else can read it.

A renewed certificate reaches the mounted files within about two minutes, and gate and Envoy use it without a restart,
in a mesh too (docs/render.md).

extauthz-kubeconfig:
{note}"""


def cert_manager(options: TlsOptions) -> list[Part]:
    """Objects of cert-manager that make and renew the Secrets."""
    told = {"kubeconfig": filling.text("kubeconfig.yaml"), "about_kubeconfig": _KUBECONFIG, "days": DAYS}
    return [Part(**one) for one in filling.tree("cert-manager.yaml", options=options, **told)["parts"]]


def files(options: TlsOptions) -> list[Part]:
    """A kustomization that makes the Secrets of files, and the commands that make the files."""
    tree = filling.tree("kustomization.yaml", options=options, kubeconfig=filling.text("kubeconfig.yaml"))
    commands = "\n".join(f"    {line}" for line in recipe(options))
    return [Part(_FILES.format(commands=commands, note=_KUBECONFIG), [tree])]


def recipe(options: TlsOptions) -> list[str]:
    """Shell commands that make ``certificates/``: an authority, unless it is there, and what it signs."""
    command = f"extauthz render certificate --days {DAYS}"
    several = (options.shown, *options.mutual)
    return [" ".join([command, f"certificates/{each.file}", *each.names]) for each in several]


ISSUERS: Mapping[str, Callable[[TlsOptions], list[Part]]] = {"files": files, "cert-manager": cert_manager}
"""Who makes them → how to ask."""
