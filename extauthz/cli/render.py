"""``extauthz render``: configuration for others that ask the gate, printed.

An Envoy before the API server, alone or in a mesh; its certificates; the configuration by which an API server asks.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any as Tree
from typing import TypeVar

from extauthz.cli import exits
from extauthz.cli.flags import sidecar
from extauthz.cli.flags.render import BOOTSTRAP, DEFAULTS, TLS_DEFAULTS, WEBHOOK_DEFAULTS
from extauthz.cli.flags.render import ISTIO_DEFAULTS as MESH_DEFAULTS
from extauthz.tools.render import certificate, certificates, envoy, filling, istio, secrets, webhook
from extauthz.tools.render.certificates import TlsOptions
from extauthz.tools.render.manifests import FORMATS, Part
from extauthz.tools.render.options import CLIENTS, GATE_CA, SERVICE_PORT, Endpoint, GateTls, MeshOptions, SidecarOptions
from extauthz.tools.render.webhook import WebhookOptions

Options = TypeVar("Options", SidecarOptions, TlsOptions, WebhookOptions)

HEADER = "# Made by `{}`; change its options rather than this file.\n"


def run(arguments: argparse.Namespace) -> int:
    try:
        text: str = RENDERED[arguments.what](arguments)
    except ValueError as error:
        sys.stderr.write(f"extauthz render {arguments.what}: {error}\n")
        return exits.USAGE
    header = HEADER.format(shlex.join(["extauthz", *arguments.words])) if arguments.output == "yaml" else ""
    sys.stdout.write(header + text)
    return 0


def _envoy(arguments: argparse.Namespace) -> str:
    options = sidecar_options(arguments, DEFAULTS)
    if arguments.part == BOOTSTRAP:
        return _alone(arguments, envoy.sidecar(options))
    files = secrets.files(options)
    if arguments.part not in files:
        flags = "--gate-ca" if arguments.part == GATE_CA else "--gate-ca, --gate-cert and --gate-key"
        raise ValueError(f"--part {arguments.part} is for TLS to the gate: add {flags}, or leave it out")
    return _alone(arguments, files[arguments.part])


def _alone(arguments: argparse.Namespace, tree: dict[str, Tree]) -> str:
    return FORMATS[arguments.output]([Part("", [tree])])


def sidecar_options(arguments: argparse.Namespace, defaults: SidecarOptions) -> SidecarOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    chosen = _over(defaults, arguments, gate_tls=_gate_tls(arguments, defaults.gate_tls))
    _only_one_kind([chosen.gate, *chosen.failover_gates])
    return chosen


def _over(defaults: Options, arguments: argparse.Namespace, **more: object) -> Options:
    """What was asked for, over the defaults: flags have the names of fields, but for ``more``."""
    chosen: dict[str, Tree] = dict(more)
    for field in fields(defaults):
        said = getattr(arguments, field.name, None)
        if said is not None:
            chosen.setdefault(field.name, tuple(said) if isinstance(said, list) else said)
    return replace(defaults, **chosen)


def _only_one_kind(gates: Sequence[Endpoint]) -> None:
    """Envoy resolves all addresses of a cluster, or none; a socket has no name."""
    sockets = [one for one in gates if one.path]
    names = [one for one in gates if not one.path and not filling.is_ip(one.host)]
    if sockets and names:
        raise ValueError(
            f"--gate-failover: {sidecar.shown(sockets[0])} and the name {sidecar.shown(names[0])} do not go together"
        )


def _gate_tls(arguments: argparse.Namespace, default: GateTls | None) -> GateTls | None:
    """Half of it is refused: else Envoy would speak plain text to a gate that expects TLS."""
    said = {field.name: getattr(arguments, f"gate_{field.name}") for field in fields(GateTls)}
    wanted = {name: one for name, one in said.items() if one is not None}
    if ("cert_file" in wanted) != ("key_file" in wanted):
        raise ValueError("--gate-cert and --gate-key go together")
    if default is not None:
        return replace(default, **wanted)
    if "ca_file" in wanted:
        return GateTls(**{"server_name": sidecar.GATE_NAME} | wanted)
    if "cert_file" in wanted:
        raise ValueError("--gate-cert needs --gate-ca: the gate is verified before it is shown a certificate")
    return None


RENDER: dict[str, Callable[[MeshOptions], dict[str, Tree]]] = {
    "istio": istio.envoy_filter,
    "istio-pod": istio.pod_patch,
}


def _istio(arguments: argparse.Namespace) -> str:
    """What is asked for. Raises ValueError."""
    return _alone(arguments, RENDER[arguments.what](_mesh_options(arguments)))


def _mesh_options(arguments: argparse.Namespace) -> MeshOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    client = CLIENTS[arguments.client]
    defaults = replace(
        MESH_DEFAULTS.sidecar,
        profile=client.profile,
        apiserver=Endpoint(arguments.service_ip, SERVICE_PORT),
        gate_tls=None if arguments.gate_plain else MESH_DEFAULTS.sidecar.gate_tls,
    )
    sidecar = sidecar_options(arguments, defaults)
    if arguments.gate_plain and sidecar.gate_tls is not None:
        raise ValueError("--gate-plain and --gate-ca exclude each other")
    own = client._replace(namespace=arguments.namespace or client.namespace)
    return MeshOptions(client=own, service_ip=arguments.service_ip, sidecar=sidecar)


def _tls(arguments: argparse.Namespace) -> str:
    place = arguments.namespace or certificates.NAMESPACES[arguments.autoscaler]
    options = _over(TLS_DEFAULTS, arguments, client_namespace=place, service=arguments.form == "deployment")
    return FORMATS[arguments.output](certificates.ISSUERS[arguments.issuer](options))


def _webhook(arguments: argparse.Namespace) -> str:
    """What is asked for. Raises ValueError."""
    of = WEBHOOK_DEFAULTS
    if arguments.pods and arguments.namespace_selector == of.namespace_selector:
        raise ValueError(
            "--webhook-pods needs --namespace-selector, such as workspace: while no gate lives such pods fail in all "
            "namespaces that are asked about, so ask only where quotas are"
        )
    name, namespace, port = arguments.service or (of.service, of.namespace, of.port)
    options = _over(of, arguments, ca=_ca(arguments.ca), service=name, namespace=namespace, port=port)
    return FORMATS[arguments.output](webhook.parts(options))


def _ca(name: str | None) -> bytes:
    if name is None:
        return b""
    try:
        found = Path(name).read_bytes()
    except OSError as error:
        raise ValueError(f"--ca: {name}: {error.strerror}") from None
    if b"-----BEGIN CERTIFICATE-----" not in found:
        raise ValueError(f"--ca: {name} holds no certificate in PEM")
    return found


RENDERED: Mapping[str, Callable[[argparse.Namespace], str]] = {
    "envoy": _envoy,
    **dict.fromkeys(RENDER, _istio),
    "certificate": lambda arguments: certificate.made(arguments.file, arguments.names, arguments.days),
    "tls": _tls,
    "webhook": _webhook,
}
