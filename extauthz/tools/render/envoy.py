"""Renders the configuration of the Envoy that stands between an autoscaler and the API server, from ``templates/``.

Pure: options in, a tree out. What each setting is for stands beside it in the templates; ``tests/envoy`` holds every
one of them against a real Envoy.
"""

from __future__ import annotations

from typing import Any as Tree

from extauthz.core.quota.selectors import CONTEXT_EXTENSION, METADATA

from . import filling, secrets
from .options import CLAMP_TIMEOUT_S, VERIFY_TIMEOUT_S, Anonymous, SidecarOptions
from .routes import rules

GATE = "extauthz"
"""The cluster of the gates, and the name of whatever is ours in Envoy."""

EXT_AUTHZ = "envoy.filters.http.ext_authz"
RBAC = "envoy.filters.http.rbac"
EXT_PROC = "envoy.filters.http.ext_proc"
LUA = "envoy.filters.http.lua"
"""Names of the filters that a write passes."""

MAX_BODY_BYTES = 64 * 1024
"""How much of a body the gate is shown. A count has 16 KiB at most, so a longer body is no count."""

GATE_SEES_HEADERS = ("content-type", "user-agent", "x-request-id")
"""What a decision and its log line need. A list of what may pass, because secrets come under many names:
``authorization``, ``cookie``, and even ``sec-websocket-protocol`` (``base64url.bearer.authorization.k8s.io.…``)."""

ATTRIBUTES = ("request.method", "request.path", "request.headers['content-type']", "request.useragent")
"""What is needed to read a body that may be lowered (mode Clamp)."""

OUTAGE = (
    "quota gate unavailable: nobody could tell whether this write fits its workspace quotas, so it was not forwarded"
    " to the API server; it is safe to try again"
)


def sidecar(options: SidecarOptions) -> dict[str, Tree]:
    """The whole configuration: one listener, the API server twice (ordinary and upgraded requests), the gate."""
    return filling.tree("bootstrap.yaml", options=options, chain=filter_chain(options), clusters=clusters(options))


def filter_chain(options: SidecarOptions, *, in_mesh: bool = False) -> dict[str, Tree]:
    """What ends a client's TLS, asks the gate where it must, and passes on to the ``clusters``.

    Args:
        in_mesh: it stands beside others in the listener of an Istio sidecar.
    """
    return filling.tree(
        "chain.yaml",
        options=options,
        in_mesh=in_mesh,
        rules=list(rules(options.profile, options.exempt_namespaces)),
        not_asked=dict.fromkeys(_asking(options), _SWITCHED_OFF),
        verify=filling.text("verify.lua", options=options),
    )


def clusters(options: SidecarOptions) -> list[Tree]:
    """The API server for ordinary requests and for upgraded ones, and the gate."""
    found: list[Tree] = filling.tree("clusters.yaml", options=options)["clusters"]
    return found


def duration(seconds: float) -> str:
    """As protobuf's JSON has it.

    >>> duration(2.0), duration(0.25), duration(1.0001)
    ('2s', '0.250s', '1.0001s')
    """
    whole, _, part = f"{seconds:.6f}".rstrip("0").partition(".")
    return f"{whole}.{part:0<3}s" if part else f"{whole}s"


_SWITCHED_OFF = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": True}


def _asking(options: SidecarOptions) -> list[str]:
    """The filters that a request passes undisturbed only where its route says so."""
    verify = [LUA] if options.anonymous is Anonymous.VERIFY else []
    return [*verify, *([EXT_PROC] if options.clamp else []), EXT_AUTHZ, RBAC]


filling.templates().globals.update(
    {"EXT_AUTHZ": EXT_AUTHZ, "EXT_PROC": EXT_PROC, "LUA": LUA, "RBAC": RBAC}
    | {"ATTRIBUTES": ATTRIBUTES, "GATE_SEES_HEADERS": GATE_SEES_HEADERS, "MAX_BODY_BYTES": MAX_BODY_BYTES}
    | {"CLAMP_TIMEOUT_S": CLAMP_TIMEOUT_S, "VERIFY_TIMEOUT_S": VERIFY_TIMEOUT_S}
    | {"CONTEXT_EXTENSION": CONTEXT_EXTENSION, "METADATA": METADATA, "OUTAGE": OUTAGE, "GATE": GATE}
    | {"duration": duration, "sds": secrets.sds}
)
