"""The flags of ``extauthz render kubernetes --as sidecar``, and what they make."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from extauthz.cli import sidecar_flags
from extauthz.render import beside, hpa
from extauthz.render.gate import GateOptions, Ledger
from extauthz.render.manifests import Part
from extauthz.render.options import Profile
from extauthz.service.version import VERSION

HPA = "hpa-controller"
DEFAULT = "keda"
DEFAULTS = beside.BesideOptions()
SECRET = DEFAULTS.gate.tls_secret
REPLICAS = hpa.REPLICAS

FLAGS = {
    "autoscaler": "--autoscaler",
    "envoy_image": "--envoy-image",
    "manager_image": "--manager-image",
    "profile": "--profile",
    "exempt_namespaces": "--exempt-namespace",
    "on_outage": "--on-outage",
    "anonymous": "--anonymous",
    "gate_timeout_s": "--gate-timeout",
    "write_timeout_s": "--write-timeout",
    "body_timeout_s": "--body-timeout",
}
"""Options of this form only, by their names among parsed arguments."""


def add_flags(parser: argparse._ArgumentGroup) -> None:
    """The pod, and how Envoy behaves in it."""
    add = parser.add_argument
    add(
        "--autoscaler",
        choices=beside.AUTOSCALERS,
        help=f"Whose pod. {HPA}: kube-controller-manager with that one controller, which the control plane's own then "
        f"leaves out. Default: {DEFAULT}.",
    )
    for what, image in (("envoy", DEFAULTS.envoy_image), ("manager", DEFAULTS.manager_image)):
        add(f"--{what}-image", metavar="IMAGE", help=f"Default: {image}.")
    behaviour = replace(DEFAULTS.sidecar, profile=Profile.AUTOSCALER, exempt_namespaces=())
    sidecar_flags.add_behaviour(parser, behaviour)


def parts(
    arguments: argparse.Namespace, gate_options: Callable[[argparse.Namespace, GateOptions], GateOptions]
) -> dict[str, Callable[[], Part]]:
    """Each part of the form by its name.

    Raises:
        ValueError: flags that do not go together.
    """
    which = arguments.autoscaler or DEFAULT
    if arguments.replicas is not None and which != HPA:
        raise ValueError(f"--replicas is the Deployment's own of {which}: leave it out, or --autoscaler {HPA}")
    autoscaler = beside.AUTOSCALERS[which]
    many = REPLICAS if which == HPA and arguments.ledger is not Ledger.MEMORY else 1
    defaults = replace(DEFAULTS.gate, namespace=autoscaler.namespace, replicas=many)
    gate = gate_options(arguments, replace(defaults, image=f"extauthz:{VERSION}"))
    envoy = replace(DEFAULTS.sidecar, profile=autoscaler.profile, exempt_namespaces=(gate.namespace,))
    said = {name: getattr(arguments, name) for name in ("envoy_image", "manager_image")}
    options = replace(
        DEFAULTS,
        autoscaler=autoscaler,
        gate=gate,
        sidecar=sidecar_flags.options(arguments, envoy),
        **{name: image for name, image in said.items() if image is not None},
    )
    made = hpa.PARTS if which == HPA else beside.PARTS
    return {word: partial(make, options) for word, make in made.items()}
