"""``extauthz render istio`` and ``render istio-pod``: what puts the gate before a client in a mesh."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any as Tree

from extauthz.cli import sidecar_flags
from extauthz.render import istio
from extauthz.render.manifests import FORMATS, Part
from extauthz.render.options import Endpoint

DEFAULTS = istio.MeshOptions()

EPILOG = f"""\
{sidecar_flags.PROFILES}
examples:
  extauthz render istio --service-ip "$(kubectl get service kubernetes -o jsonpath='{{.spec.clusterIP}}')" |
      kubectl apply -f -
  extauthz render istio-pod --client keda-operator > pod.yaml
  kubectl -n keda patch deployment keda-operator --patch-file pod.yaml

The patch comes before the filter: without its files the sidecar refuses that. See docs/istio.md."""

WHAT: dict[str, tuple[str, Callable[[istio.MeshOptions], dict[str, Tree]]]] = {
    "istio": ("an EnvoyFilter that has an autoscaler's Istio sidecar ask the gate", istio.envoy_filter),
    "istio-pod": ("a patch of that autoscaler's Deployment: certificates and trust", istio.pod_patch),
}


def add_parsers(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both; they take the same flags, so that what must agree can be given to both."""
    for name, (text, render) in WHAT.items():
        parser = what.add_parser(
            name,
            help=text,
            description=f"Prints {text}.",
            epilog=EPILOG,
        )
        _mesh(parser.add_argument_group("mesh"))
        places = parser.add_argument_group("places")
        sidecar_flags.add_places(places, DEFAULTS.sidecar, apiserver="the address of --service-ip, port 443")
        sidecar_flags.add_secrets(places, DEFAULTS.sidecar, "what names its certificates, in annotations of the pod")
        places.add_argument(
            "--gate-plain", action="store_true", help="Plain text to the gate. Default: TLS on both sides."
        )
        sidecar_flags.add_behaviour(parser.add_argument_group("behaviour"), DEFAULTS.sidecar)
        parser.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")
        parser.set_defaults(rendered=partial(_rendered, render))


def _mesh(parser: argparse._ArgumentGroup) -> None:
    add = parser.add_argument
    add(
        "--client",
        choices=istio.CLIENTS,
        default="knative-autoscaler",
        help="Whose sidecar. hpa-controller: kube-controller-manager with that one controller (deploy/hpa-controller), "
        "by the profile scale. Default: knative-autoscaler.",
    )
    add("--namespace", type=sidecar_flags.namespace, metavar="NAME", help="Where it runs. Default: its project's own.")
    add(
        "--service-ip",
        type=_ip,
        default=DEFAULTS.service_ip,
        metavar="IP",
        help=f"Address of the Service default/kubernetes. Default: {DEFAULTS.service_ip}.",
    )
    name = partial(add, metavar="NAME")
    name(
        "--tls-secret",
        dest="client_facing",
        default=DEFAULTS.client_facing,
        help=f"Secret that holds --cert and --key. Default: {DEFAULTS.client_facing}.",
    )
    name(
        "--gate-secret",
        dest="gate_facing",
        default=DEFAULTS.gate_facing,
        help=f"Secret that holds --gate-ca, --gate-cert and --gate-key. Default: {DEFAULTS.gate_facing}.",
    )
    name(
        "--ca-config-map",
        dest="trusted",
        default=DEFAULTS.trusted,
        help=f"ConfigMap that holds what the client trusts, in ca.crt. Default: {DEFAULTS.trusted}.",
    )


def _rendered(render: Callable[[istio.MeshOptions], dict[str, Tree]], arguments: argparse.Namespace) -> str:
    return FORMATS[arguments.output]([Part("", [render(options(arguments))])])


def options(arguments: argparse.Namespace) -> istio.MeshOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    client = istio.CLIENTS[arguments.client]
    defaults = replace(
        DEFAULTS.sidecar,
        profile=client.profile,
        apiserver=Endpoint(arguments.service_ip, istio.SERVICE_PORT),
        gate_tls=None if arguments.gate_plain else DEFAULTS.sidecar.gate_tls,
    )
    sidecar = sidecar_flags.options(arguments, defaults)
    if arguments.gate_plain and sidecar.gate_tls is not None:
        raise ValueError("--gate-plain and --gate-ca exclude each other")
    return istio.MeshOptions(
        client=client._replace(namespace=arguments.namespace or client.namespace),
        service_ip=arguments.service_ip,
        sidecar=sidecar,
        client_facing=arguments.client_facing,
        gate_facing=arguments.gate_facing,
        trusted=arguments.trusted,
    )


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address") from error
