"""``extauthz render tls``: the certificates of an Envoy before the API server, and of a gate behind a Service."""

from __future__ import annotations

import argparse
from dataclasses import replace

from extauthz.cli.flags.render_tls import DEFAULTS
from extauthz.render import certificates
from extauthz.render.certificates import TlsOptions
from extauthz.render.manifests import FORMATS


def options(arguments: argparse.Namespace) -> TlsOptions:
    """What was asked for, over the defaults."""
    return replace(
        DEFAULTS,
        client_namespace=arguments.namespace or certificates.NAMESPACES[arguments.autoscaler],
        names=tuple(arguments.names or DEFAULTS.names),
        client_facing=arguments.client_facing,
        service=arguments.form == "deployment",
        gate_namespace=arguments.gate_namespace,
        authority_namespace=arguments.authority_namespace,
        days=arguments.days,
    )


def rendered(arguments: argparse.Namespace) -> str:
    """What is asked for."""
    return FORMATS[arguments.output](certificates.ISSUERS[arguments.issuer](options(arguments)))
