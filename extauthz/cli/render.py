"""``extauthz render``: configuration for others that ask the gate, printed."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from dataclasses import fields
from functools import partial

from extauthz.cli import exits
from extauthz.render import envoy
from extauthz.render.options import Endpoint, GateTls, Outage, Profile, SidecarOptions
from extauthz.service import addresses

FORMATS = {"yaml": envoy.to_yaml, "json": envoy.to_json}

HEADER = "# Made by `{}`; change its options rather than this file.\n"

DEFAULTS = SidecarOptions()

PROFILES = """\
profiles:
  writes      all that can grow a workload: an egress gateway, behind which anybody may be
  autoscaler  scale, and writes to a workload that is there: Knative, KEDA
  scale       only the scale subresource: kube-controller-manager, whose rollouts must go on without the gate
"""

EPILOG = f"""\
{PROFILES}
examples:
  extauthz render envoy > sidecar.yaml
  extauthz render envoy --profile scale --listen 127.0.0.1:6444 --apiserver 10.0.0.1:443 --apiserver-name 10.0.0.1
  extauthz render envoy --gate extauthz.extauthz-system.svc:9191 --gate-ca /etc/extauthz/gate/ca.crt
  extauthz render envoy --gate unix:/run/extauthz/gate.sock -o json

Check the result with `envoy --mode validate -c sidecar.yaml`; the files it names must exist for that."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("render", description="Prints configuration for others that ask the gate.")
    what = parser.add_subparsers(metavar="WHAT", required=True)
    sidecar = what.add_parser(
        "envoy",
        help="an Envoy between an autoscaler and the API server",
        description="Prints the bootstrap of an Envoy between an autoscaler and the API server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _places(sidecar)
    _behaviour(sidecar)
    sidecar.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")


def run(arguments: argparse.Namespace) -> int:
    """Print the configuration."""
    problem = _problem(arguments)
    if problem is not None:
        sys.stderr.write(f"extauthz render envoy: {problem}\n")
        return exits.USAGE
    known = {field.name for field in fields(SidecarOptions)}
    chosen = {name: value for name, value in vars(arguments).items() if name in known and value is not None}
    if arguments.gate_ca_file:
        chosen["gate_tls"] = GateTls(
            arguments.gate_ca_file, arguments.gate_name, arguments.gate_cert_file, arguments.gate_key_file
        )
    config = envoy.sidecar(SidecarOptions(**chosen))
    header = HEADER.format(shlex.join(["extauthz", *arguments.words])) if arguments.output == "yaml" else ""
    sys.stdout.write(header + FORMATS[arguments.output](config))
    return 0


def _problem(arguments: argparse.Namespace) -> str | None:
    """Flags that do not go together. Left alone, they would mean plain text to a gate that was to be spoken TLS to."""
    if (arguments.gate_cert_file is None) != (arguments.gate_key_file is None):
        return "--gate-cert and --gate-key go together"
    if arguments.gate_cert_file is not None and arguments.gate_ca_file is None:
        return "--gate-cert needs --gate-ca: the gate is verified before it is shown a certificate"
    return None


def _places(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("places").add_argument
    place = partial(add, type=_endpoint, metavar="ADDR")
    file = partial(add, metavar="FILE")
    place("--listen", help="Where the client connects. Default: 127.0.0.1:6443.")
    file("--cert", dest="cert_file", help=f"Served to the client, which must trust it. Default: {DEFAULTS.cert_file}.")
    file("--key", dest="key_file", help=f"Its key. Default: {DEFAULTS.key_file}.")
    place("--apiserver", help="The API server. Default: kubernetes.default.svc:443.")
    add(
        "--apiserver-name",
        metavar="NAME",
        help=f"DNS name or IP address that its certificate must carry. Default: {DEFAULTS.apiserver_name}.",
    )
    file(
        "--apiserver-ca",
        dest="apiserver_ca_file",
        help=f"The CA that it is verified by. Default: {DEFAULTS.apiserver_ca_file}.",
    )
    place("--gate", help="The gate's gRPC door, also unix:/path. Default: 127.0.0.1:9191.")
    file("--gate-ca", dest="gate_ca_file", help="Speak TLS to the gate, verified by this CA. Default: plain text.")
    add("--gate-name", metavar="NAME", default="extauthz", help="In the gate's certificate. Default: extauthz.")
    file("--gate-cert", dest="gate_cert_file", help="Certificate to show to the gate (mTLS). Default: none.")
    file("--gate-key", dest="gate_key_file", help="Its key. Default: none.")
    place("--admin", help="Envoy's admin page; it has no authentication. Default: 127.0.0.1:9901.")
    file("--access-log", help=f"A line for each decided write and each failure. Default: {DEFAULTS.access_log}.")


def _behaviour(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("behaviour").add_argument
    seconds = partial(add, type=_seconds, metavar="SECONDS")
    add(
        "--profile",
        type=Profile,
        choices=list(Profile),
        help=f"Which requests the gate is asked about, see below. Default: {DEFAULTS.profile}.",
    )
    add(
        "--exempt-namespace",
        dest="exempt_namespaces",
        type=_namespace,
        action="append",
        metavar="NAME",
        help="Never asked about: the gate's own. May be repeated. Default: extauthz-system.",
    )
    add(
        "--on-outage",
        type=Outage,
        choices=list(Outage),
        help="What becomes of growth while the gate gives no answer. allow: quotas hold only while it is up. "
        f"Default: {DEFAULTS.on_outage}.",
    )
    seconds("--gate-timeout", dest="gate_timeout_s", help=f"For the decision. Default: {DEFAULTS.gate_timeout_s:g}.")
    seconds(
        "--write-timeout",
        dest="write_timeout_s",
        help=f"For the API server's answer to a write that can grow a workload. Default: {DEFAULTS.write_timeout_s:g}.",
    )
    seconds("--body-timeout", dest="body_timeout_s", help=f"For its body. Default: {DEFAULTS.body_timeout_s:g}.")


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
