"""``extauthz render``: configuration for others that ask the gate, printed."""

from __future__ import annotations

import argparse
import shlex
import sys

from extauthz.cli import exits, render_istio, render_tls, render_values, render_webhook, sidecar_flags
from extauthz.render import envoy, secrets
from extauthz.render.options import SidecarOptions

DESCRIPTION = """\
Prints configuration for others that ask the gate. Manifests of the gate itself are a Helm chart, charts/extauthz, and
what it makes, deploy/ (docs/render.md)."""

FORMATS = {"yaml": envoy.to_yaml, "json": envoy.to_json}

HEADER = "# Made by `{}`; change its options rather than this file.\n"

DEFAULTS = SidecarOptions()

BOOTSTRAP = "bootstrap"

EPILOG = f"""\
{sidecar_flags.PROFILES}
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
    sidecar = what.add_parser(
        "envoy",
        help="an Envoy between an autoscaler and the API server",
        description="Prints the configuration of an Envoy between an autoscaler and the API server, a part at a time.",
        epilog=EPILOG,
    )
    sidecar.add_argument(
        "--part",
        choices=(BOOTSTRAP, *secrets.NAMES),
        default=BOOTSTRAP,
        help="What to print: the bootstrap, or what it finds a certificate or an authority by. Default: bootstrap.",
    )
    places = sidecar.add_argument_group("places")
    add_place = sidecar_flags.adder_of_places(places)
    add_place("--listen", help=f"Where the client connects. Default: {sidecar_flags.shown(DEFAULTS.listen)}.")
    sidecar_flags.add_places(places, DEFAULTS)
    sidecar_flags.add_secrets(places, DEFAULTS, "the other parts, as PART.yaml")
    add_place(
        "--admin",
        help=f"Envoy's admin page; it has no authentication. Default: {sidecar_flags.shown(DEFAULTS.admin)}.",
    )
    sidecar_flags.add_behaviour(sidecar.add_argument_group("behaviour"), DEFAULTS)
    sidecar.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")
    sidecar.set_defaults(rendered=_rendered)
    render_istio.add_parsers(what)
    render_tls.add_parser(what)
    render_webhook.add_parser(what)
    parsers = dict(what.choices)
    for parser in parsers.values():
        render_values.add_flag(parser)
    schema = what.add_parser("schema", help="JSON Schema of the file that --values names")
    schema.set_defaults(rendered=lambda _: render_values.schema(parsers), values=None, output="json")
    commands_parser.set_defaults(sections=tuple(parsers))


def run(arguments: argparse.Namespace) -> int:
    """Print the configuration."""
    try:
        render_values.fill_in(arguments, arguments.sections)
        text: str = arguments.rendered(arguments)
    except render_values.ValuesError as error:
        return exits.fail(exits.DATA, error)
    except ValueError as error:
        sys.stderr.write(f"extauthz render {arguments.what}: {error}\n")
        return exits.USAGE
    header = HEADER.format(shlex.join(["extauthz", *arguments.words])) if arguments.output == "yaml" else ""
    sys.stdout.write(header + text)
    return 0


def _rendered(arguments: argparse.Namespace) -> str:
    options = sidecar_flags.options(arguments, DEFAULTS)
    to_text = FORMATS[arguments.output]
    if arguments.part == BOOTSTRAP:
        return to_text(envoy.sidecar(options))
    files = secrets.files(options)
    if arguments.part not in files:
        flags = "--gate-ca" if arguments.part == secrets.GATE_CA else "--gate-ca, --gate-cert and --gate-key"
        raise ValueError(f"--part {arguments.part} is for TLS to the gate: add {flags}, or leave it out")
    return to_text(files[arguments.part])
