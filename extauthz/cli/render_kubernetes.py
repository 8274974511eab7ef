"""``extauthz render kubernetes``: the gate on a cluster, as manifests."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial

from extauthz.cli import render_sidecar, sidecar_flags
from extauthz.render import beside, gate, kubernetes, manifests
from extauthz.render.manifests import Part
from extauthz.service.version import VERSION

FORMATS: dict[str, Callable[[Sequence[Part]], str]] = {"yaml": manifests.to_yaml, "json": manifests.to_json}

DEFAULTS = gate.GateOptions(image=f"extauthz:{VERSION}")

ONLY = {
    "deployment": ("traffic",),
    "sidecar": tuple(render_sidecar.FLAGS),
}
"""Options that the other form does not use. They are refused there."""

EPILOG = f"""\
forms and their parts, in the order of installation:
  deployment  gates behind a Service: {", ".join(kubernetes.PARTS)}
  sidecar     gate and Envoy in the autoscaler's pod: {", ".join(beside.PARTS)}

{sidecar_flags.PROFILES}
examples:
  extauthz render kubernetes --image registry.example.com/extauthz:{VERSION} | kubectl apply -f -
  extauthz render kubernetes --part deployment --mode audit > deployment.yaml
  extauthz render kubernetes --as sidecar --autoscaler keda |
      kubectl apply --server-side --field-manager=extauthz -f -
  extauthz render kubernetes --as sidecar --autoscaler knative --part pod > patches/autoscaler.yaml

The Secret of --tls-secret comes first: `extauthz render tls`. See docs/render.md."""


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
    add = parser.add_argument
    add(
        "--as",
        dest="form",
        choices=ONLY,
        default="deployment",
        help="Where the gate runs, see below. Default: deployment.",
    )
    parts = list(dict.fromkeys([*kubernetes.PARTS, *beside.PARTS]))
    add("--part", action="append", choices=parts, dest="parts", help="May be repeated. Default: all of the form's.")
    add_gate(parser.add_argument_group("gate"))
    render_sidecar.add_flags(parser.add_argument_group("sidecar"))
    parser.add_argument("-o", "--output", choices=FORMATS, default="yaml", help="Default: yaml.")
    parser.set_defaults(rendered=_rendered)


def add_gate(parser: argparse._ArgumentGroup) -> None:
    """The gate's own flags. Each sets the field of ``GateOptions`` that it is named after."""
    add = parser.add_argument
    told = f"Default: {DEFAULTS.image}, which is published nowhere yet."
    add("--image", type=image, metavar="IMAGE", help=f"What `docker build .` made, where your nodes find it. {told}")
    place = f"Default: {DEFAULTS.namespace}; of a sidecar, the autoscaler's own."
    add("--namespace", type=sidecar_flags.namespace, metavar="NAME", help=f"Where it runs. {place}")
    many = f"Default: {DEFAULTS.replicas}; of the hpa-controller, {render_sidecar.REPLICAS}."
    add("--replicas", type=replicas, metavar="N", help=f"How many gates. {many}")
    _choice(add, "--mode", gate.Mode, "audit: allow everything, and tell what would have been refused.")
    _choice(add, "--ledger", gate.Ledger, "memory: for a single gate.")
    add("--log-level", choices=gate.LOG_LEVELS, help=f"Default: {DEFAULTS.log_level}.")
    secret = f"Default: {DEFAULTS.tls_secret}; of a sidecar, what Envoy shows: {render_sidecar.SECRET}."
    add("--tls-secret", type=name, metavar="NAME", help=f"The gate's certificate. {secret}")
    _choice(add, "--traffic", gate.Traffic, "Which gate an Envoy is led to; Kubernetes 1.34 has a new name for it.")


def options(arguments: argparse.Namespace, defaults: gate.GateOptions = DEFAULTS) -> gate.GateOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    said = {field.name: getattr(arguments, field.name) for field in fields(gate.GateOptions)}
    return replace(defaults, **{name: value for name, value in said.items() if value is not None})


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
    _refuse_strangers(arguments)
    parts = _deployment(arguments) if arguments.form == "deployment" else render_sidecar.parts(arguments, options)
    if strange := set(arguments.parts or ()) - set(parts):
        raise ValueError(f"--as {arguments.form} has no --part {min(strange)}, but {', '.join(parts)}")
    wanted = arguments.parts or parts
    return FORMATS[arguments.output]([make() for word, make in parts.items() if word in wanted])


def _deployment(arguments: argparse.Namespace) -> dict[str, Callable[[], Part]]:
    chosen = options(arguments)
    return {word: partial(make, chosen) for word, make in kubernetes.PARTS.items()}


def _refuse_strangers(arguments: argparse.Namespace) -> None:
    """A flag that would change nothing is a misunderstanding."""
    for form, names in ONLY.items():
        said = [name for name in names if getattr(arguments, name) is not None]
        if form != arguments.form and said:
            flag = render_sidecar.FLAGS.get(said[0], f"--{said[0]}")
            raise ValueError(f"{flag} is for --as {form}: add that, or leave {flag} out")


def _choice(
    add: Callable[..., argparse.Action], flag: str, kind: type[gate.Mode | gate.Ledger | gate.Traffic], text: str
) -> None:
    default = getattr(DEFAULTS, flag.lstrip("-"))
    add(flag, type=kind, choices=list(kind), help=f"{text} Default: {default}.")


def replicas(text: str) -> int:
    """How many, as argparse wants a type."""
    if not text.isdecimal() or not 0 < int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of gates from 1 to 100")
    return int(text)
