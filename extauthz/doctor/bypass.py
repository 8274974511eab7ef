"""Bypasses: other addresses of the API server that do not ask the gate, and policies that stand behind the gate.

A sidecar is no security boundary. Only a try from the autoscaler's place shows what the network lets through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

from extauthz.service.addresses import Address

from . import table
from .canary import Answer
from .dump import Dump
from .table import Row, ok, skipped, warn

Tree: TypeAlias = Any

NAMES = ("way around", "backstop")
PASSTHROUGH = "PassthroughCluster"
"""Istio's cluster for addresses of no known Service (``meshConfig.outboundTrafficPolicy: ALLOW_ANY``)."""
AT_MOST = 16
"""Addresses that are dialled. A control plane has three or five API servers, each with an address or two."""

CLOSE = (
    "let a NetworkPolicy of the autoscaler's pods allow only what goes through its Envoy, where the network can tell;"
    " else only its configuration keeps the autoscaler from it (docs/guarantee.md)"
)
BE_THERE = (
    "run it in the autoscaler's pod, or on its node, with --url, --ca and --token-file, so that the row canary is ok"
)
LOOK = "see who answers there, and that --ca or --kubeconfig has the API server's authority; then run it again"
NO_BACKSTOP = (
    "what does not pass Envoy is observed and counted, but not refused (docs/guarantee.md); the admission webhook"
    " refuses it too (docs/webhook.md)"
)
OURS = "extauthz"


class State(Enum):
    """What an address turned out to be."""

    CLOSED = auto()
    """Nothing answers there."""
    ASKS = auto()
    """The gate decides there too: something redirects."""
    OPEN = auto()
    """A bypass: nobody decided the write there."""
    UNKNOWN = auto()
    """Somebody answers there, and what happens to a write is not known."""


class Found(NamedTuple):
    """An address that was dialled."""

    address: Address
    state: State
    told: str
    """What was found there. The sentence goes on with ``at`` and the address."""


class Tried(NamedTuple):
    """What was found at the addresses that no listener of ours covers."""

    place: str
    """The host that they were dialled from."""
    about: str
    """The Deployment of the canary that the gate decided on the autoscaler's path; empty: none was decided."""
    found: Sequence[Found]
    left: int = 0
    """How many addresses were not dialled."""


def published(service: Tree, slices: Sequence[Tree]) -> list[Address]:
    """Addresses of the Service ``default/kubernetes`` and its EndpointSlices, each once."""
    return list(dict.fromkeys(_published(service, slices)))


def _published(service: Tree, slices: Sequence[Tree]) -> Iterator[Address]:
    spec = service["spec"]
    ports = [int(each["port"]) for each in spec.get("ports", [])]
    for ip in spec.get("clusterIPs") or [spec.get("clusterIP", "")]:
        yield from (Address(str(ip), port) for port in ports[:1] if ip not in ("", "None"))
    for one in slices:
        port = next((int(each["port"]) for each in one.get("ports") or [] if each.get("port")), 0)
        for each in one.get("endpoints") or []:
            yield from (Address(str(ip), port) for ip in each.get("addresses", []) if port)


def ungated(addresses: Sequence[Address], dump: Dump | None) -> list[Address]:
    """Addresses that no listener with our chain covers. ``dump``: the proxy's; ``None``: not looked at."""
    if dump is None:
        return list(addresses)
    asking = {each.listener for each in dump.chains()}
    listeners = [each for each in dump.listeners if each.name in asking]
    gated = {name for each in listeners for name in (each.name, ":".join(map(str, each.address)))}
    return [each for each in addresses if not {f"{each.host}_{each.port}", f"{each.host}:{each.port}"} & gated]


def classify(address: Address, answer: Answer) -> Found:
    """What the answer to the canary shows. The certificate of who gave it was trusted."""
    if answer.decision_id:
        return Found(address, State.ASKS, f"decided as well ({answer.status})")
    if table.WEBHOOK in answer.message:
        return Found(address, State.ASKS, f"decided by the webhook ({answer.status})")
    if table.OUTAGE in answer.message:
        return Found(address, State.ASKS, f"a question to the gate that it did not answer ({answer.status})")
    if answer.status >= 500:
        return Found(address, State.UNKNOWN, f"{answer.status} ({answer.message.strip()})")
    how = "taken" if answer.status < 300 else "answered"
    return Found(address, State.OPEN, f"{how} undecided ({answer.status})")


def row(tried: Tried | None, dump: Dump | None, *, covered: bool = False) -> Row:
    """The row. An open bypass is a warning: people need one, and a sidecar shares the network of its autoscaler.

    Args:
        tried: ``None``: it is not known which cluster.
        dump: the proxy's; ``None``: not looked at.
        covered: the API server itself asks, by the webhook, wherever a write comes from.
    """
    name = NAMES[0]
    if tried is None:
        return skipped(name, "not told which cluster", "--kubeconfig")
    if not tried.found:
        return ok(name, "every address that the cluster publishes of its API server asks the gate")
    states = {each.state for each in tried.found}
    if tried.about and not tried.left and states <= {State.CLOSED, State.ASKS}:
        return ok(name, _told(tried))
    if covered:
        return ok(name, f"{_told(tried)}; what gets there the API server asks the webhook about")
    passes = dump is not None and any(PASSTHROUGH in cluster for cluster in dump.clusters)
    how = "; this proxy passes on what it does not know (PassthroughCluster)" if passes else ""
    there = LOOK if State.UNKNOWN in states and State.OPEN not in states else CLOSE
    cure = there if tried.about else BE_THERE
    return warn(name, _told(tried) + how, cure)


def _told(tried: Tried) -> str:
    alike: dict[str, list[str]] = {}
    for each in tried.found:
        alike.setdefault(each.told, []).append(str(each.address))
    said = [f"{told} at {', '.join(addresses)}" for told, addresses in alike.items()]
    if tried.left:
        said.append(f"{tried.left} more were not tried")
    if tried.about:
        return f"tried from {tried.place}, where a dry run on {tried.about} is decided: {'; '.join(said)}"
    said.append("no write was tried")
    return f"tried from {tried.place}, which was not seen to be where the autoscaler is: {'; '.join(said)}"


def backstop(policies: Sequence[Tree] | None, webhooks: Sequence[Tree], *, works: bool = False) -> Row:
    """What refuses what passes no Envoy.

    Args:
        policies: ``None``: not looked at.
        works: a webhook of ours was seen to work.
    """
    name = NAMES[1]
    if policies is None:
        return skipped(name, "not told which cluster", "--kubeconfig")
    bound, hooks = ([_called(each) for each in some if _ours(each)] for some in (policies, webhooks))
    if bound or (hooks and works):
        return ok(name, ", ".join([*bound, *hooks]))
    if hooks:
        return warn(name, f"{', '.join(hooks)}, which was not seen to work", "see the rows of the webhook")
    return warn(name, "none", NO_BACKSTOP)


def _called(tree: Tree) -> str:
    return f"{tree.get('kind', 'policy')} {tree['metadata']['name']}"


def _ours(tree: Tree) -> bool:
    labels = tree["metadata"].get("labels") or {}
    return OURS in tree["metadata"]["name"] or labels.get("app.kubernetes.io/name") == OURS
