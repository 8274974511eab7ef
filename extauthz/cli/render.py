"""``extauthz render``: configuration for others that ask the gate, printed."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping

from extauthz.cli import exits, render_istio, render_sidecar, render_tls, render_values, render_webhook
from extauthz.cli.flags.render import BOOTSTRAP, DEFAULTS
from extauthz.render import envoy, secrets
from extauthz.render.options import GATE_CA

FORMATS = {"yaml": envoy.to_yaml, "json": envoy.to_json}

HEADER = "# Made by `{}`; change its options rather than this file.\n"


def run(arguments: argparse.Namespace) -> int:
    """Print the configuration."""
    try:
        render_values.fill_in(arguments, arguments.sections)
        text: str = RENDERED[arguments.what](arguments)
    except render_values.ValuesError as error:
        return exits.fail(exits.DATA, error)
    except ValueError as error:
        sys.stderr.write(f"extauthz render {arguments.what}: {error}\n")
        return exits.USAGE
    header = HEADER.format(shlex.join(["extauthz", *arguments.words])) if arguments.output == "yaml" else ""
    sys.stdout.write(header + text)
    return 0


def _envoy(arguments: argparse.Namespace) -> str:
    options = render_sidecar.options(arguments, DEFAULTS)
    to_text = FORMATS[arguments.output]
    if arguments.part == BOOTSTRAP:
        return to_text(envoy.sidecar(options))
    files = secrets.files(options)
    if arguments.part not in files:
        flags = "--gate-ca" if arguments.part == GATE_CA else "--gate-ca, --gate-cert and --gate-key"
        raise ValueError(f"--part {arguments.part} is for TLS to the gate: add {flags}, or leave it out")
    return to_text(files[arguments.part])


RENDERED: Mapping[str, Callable[[argparse.Namespace], str]] = {
    "envoy": _envoy,
    **dict.fromkeys(render_istio.RENDER, render_istio.rendered),
    "tls": render_tls.rendered,
    "webhook": render_webhook.rendered,
    "schema": lambda arguments: render_values.schema(arguments.sections),
}
