"""What gets around the gate: other addresses of the API server, and whether anything stands behind them.

A sidecar is no security boundary. From here it is told what there is, not what a NetworkPolicy would let through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .dump import Dump
from .rows import Row, ok, skipped, warn

Tree: TypeAlias = Any

NAMES = ("way around", "backstop")
PASSTHROUGH = "PassthroughCluster"
"""Istio's, for whatever no Service is known of (``meshConfig.outboundTrafficPolicy: ALLOW_ANY``)."""

CLOSE = (
    "let a NetworkPolicy of the autoscaler's pods allow only what goes through its Envoy, where the network can tell"
)
NO_BACKSTOP = (
    "what does not pass Envoy is observed and counted, but not refused (docs/guarantee.md); this version ships no"
    " ValidatingAdmissionPolicy or webhook"
)
OURS = "extauthz"


def way(service: Tree | None, slices: Sequence[Tree], dump: Dump | None, gated: Sequence[str]) -> Row:
    """Addresses of the API server that no listener with our chain is named after.

    Args:
        service: the Service ``default/kubernetes``; ``None``: not looked at.
        slices: its EndpointSlices.
        dump: the proxy's; ``None``: not looked at.
        gated: names and ``address:port`` of listeners that ask the gate.
    """
    if service is None:
        return skipped(NAMES[0], "not told which cluster", "--kubeconfig")
    ports = [int(each["port"]) for each in service["spec"].get("ports", [])]
    addresses = [(str(service["spec"].get("clusterIP", "")), port) for port in ports[:1]]
    for one in slices:
        port = next((int(each["port"]) for each in one.get("ports") or [] if each.get("port")), 0)
        addresses += [(ip, port) for each in one.get("endpoints") or [] for ip in each.get("addresses", [])]
    free = [f"{ip}:{port}" for ip, port in addresses if not {f"{ip}_{port}", f"{ip}:{port}"} & set(gated)]
    if not free:
        return ok(NAMES[0], "every address that the cluster publishes of its API server asks the gate")
    passes = dump is not None and any(PASSTHROUGH in name for name in dump.clusters)
    how = "; this proxy passes on what it does not know (PassthroughCluster)" if passes else ""
    return warn(NAMES[0], f"the API server also answers, undecided, at {', '.join(free)}{how}", CLOSE)


def backstop(policies: Sequence[Tree] | None, webhooks: Sequence[Tree]) -> Row:
    """``None``: not looked at."""
    if policies is None:
        return skipped(NAMES[1], "not told which cluster", "--kubeconfig")
    found = [
        f"{each.get('kind', 'policy')} {each['metadata']['name']}" for each in [*policies, *webhooks] if _ours(each)
    ]
    if not found:
        return warn(NAMES[1], "none", NO_BACKSTOP)
    return ok(NAMES[1], ", ".join(found))


def _ours(tree: Tree) -> bool:
    labels = tree["metadata"].get("labels") or {}
    return OURS in tree["metadata"]["name"] or labels.get("app.kubernetes.io/name") == OURS
