"""``extauthz render``: configuration for others that ask the gate, printed."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import fields
from functools import partial

from extauthz.render import envoy
from extauthz.render.options import Endpoint, GateTls, Outage, Profile, SidecarOptions
from extauthz.service import addresses

FORMATS = {"yaml": envoy.to_yaml, "json": envoy.to_json}

HEADER = "# Made by `extauthz render envoy`; change its options rather than this file.\n"

DEFAULTS = SidecarOptions()

EPILOG = """\
examples:
  extauthz render envoy > sidecar.yaml
  extauthz render envoy --profile scale --listen 127.0.0.1:6444 --apiserver 10.0.0.1:443 --apiserver-name 10.0.0.1
  extauthz render envoy --gate unix:/run/extauthz/gate.sock -o json

Check the result with `envoy --mode validate -c sidecar.yaml`; the files it names must exist for that."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("render", description="Prints configuration for others that ask the gate.")
    what = parser.add_subparsers(metavar="WHAT", required=True)
    sidecar = what.add_parser(
        "envoy",
        help="an Envoy between one autoscaler and the API server",
        description="Prints the bootstrap of an Envoy between one autoscaler and the API server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _places(sidecar)
    _behaviour(sidecar)
    sidecar.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")


def run(arguments: argparse.Namespace) -> int:
    """Print the configuration."""
    known = {field.name for field in fields(SidecarOptions)}
    chosen = {name: value for name, value in vars(arguments).items() if name in known and value is not None}
    if arguments.gate_ca_file:
        chosen["gate_tls"] = GateTls(
            arguments.gate_ca_file, arguments.gate_name, arguments.gate_cert_file, arguments.gate_key_file
        )
    config = envoy.sidecar(SidecarOptions(**chosen))
    header = HEADER if arguments.output == "yaml" else ""
    sys.stdout.write(header + FORMATS[arguments.output](config))
    return 0


def _places(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    place = partial(add, type=_endpoint, metavar="ADDR")
    file = partial(add, metavar="FILE")
    place("--listen", help="Where the autoscaler connects. Default: 127.0.0.1:6443.")
    file("--cert", dest="cert_file", help=f"Served to the autoscaler. Default: {DEFAULTS.cert_file}.")
    file("--key", dest="key_file", help=f"Its key. Default: {DEFAULTS.key_file}.")
    place("--apiserver", help="The API server. Default: kubernetes.default.svc:443.")
    add("--apiserver-name", metavar="NAME", help=f"In its certificate. Default: {DEFAULTS.apiserver_name}.")
    file("--apiserver-ca", dest="apiserver_ca_file", help="The CA that it is verified by.")
    place("--gate", help="The gate's gRPC door, also unix:/path. Default: 127.0.0.1:9191.")
    file("--gate-ca", dest="gate_ca_file", help="Speak TLS to the gate, verified by this CA.")
    add("--gate-name", metavar="NAME", default="extauthz", help="In the gate's certificate. Default: extauthz.")
    file("--gate-cert", dest="gate_cert_file", help="Certificate to show to the gate (mTLS).")
    file("--gate-key", dest="gate_key_file", help="Its key.")
    place("--admin", help="Envoy's admin page; it has no authentication. Default: 127.0.0.1:9901.")
    file("--access-log", help="Default: /dev/stdout.")


def _behaviour(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    seconds = partial(add, type=_seconds, metavar="SECONDS")
    seconds("--gate-timeout", dest="gate_timeout_s", help=f"Default: {DEFAULTS.gate_timeout_s:g}.")
    seconds(
        "--write-timeout",
        dest="write_timeout_s",
        help=f"For the API server's answer to a write that can grow a workload. Default: {DEFAULTS.write_timeout_s:g}.",
    )
    seconds("--body-timeout", dest="body_timeout_s", help=f"Default: {DEFAULTS.body_timeout_s:g}.")
    add("--on-outage", type=Outage, choices=list(Outage), help="While the gate gives no answer. Default: deny.")
    add("--profile", type=Profile, choices=list(Profile), help="writes: all that can grow a workload (default).")
    add(
        "--exempt-namespace",
        dest="exempt_namespaces",
        type=_namespace,
        action="append",
        metavar="NAME",
        help="Never asked about: the gate's own. May be repeated. Default: extauthz-system.",
    )


def _endpoint(text: str) -> Endpoint:
    try:
        return Endpoint(*addresses.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _namespace(text: str) -> str:
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text) is None:  # RFC 1123 label
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a namespace")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < 86_400.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds between 0 and a day")
    return seconds
