"""Certificates: what Envoy shows to the autoscaler, and what Envoy and gate show each other.

Each is a Secret with ``tls.crt``, ``tls.key`` and ``ca.crt``, which is how cert-manager makes them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any as Tree
from typing import NamedTuple

from . import manifests
from .manifests import GATE, Part, named, text_of
from .options import SidecarOptions

CERT_MANAGER = "cert-manager.io/v1"
ECDSA = {"algorithm": "ECDSA", "size": 256}
KUBECONFIG = "extauthz-kubeconfig"

NAMESPACES = {"keda": "keda", "knative": "knative-serving", "hpa-controller": "kube-system"}
"""Where each autoscaler runs, as its project has it."""

SERVER, CLIENT = "server auth", "client auth"


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
    client_facing: str = "extauthz-apiserver"
    service: bool = False
    gate_namespace: str = "extauthz-system"
    authority_namespace: str = "cert-manager"
    """Where cert-manager looks for the Secret of a ClusterIssuer (``--cluster-resource-namespace``)."""
    days: int = 90

    @property
    def shown(self) -> Wanted:
        """What Envoy shows to the autoscaler."""
        return Wanted("apiserver", self.client_namespace, self.client_facing, SERVER, self.names)

    @property
    def mutual(self) -> tuple[Wanted, ...]:
        """What gate and Envoy show each other, if not only a socket is between them."""
        gate = Wanted("gate", self.gate_namespace, f"{GATE}-tls", SERVER, (f"{GATE}.{self.gate_namespace}.svc",))
        envoy = Wanted("envoy", self.client_namespace, f"{GATE}-client", CLIENT)
        return (gate, envoy) if self.service else ()


_ROTATION = """\
A renewed certificate reaches the mounted files within about two minutes, and gate and Envoy use it without a restart,
in a mesh too (docs/render.md)."""

_OWN = f"""\
What Envoy shows to the autoscaler, from an authority of this namespace alone: whoever may make Certificates here may
pose as the API server to this autoscaler, and to nobody else.

{_ROTATION}"""

_MUTUAL = """\
What Envoy and gate show each other, from an authority of the cluster. Whoever may have a certificate of it may reserve
quota by asking: a ClusterIssuer serves all namespaces, so where others may make Certificates, limit this one with a
CertificateRequestPolicy of approver-policy, or put the gate into the autoscaler's pod, which needs none."""

_KUBECONFIG = """\
For an autoscaler that wants a kubeconfig rather than two variables. It holds no secret: the token is the projected one
of the pod, which client-go reads anew each minute. Mount it, and the volume extauthz-api-access of the chart's pod at
{access}."""

_FILES = """\
For `kubectl apply -k .` in the folder of this file (as kustomization.yaml), after these commands in it:

{commands}

A second run issues anew from the same authority. Keep certificates/ca.key where nobody else can read it.

{rotation}

{note}"""


def cert_manager(options: TlsOptions) -> list[Part]:
    """Objects of cert-manager that make and renew the Secrets."""
    here = options.client_namespace
    own = [
        _self_signed("Issuer", here),
        _authority(f"{options.client_facing}-ca", here, "Issuer"),
        _issuer("Issuer", options.client_facing, here, f"{options.client_facing}-ca"),
        _certificate(options.shown, ("Issuer", options.client_facing), options.days),
    ]
    parts = [Part(_OWN, own)]
    if options.service:
        between = [
            _self_signed("ClusterIssuer", None),
            _authority(f"{GATE}-ca", options.authority_namespace, "ClusterIssuer"),
            _issuer("ClusterIssuer", GATE, None, f"{GATE}-ca"),
            *(_certificate(each, ("ClusterIssuer", GATE), options.days) for each in options.mutual),
        ]
        parts.append(Part(_MUTUAL, between))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": named(KUBECONFIG, here)}
    note = _KUBECONFIG.format(access=manifests.API_ACCESS)
    return [*parts, Part(note, [secret | {"stringData": {"kubeconfig": kubeconfig()}}])]


