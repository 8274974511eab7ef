"""Flags of ``extauthz render tls``."""

from __future__ import annotations

import argparse
import ipaddress
import re

from extauthz.cli.flags import sidecar
from extauthz.render import certificates
from extauthz.render.certificates import TlsOptions
from extauthz.render.manifests import FORMATS

DEFAULTS = TlsOptions()


EPILOG = """\
issuers:
  files         a kustomization that makes Secrets of files, and in its comment the openssl commands that make these
  cert-manager  Certificates and Issuers; cert-manager (https://cert-manager.io) makes and renews the Secrets

examples:
  extauthz render tls > kustomization.yaml    # then as it says
  extauthz render tls --issuer cert-manager --autoscaler hpa-controller | kubectl apply -f -
  extauthz render tls --issuer cert-manager --as deployment --name 10.96.0.1 --name kubernetes.default.svc

The Secrets are those that the chart names (charts/extauthz). See docs/render.md."""


def add_parser(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "the certificates that Envoy and gate show"
    parser = what.add_parser("tls", help=text, description=f"Prints {text}.", epilog=EPILOG)
    add = parser.add_argument
    add("--issuer", choices=certificates.ISSUERS, default="files", help="Who makes them, see below. Default: files.")
    add(
        "--as",
        dest="form",
        choices=("sidecar", "deployment"),
        default="sidecar",
        help="Where the gate runs. deployment: also what Envoy and gate show each other. Default: sidecar.",
    )
    add("--autoscaler", choices=certificates.NAMESPACES, default="keda", help="Whose Envoy. Default: keda.")
    _places(parser)
    add("--days", type=days, default=DEFAULTS.days, help=f"How long they are valid. Default: {DEFAULTS.days}.")
    add("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")


def _places(parser: argparse.ArgumentParser) -> None:
    add, namespace = parser.add_argument, sidecar.namespace
    add("--namespace", type=namespace, metavar="NAME", help="Where it runs. Default: its project's own.")
    add(
        "--name",
        dest="names",
        action="append",
        type=_name,
        metavar="NAME",
        help="What the autoscaler dials: a DNS name or an address. May be repeated. "
        f"Default: {' and '.join(DEFAULTS.names)}.",
    )
    add(
        "--tls-secret",
        dest="client_facing",
        type=sidecar.object_name,
        default=DEFAULTS.client_facing,
        metavar="NAME",
        help=f"Secret with what Envoy shows to it. Default: {DEFAULTS.client_facing}.",
    )
    add(
        "--gate-namespace",
        type=namespace,
        default=DEFAULTS.gate_namespace,
        metavar="NAME",
        help=f"Where the gate's Service is. Default: {DEFAULTS.gate_namespace}.",
    )
    add(
        "--authority-namespace",
        type=namespace,
        default=DEFAULTS.authority_namespace,
        metavar="NAME",
        help="Where cert-manager looks for the Secret of a ClusterIssuer (its --cluster-resource-namespace). "
        f"Default: {DEFAULTS.authority_namespace}.",
    )


def _name(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", text) is None:
            raise argparse.ArgumentTypeError(f"{text!r} is neither a DNS name nor an address") from None
        return text


def days(text: str) -> int:
    """How long, as argparse wants a type."""
    if not text.isdecimal() or not 0 < int(text) <= 825:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days from 1 to 825")
    return int(text)
