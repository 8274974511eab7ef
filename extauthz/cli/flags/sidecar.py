"""Flags of every ``extauthz render`` that puts an Envoy before the API server."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TypeVar

from extauthz.serve.service import setting_types
from extauthz.tools.render.options import Anonymous, Endpoint, GateTls, Outage, Profile, SidecarOptions

Choice = TypeVar("Choice", bound=StrEnum)


PROFILES = """\
profiles:
  writes      all that can grow a workload: an egress gateway, behind which anybody may be
  autoscaler  scale, and writes to a workload that is there: Knative, KEDA
  scale       only the scale subresource: kube-controller-manager, whose rollouts must go on without the gate
"""


GATE_NAME = "extauthz"


def add_places(parser: argparse._ArgumentGroup, defaults: SidecarOptions, *, apiserver: str | None = None) -> None:
    """Where the certificates, the API server and the gate are. ``apiserver``: its default in words."""
    add, place, file = parser.add_argument, adder_of_places(parser), partial(parser.add_argument, metavar="FILE")
    tls = defaults.gate_tls or GateTls("plain text", GATE_NAME, "none", "none")
    file("--cert", dest="cert_file", help=f"Served to the client, which must trust it. Default: {defaults.cert_file}.")
    file("--key", dest="key_file", help=f"Its key. Default: {defaults.key_file}.")
    place("--apiserver", help=f"The API server. Default: {apiserver or shown(defaults.apiserver)}.")
    add(
        "--apiserver-name",
        metavar="NAME",
        help=f"DNS name or IP address that its certificate must carry. Default: {defaults.apiserver_name}.",
    )
    file(
        "--apiserver-ca",
        dest="apiserver_ca_file",
        help=f"The CA that it is verified by. Default: {defaults.apiserver_ca_file}.",
    )
    place("--gate", help=f"The gate's gRPC server, also unix:/path. Default: {shown(defaults.gate)}.")
    place(
        "--gate-failover",
        dest="failover_gates",
        action="append",
        help="A gate on the same ledger, with the same name in its certificate, to ask while --gate is not well, for "
        "example in another zone. May be repeated, in this order. Default: none.",
    )
    file("--gate-ca", dest="gate_ca_file", help=f"Speak TLS to the gate, verified by this CA. Default: {tls.ca_file}.")
    add(
        "--gate-name",
        dest="gate_server_name",
        metavar="NAME",
        help=f"In the gate's certificate. Default: {tls.server_name}.",
    )
    file(
        "--gate-cert", dest="gate_cert_file", help=f"Certificate to show to the gate (mTLS). Default: {tls.cert_file}."
    )
    file("--gate-key", dest="gate_key_file", help=f"Its key. Default: {tls.key_file}.")
    file("--access-log", help=f"A line for each decided write and each failure. Default: {defaults.access_log}.")


def add_secrets(parser: argparse._ArgumentGroup, defaults: SidecarOptions, what: str) -> None:
    """Folder of the files that name Envoy's certificates."""
    text = f"Where Envoy finds {what}. Default: {defaults.secrets_dir}."
    parser.add_argument("--secrets", dest="secrets_dir", metavar="DIR", help=text)


def add_behaviour(parser: argparse._ArgumentGroup, defaults: SidecarOptions) -> None:
    """What Envoy asks about, and what it does without an answer."""
    add = parser.add_argument
    seconds = partial(add, type=duration, metavar="SECONDS")
    add(
        "--profile",
        type=one_of(Profile),
        choices=list(Profile),
        help=f"Which requests the gate is asked about, see below. Default: {defaults.profile}.",
    )
    add(
        "--exempt-namespace",
        dest="exempt_namespaces",
        type=namespace,
        action="append",
        metavar="NAME",
        help="Never asked about: the gate's own. May be repeated. "
        f"Default: {', '.join(defaults.exempt_namespaces) or 'the one it is rendered for'}.",
    )
    add(
        "--on-outage",
        type=one_of(Outage),
        choices=list(Outage),
        help="What becomes of growth while the gate gives no answer. allow: quotas hold only while it is up. "
        f"Default: {defaults.on_outage}.",
    )
    add(
        "--anonymous",
        type=one_of(Anonymous),
        choices=list(Anonymous),
        help="What becomes of growth without an authorization header. deny: Envoy answers 401; the gate is not asked. "
        "verify: as deny, and of others the API server is asked first whether it lets them write this: for a gateway "
        "that strangers reach. "
        f"Default: {defaults.anonymous}.",
    )
    add(
        "--clamp",
        action="store_true",
        default=None,
        help="Have counts lowered to what fits, where quotas have the mode Clamp. Every write that may grow a workload "
        "is then asked about twice. Default: counts stay as they are.",
    )
    add(
        "--requester",
        type=user,
        metavar="USER",
        help="Who alone sends writes this way, as the API server names them: system:serviceaccount:NAMESPACE:NAME. For "
        "quotas with spec.requesters. Default: the gate is not told, and such a quota binds them.",
    )
    seconds("--gate-timeout", dest="gate_timeout_s", help=f"For the decision. Default: {defaults.gate_timeout_s:g}.")
    seconds(
        "--write-timeout",
        dest="write_timeout_s",
        help=f"For the API server's answer to a write that can grow a workload. Default: {defaults.write_timeout_s:g}.",
    )
    seconds("--body-timeout", dest="body_timeout_s", help=f"For its body. Default: {defaults.body_timeout_s:g}.")


def one_of(kind: type[Choice]) -> Callable[[str], Choice]:
    """A type for argparse: a member of an enumeration. An error lists the members."""

    def made(text: str) -> Choice:
        try:
            return kind(text)
        except ValueError:
            choices = ", ".join(kind)
            raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {choices})") from None

    return made


def adder_of_places(parser: argparse._ArgumentGroup) -> partial[argparse.Action]:
    """Adds a flag that takes an address."""
    return partial(parser.add_argument, type=_endpoint, metavar="ADDR")


def shown(place: Endpoint | None) -> str:
    return "none" if place is None else str(setting_types.Address(*place))


def namespace(text: str) -> str:
    """A name of a namespace (RFC 1123 label), as argparse wants a type."""
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a namespace")
    return text


def user(text: str) -> str:
    """A user of the API server, as argparse wants a type."""
    if not text or len(text) > 256 or not text.isprintable() or "*" in text:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no user; write for example system:serviceaccount:keda:keda-operator"
        )
    return text


def object_name(text: str) -> str:
    """A name of an object (RFC 1123 subdomain), as argparse wants a type."""
    if len(text) > 253 or re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no name: lower-case letters, digits, dots and dashes")
    return text


def _endpoint(text: str) -> Endpoint:
    try:
        return Endpoint(*setting_types.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def duration(text: str) -> float:
    """Seconds, as argparse wants a type."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < 86_400.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds between 0 and a day")
    return seconds
