"""``extauthz render webhook``: the configuration by which an API server asks the gate."""

from __future__ import annotations

import argparse
from pathlib import Path

from extauthz.cli.flags.render_webhook import DEFAULTS
from extauthz.render import webhook
from extauthz.render.manifests import FORMATS
from extauthz.render.webhook import WebhookOptions


def rendered(arguments: argparse.Namespace) -> str:
    """What is asked for. Raises ValueError."""
    if arguments.pods and arguments.namespace_selector == DEFAULTS.namespace_selector:
        raise ValueError(
            "--webhook-pods needs --namespace-selector, such as workspace: while no gate lives such pods fail in all "
            "namespaces that are asked about, so ask only where quotas are"
        )
    name, namespace, port = arguments.service or (DEFAULTS.service, DEFAULTS.namespace, DEFAULTS.port)
    options = WebhookOptions(
        ca=_ca(arguments.ca),
        service=name,
        namespace=namespace,
        port=port,
        url=arguments.url or "",
        except_namespaces=tuple(arguments.except_namespace),
        namespace_selector=arguments.namespace_selector,
        object_selector=arguments.object_selector,
        conditions=tuple(arguments.match_condition),
        workload_labels=arguments.workload_labels,
        custom=tuple(arguments.custom),
        pods=arguments.pods,
        clamp=arguments.clamp,
    )
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
