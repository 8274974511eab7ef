"""``extauthz render kubernetes``: the gate on a cluster, as manifests."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import fields

from extauthz.render import gate, kubernetes, manifests
from extauthz.render.manifests import Part
from extauthz.service.version import VERSION

FORMATS: dict[str, Callable[[Sequence[Part]], str]] = {"yaml": manifests.to_yaml, "json": manifests.to_json}

DEFAULTS = gate.GateOptions(image=f"extauthz:{VERSION}")

EPILOG = f"""\
parts, in the order of installation: {", ".join(kubernetes.PARTS)}

examples:
  extauthz render kubernetes --image registry.example.com/extauthz:{VERSION} | kubectl apply -f -
  extauthz render kubernetes --part deployment --mode audit > deployment.yaml

The Secret of --tls-secret comes first: docs/install.md."""


def add_parser(what: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "the gate on a cluster: manifests"
    parser = what.add_parser(
        "kubernetes",
        help=text,
        description=f"Prints {text}.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--part", action="append", choices=kubernetes.PARTS, dest="parts", help="May be repeated. Default: all of them."
    )
    add_gate(parser.add_argument_group("gate"))
    parser.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")
    parser.set_defaults(rendered=_rendered)


def add_gate(parser: argparse._ArgumentGroup) -> None:
    """The gate's own flags. Each sets the field of ``GateOptions`` that it is named after."""
    add = parser.add_argument
    told = f"Default: {DEFAULTS.image}, which is published nowhere yet."
    add("--image", type=image, metavar="IMAGE", help=f"What `docker build .` made, where your nodes find it. {told}")
    add("--namespace", type=name, metavar="NAME", help=f"Where it runs. Default: {DEFAULTS.namespace}.")
    add("--replicas", type=_replicas, metavar="N", help=f"How many gates. Default: {DEFAULTS.replicas}.")
    _choice(add, "--mode", gate.Mode, "audit: allow everything, and tell what would have been refused.")
    _choice(add, "--ledger", gate.Ledger, "memory: for a single gate.")
    add("--log-level", choices=gate.LOG_LEVELS, help=f"Default: {DEFAULTS.log_level}.")
    add("--tls-secret", type=name, metavar="NAME", help=f"The gate's certificate. Default: {DEFAULTS.tls_secret}.")
    _choice(add, "--traffic", gate.Traffic, "Which gate an Envoy is led to; Kubernetes 1.34 has a new name for it.")


def options(arguments: argparse.Namespace) -> gate.GateOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    said = {field.name: getattr(arguments, field.name, None) for field in fields(gate.GateOptions)}
    defaults = {field.name: getattr(DEFAULTS, field.name) for field in fields(gate.GateOptions)}
    return gate.GateOptions(**defaults | {name: value for name, value in said.items() if value is not None})


def name(text: str) -> str:
    """A name of an object (RFC 1123 subdomain), as argparse wants a type."""
    if len(text) > 253 or re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no name: lower-case letters, digits, dots and dashes")
    return text


def image(text: str) -> str:
    """A reference to an image, as argparse wants a type."""
    if re.fullmatch(r"[^\s:@/][^\s]*[^\s:@/]", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no image; write it as registry.example.com/extauthz:{VERSION}")
    return text


def _rendered(arguments: argparse.Namespace) -> str:
    chosen = options(arguments)
    wanted = arguments.parts or kubernetes.PARTS
    return FORMATS[arguments.output]([part(chosen) for word, part in kubernetes.PARTS.items() if word in wanted])


def _choice(
    add: Callable[..., argparse.Action], flag: str, kind: type[gate.Mode | gate.Ledger | gate.Traffic], text: str
) -> None:
    default = getattr(DEFAULTS, flag.lstrip("-"))
    add(flag, type=kind, choices=list(kind), help=f"{text} Default: {default}.")


def _replicas(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of gates from 1 to 100")
    return int(text)
