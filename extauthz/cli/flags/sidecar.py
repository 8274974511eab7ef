"""Flags of every ``extauthz render`` that puts an Envoy before the API server."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from extauthz.cli.flags import types
from extauthz.serve.service import setting_types
from extauthz.tools.render.options import Anonymous, Endpoint, GateTls, Outage, Profile, SidecarOptions

PROFILES = """\
profiles:
  writes      all that can grow a workload: an egress gateway, behind which anybody may be
  autoscaler  scale, and writes to a workload that is there: Knative, KEDA
  scale       only the scale subresource: kube-controller-manager, whose rollouts must go on without the gate
"""


GATE_NAME = "extauthz"

user = types.reading(
    lambda text: text if 0 < len(text) <= 256 and text.isprintable() and "*" not in text else None,
    "is no user; write for example system:serviceaccount:keda:keda-operator",
)
"""A user of the API server."""
duration = types.number(lambda seconds: 0.0 < seconds < 86_400.0, "is no number of seconds between 0 and a day")


class Choices:
    """Adds flags that set a field of some options each, and say what that is without them.

    Args:
        defaults: the options.
        words: what a field is without its flag, where the options do not say it.
    """

    def __init__(self, parser: argparse._ActionsContainer, defaults: object, **words: str | None) -> None:
        self._parser, self._defaults, self._words = parser, defaults, words

    def __call__(self, flag: str, text: str, metavar: str | None = None, field: str = "", **how: Any) -> None:  # noqa: ANN401
        """Add one. ``field``: where the flag has another name."""
        field = field or flag.removeprefix("--").replace("-", "_")
        default = self._words.get(field) or shown(getattr(self._defaults, field))
        more = how | ({"metavar": metavar} if metavar is not None else {})
        self._parser.add_argument(flag, dest=field, help=f"{text} Default: {default}.", **more)


def add_places(parser: argparse._ArgumentGroup, defaults: SidecarOptions, *, apiserver: str | None = None) -> None:
    """Where the certificates, the API server and the gate are. ``apiserver``: its default in words."""
    tls = defaults.gate_tls or GateTls("plain text", GATE_NAME, "none", "none")
    add = Choices(
        parser, defaults, apiserver=apiserver, **{f"gate_{name}": shown(value) for name, value in asdict(tls).items()}
    )
    add("--cert", "Served to the client, which must trust it.", "FILE", "cert_file")
    add("--key", "Its key.", "FILE", "key_file")
    add("--apiserver", "The API server.", "ADDR", type=endpoint)
    add("--apiserver-name", "DNS name or IP address that its certificate must carry.", "NAME")
    add("--apiserver-ca", "The CA that it is verified by.", "FILE", "apiserver_ca_file")
    add("--gate", "The gate's gRPC server, also unix:/path.", "ADDR", type=endpoint)
    add(
        "--gate-failover",
        "A gate on the same ledger, with the same name in its certificate, to ask while --gate is not well, for "
        "example in another zone. May be repeated, in this order.",
        "ADDR",
        "failover_gates",
        type=endpoint,
        action="append",
    )
    add("--gate-ca", "Speak TLS to the gate, verified by this CA.", "FILE", "gate_ca_file")
    add("--gate-name", "In the gate's certificate.", "NAME", "gate_server_name")
    add("--gate-cert", "Certificate to show to the gate (mTLS).", "FILE", "gate_cert_file")
    add("--gate-key", "Its key.", "FILE", "gate_key_file")


def add_behaviour(parser: argparse._ArgumentGroup, defaults: SidecarOptions) -> None:
    """What Envoy asks about, and what it does without an answer."""
    add = Choices(
        parser,
        defaults,
        exempt_namespaces=", ".join(defaults.exempt_namespaces) or "the one it is rendered for",
        clamp="counts stay as they are",
        requester="the gate is not told, and such a quota binds them",
    )
    add("--profile", "Which requests the gate is asked about, see below.", **members_of(Profile))
    add(
        "--exempt-namespace",
        "Never asked about: the gate's own. May be repeated.",
        "NAME",
        "exempt_namespaces",
        type=types.namespace,
        action="append",
    )
    add(
        "--on-outage",
        "What becomes of growth while the gate gives no answer. allow: quotas hold only while it is up.",
        **members_of(Outage),
    )
    add(
        "--anonymous",
        "What becomes of growth without an authorization header. deny: Envoy answers 401; the gate is not asked. "
        "verify: as deny, and of others the API server is asked first whether it lets them write this: for a gateway "
        "that strangers reach.",
        **members_of(Anonymous),
    )
    add(
        "--clamp",
        "Have counts lowered to what fits, where quotas have the mode Clamp. Every write that may grow a workload "
        "is then asked about twice.",
        action="store_true",
        default=None,
    )
    add(
        "--requester",
        "Who alone sends writes this way, as the API server names them: system:serviceaccount:NAMESPACE:NAME. For "
        "quotas with spec.requesters.",
        "USER",
        type=user,
    )
    add("--gate-timeout", "For the decision.", "SECONDS", "gate_timeout_s", type=duration)
    answer = "For the API server's answer to a write that can grow a workload."
    add("--write-timeout", answer, "SECONDS", "write_timeout_s", type=duration)


def members_of(kind: type[StrEnum]) -> dict[str, Any]:
    """Type and choices of a flag for a member of an enumeration."""
    return {"type": types.one_of(kind), "choices": list(kind)}


def shown(value: object) -> str:
    """A default in words."""
    if isinstance(value, Endpoint):
        return str(setting_types.Address(*value))
    return f"{value:g}" if isinstance(value, float) else str(value) if value else "none"


def endpoint(text: str) -> Endpoint:
    try:
        return Endpoint(*setting_types.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
