"""Flags of ``extauthz render istio`` and ``render istio-pod``."""

from __future__ import annotations

import argparse
import ipaddress
from functools import partial

from extauthz.cli.flags import sidecar
from extauthz.render.manifests import FORMATS
from extauthz.render.options import CLIENTS, MeshOptions

DEFAULTS = MeshOptions()


EPILOG = f"""\
{sidecar.PROFILES}
examples:
  extauthz render istio --service-ip "$(kubectl get service kubernetes -o jsonpath='{{.spec.clusterIP}}')" |
      kubectl apply -f -
  extauthz render istio-pod --client keda-operator > pod.yaml
  kubectl -n keda patch deployment keda-operator --patch-file pod.yaml

The patch comes before the filter: without its files the sidecar refuses that. See docs/istio.md."""


WHAT = {
    "istio": "an EnvoyFilter that has an autoscaler's Istio sidecar ask the gate",
    "istio-pod": "a patch of that autoscaler's Deployment: certificates and trust",
}


def add_parsers(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both; they take the same flags, so that what must agree can be given to both."""
    for name, text in WHAT.items():
        parser = what.add_parser(name, help=text, description=f"Prints {text}.", epilog=EPILOG)
        _mesh(parser.add_argument_group("mesh"))
        places = parser.add_argument_group("places")
        sidecar.add_places(places, DEFAULTS.sidecar, apiserver="the address of --service-ip, port 443")
        sidecar.add_secrets(places, DEFAULTS.sidecar, "what names its certificates, in annotations of the pod")
        places.add_argument(
            "--gate-plain", action="store_true", help="Plain text to the gate. Default: TLS on both sides."
        )
        sidecar.add_behaviour(parser.add_argument_group("behaviour"), DEFAULTS.sidecar)
        parser.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")


def _mesh(parser: argparse._ArgumentGroup) -> None:
    add = parser.add_argument
    add(
        "--client",
        choices=CLIENTS,
        default="knative-autoscaler",
        help="Whose sidecar. hpa-controller: kube-controller-manager with that one controller (deploy/hpa-controller), "
        "by the profile scale. Default: knative-autoscaler.",
    )
    add("--namespace", type=sidecar.namespace, metavar="NAME", help="Where it runs. Default: its project's own.")
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


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address") from error
