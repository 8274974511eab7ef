"""Flags of ``extauthz render``: of what it prints, and of ``render envoy``."""

from __future__ import annotations

import argparse
from pathlib import Path

from extauthz.cli.flags import render_istio, render_tls, render_webhook, sidecar
from extauthz.render.manifests import FORMATS
from extauthz.render.options import PARTS, SidecarOptions

DESCRIPTION = """\
Prints configuration for others that ask the gate. Manifests of the gate itself are a Helm chart, charts/extauthz, and
what it makes, deploy/ (docs/render.md)."""


DEFAULTS = SidecarOptions()


BOOTSTRAP = "bootstrap"


EPILOG = f"""\
{sidecar.PROFILES}
examples:
  extauthz render envoy > sidecar.yaml
  extauthz render envoy --part serving > /etc/extauthz/envoy/serving.yaml
  extauthz render envoy --part apiserver-ca > /etc/extauthz/envoy/apiserver-ca.yaml
  extauthz render envoy --profile scale --listen 127.0.0.1:6444 --apiserver 10.0.0.1:443 --apiserver-name 10.0.0.1
  extauthz render envoy --gate extauthz.extauthz-system.svc:9191 --gate-ca /etc/extauthz/gate/ca.crt
  extauthz render envoy --gate unix:/run/extauthz/gate.sock -o json

The bootstrap names a file in --secrets for each other part. With TLS to the gate there are gate-ca and, with a
certificate to show, gate-client too. Print each with the same options.

Check the result with `envoy --mode validate -c sidecar.yaml`; the files it names must exist for that."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    commands_parser = commands.add_parser("render", description=DESCRIPTION)
    what = commands_parser.add_subparsers(metavar="WHAT", required=True, dest="what")
    envoy = what.add_parser(
        "envoy",
        help="an Envoy between an autoscaler and the API server",
        description="Prints the configuration of an Envoy between an autoscaler and the API server, a part at a time.",
        epilog=EPILOG,
    )
    envoy.add_argument(
        "--part",
        choices=(BOOTSTRAP, *PARTS),
        default=BOOTSTRAP,
        help="What to print: the bootstrap, or what it finds a certificate or an authority by. Default: bootstrap.",
    )
    places = envoy.add_argument_group("places")
    add_place = sidecar.adder_of_places(places)
    add_place("--listen", help=f"Where the client connects. Default: {sidecar.shown(DEFAULTS.listen)}.")
    sidecar.add_places(places, DEFAULTS)
    sidecar.add_secrets(places, DEFAULTS, "the other parts, as PART.yaml")
    add_place(
        "--admin", help=f"Envoy's admin page; it has no authentication. Default: {sidecar.shown(DEFAULTS.admin)}."
    )
    sidecar.add_behaviour(envoy.add_argument_group("behaviour"), DEFAULTS)
    envoy.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")
    render_istio.add_parsers(what)
    render_tls.add_parser(what)
    render_webhook.add_parser(what)
    parsers = dict(what.choices)
    for parser in parsers.values():
        _add_values(parser)
    schema = what.add_parser("schema", help="JSON Schema of the file that --values names")
    schema.set_defaults(values=None, output="json")
    commands_parser.set_defaults(sections=parsers)


def _add_values(parser: argparse.ArgumentParser) -> None:
    """Add ``--values``."""
    what = "Options in YAML, as `extauthz render schema` describes it; flags win over it. Default: none."
    parser.add_argument("--values", type=Path, metavar="FILE", help=what)
    parser.set_defaults(parser=parser)
