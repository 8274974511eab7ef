"""The options that the flags of an Envoy before the API server make."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from extauthz.cli.flags import sidecar
from extauthz.render import clusters
from extauthz.render.options import Endpoint, GateTls, SidecarOptions


def options(arguments: argparse.Namespace, defaults: SidecarOptions) -> SidecarOptions:
    """What was asked for, over the defaults.

    Raises:
        ValueError: flags that do not go together.
    """
    said = {name: value for name, value in vars(arguments).items() if value is not None}
    chosen = {field.name: said[field.name] for field in fields(SidecarOptions) if field.name in said}
    _only_one_kind([chosen.get("gate", defaults.gate), *chosen.get("failover_gates", ())])
    return replace(defaults, **chosen, gate_tls=_gate_tls(said, defaults.gate_tls))


def _only_one_kind(gates: Sequence[Endpoint]) -> None:
    """Envoy resolves all addresses of a cluster, or none; a socket has no name."""
    sockets = [one for one in gates if one.path]
    names = [one for one in gates if not one.path and not clusters.is_ip(one.host)]
    if sockets and names:
        raise ValueError(
            f"--gate-failover: {sidecar.shown(sockets[0])} and the name {sidecar.shown(names[0])} do not go together"
        )


def _gate_tls(said: Mapping[str, str], default: GateTls | None) -> GateTls | None:
    """Half of it is refused: else Envoy would speak plain text to a gate that expects TLS."""
    wanted = {field.name: said[f"gate_{field.name}"] for field in fields(GateTls) if f"gate_{field.name}" in said}
    if ("cert_file" in wanted) != ("key_file" in wanted):
        raise ValueError("--gate-cert and --gate-key go together")
    if default is not None:
        return replace(default, **wanted)
    if "ca_file" in wanted:
        return GateTls(**{"server_name": sidecar.GATE_NAME} | wanted)
    if "cert_file" in wanted:
        raise ValueError("--gate-cert needs --gate-ca: the gate is verified before it is shown a certificate")
    return None
