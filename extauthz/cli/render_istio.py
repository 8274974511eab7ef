"""``extauthz render istio`` and ``render istio-pod``: what puts the gate before a client in a mesh."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any as Tree

from extauthz.cli import render_sidecar
from extauthz.cli.flags.render_istio import DEFAULTS
from extauthz.render import istio
from extauthz.render.manifests import FORMATS, Part
from extauthz.render.options import CLIENTS, SERVICE_PORT, Endpoint, MeshOptions

RENDER: dict[str, Callable[[MeshOptions], dict[str, Tree]]] = {
    "istio": istio.envoy_filter,
    "istio-pod": istio.pod_patch,
}


def rendered(arguments: argparse.Namespace) -> str:
    """What is asked for. Raises ValueError."""
    return FORMATS[arguments.output]([Part("", [RENDER[arguments.what](options(arguments))])])


def options(arguments: argparse.Namespace) -> MeshOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    client = CLIENTS[arguments.client]
    defaults = replace(
        DEFAULTS.sidecar,
        profile=client.profile,
        apiserver=Endpoint(arguments.service_ip, SERVICE_PORT),
        gate_tls=None if arguments.gate_plain else DEFAULTS.sidecar.gate_tls,
    )
    sidecar = render_sidecar.options(arguments, defaults)
    if arguments.gate_plain and sidecar.gate_tls is not None:
        raise ValueError("--gate-plain and --gate-ca exclude each other")
    return MeshOptions(
        client=client._replace(namespace=arguments.namespace or client.namespace),
        service_ip=arguments.service_ip,
        sidecar=sidecar,
        client_facing=arguments.client_facing,
        gate_facing=arguments.gate_facing,
        trusted=arguments.trusted,
    )