def files(options: TlsOptions) -> list[Part]:
    """A kustomization that makes the Secrets of files, and the commands that make the files."""
    secrets = [
        {
            "name": each.secret,
            "namespace": each.namespace,
            "files": [
                "ca.crt=certificates/ca.crt",
                *(f"tls.{kind}=certificates/{each.file}.{kind}" for kind in ("crt", "key")),
            ],
        }
        for each in (options.shown, *options.mutual)
    ]
    place = {"name": KUBECONFIG, "namespace": options.client_namespace}
    tree = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # Renewed, a Secret keeps its name, so that pods find it in their files.
        "generatorOptions": {"disableNameSuffixHash": True},
        "secretGenerator": [*secrets, place | {"literals": [f"kubeconfig={kubeconfig()}"]}],
    }
    commands = "\n".join(f"    {line}" for line in recipe(options))
    note = f"{KUBECONFIG}:\n{_KUBECONFIG.format(access=manifests.API_ACCESS)}"
    return [Part(_FILES.format(commands=commands, rotation=_ROTATION, note=note), [tree])]


def kubeconfig() -> str:
    """To Envoy, with the pod's own token."""
    listen = SidecarOptions().listen
    server = {
        "server": f"https://{listen.host}:{listen.port}",
        "certificate-authority": f"{manifests.API_ACCESS}/ca.crt",
    }
    return text_of(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "envoy", "cluster": server}],
            "users": [{"name": "pod", "user": {"tokenFile": f"{manifests.API_ACCESS}/token"}}],
            "contexts": [{"name": "envoy", "context": {"cluster": "envoy", "user": "pod"}}],
            "current-context": "envoy",
        }
    )


def recipe(options: TlsOptions) -> list[str]:
    """Shell commands that make ``certificates/``: an authority, unless it is there, and what it signs."""
    command = f"extauthz render certificate --days {options.days}"
    several = (options.shown, *options.mutual)
    return [" ".join([command, f"certificates/{each.file}", *each.names]) for each in several]


def _self_signed(kind: str, namespace: str | None) -> dict[str, Tree]:
    metadata = named(f"{GATE}-self-signed", namespace)
    return {"apiVersion": CERT_MANAGER, "kind": kind, "metadata": metadata, "spec": {"selfSigned": {}}}


def _issuer(kind: str, name: str, namespace: str | None, secret: str) -> dict[str, Tree]:
    spec = {"ca": {"secretName": secret}}
    return {"apiVersion": CERT_MANAGER, "kind": kind, "metadata": named(name, namespace), "spec": spec}


def _authority(name: str, namespace: str, issuer: str) -> dict[str, Tree]:
    spec = {
        "isCA": True,
        "commonName": name,
        "secretName": name,
        # Ten years: whoever trusts it learns of another only by a restart.
        "duration": f"{3650 * 24}h",
        "privateKey": ECDSA,
        "issuerRef": {"group": "cert-manager.io", "kind": issuer, "name": f"{GATE}-self-signed"},
    }
    return {"apiVersion": CERT_MANAGER, "kind": "Certificate", "metadata": named(name, namespace), "spec": spec}


def _certificate(wanted: Wanted, issuer: tuple[str, str], days: int) -> dict[str, Tree]:
    kind, name = issuer
    addresses = [each for each in wanted.names if _is_address(each)]
    names = [each for each in wanted.names if not _is_address(each)]
    spec = {
        "secretName": wanted.secret,
        "commonName": wanted.secret,
        "duration": f"{days * 24}h",
        # A third of its life is left for failures: of the issuer, or of a file that nobody moved.
        "renewBefore": f"{days * 8}h",
        "privateKey": ECDSA | {"rotationPolicy": "Always"},
        "usages": ["digital signature", wanted.usage],
        "issuerRef": {"group": "cert-manager.io", "kind": kind, "name": name},
    }
    told = {"dnsNames": names, "ipAddresses": addresses}
    metadata = named(wanted.secret, wanted.namespace)
    spec |= {field: values for field, values in told.items() if values}
    return {"apiVersion": CERT_MANAGER, "kind": "Certificate", "metadata": metadata, "spec": spec}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


ISSUERS: Mapping[str, Callable[[TlsOptions], list[Part]]] = {"files": files, "cert-manager": cert_manager}
"""Who makes them → how to ask."""
