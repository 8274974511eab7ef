"""The client path: requests to the autoscaler's API server address, with its trust and its token."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from extauthz.serve.servers.ext_authz import DECISION_ID_HEADER
from extauthz.serve.service.setting_types import Address

from . import canary, table
from .canary import Canary, CanaryReply
from .dump import Dump, Tree
from .table import Row, ok, warn
from .trust import Handshake, Identity, go_strict, shake

WITHIN_S = 15.0
"""For each step of a request: longer than the gate may take, short enough for a person who waits."""

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class ClientPath:
    """The API server's URL as a client sees it. Each request has a connection of its own.

    Raises:
        OSError: ``ca`` holds no certificates; names it.
    """

    def __init__(self, url: str, ca: Path | None, token: str | None) -> None:
        parts = urlsplit(url)
        self._below = parts.path.rstrip("/")
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._tls = trusting(ca)
        self._token = token

    @property
    def host(self) -> str:
        return f"{self._host}:{self._port}"

    async def addresses(self) -> tuple[str, ...]:
        """Addresses of the host name; empty if it has none."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return ()
        return tuple(dict.fromkeys(str(each[4][0]) for each in found))

    async def handshake(self) -> Handshake:
        """A TLS handshake, verified as the client does it."""
        return await asyncio.to_thread(shake, (self._host, self._port), self._tls, self._host, WITHIN_S)

    async def identity(self) -> Identity:
        """The user that the API server sees for the token, through this path."""
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
        status, text, _ = await self._send("POST", REVIEWS, body, "application/json")
        try:
            said = json.loads(text)
            return Identity(user=said["status"]["userInfo"]["username"])
        except (ValueError, KeyError, TypeError):
            return Identity(error=f"{status or 'no answer'}: {message(text)}")

    async def canary(self, sent: Canary) -> CanaryReply:
        """Send one canary; its answer."""
        status, text, given = await self._send("PATCH", sent.target, sent.body, canary.MEDIA)
        return CanaryReply(status, given.get(DECISION_ID_HEADER, ""), message(text))

    async def _send(self, method: str, path: str, body: bytes, media: str) -> tuple[int, str, Mapping[str, str]]:
        """Status, text and headers (names in lower case). Without an answer: status 0 and the reason as text."""
        return await asyncio.to_thread(self._exchange, method, self._below + path, body, headers(media, self._token))

    def _exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, str, Mapping[str, str]]:
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=WITHIN_S, context=self._tls)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            return answer.status, text, {name.lower(): value for name, value in answer.getheaders()}
        except TimeoutError:
            return 0, f"nothing came within {WITHIN_S:g} s", {}
        except (http.client.HTTPException, OSError) as error:
            return 0, str(error) or type(error).__name__, {}
        finally:
            connection.close()


NOBODYS_TOKEN = "extauthz-doctor"  # noqa: S105 (no secret)
"""Sent where no token was given: without a token Envoy does not ask the gate (``render envoy --anonymous``). The API
server answers 401."""


def headers(media: str, token: str | None) -> dict[str, str]:
    """Headers of a request with a body of that media type."""
    proof = {"Authorization": f"Bearer {token or NOBODYS_TOKEN}"}
    return {"Content-Type": media, "Accept": "application/json", "User-Agent": "extauthz-doctor"} | proof


def trusting(ca: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise OSError(f"--ca {ca}: {error.strerror or error}; it must hold certificates in PEM") from error
    return go_strict(context)


def message(text: str) -> str:
    """The message of a ``metav1.Status``, else the beginning of the text."""
    try:
        said = json.loads(text)
        return str(said["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


# Bypasses: other addresses of the API server that do not ask the gate, and policies that stand behind the gate.
#
# A sidecar is no security boundary. Only a try from the autoscaler's place shows what the network lets through.

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


def classify(address: Address, answer: CanaryReply) -> Found:
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


def row(tried: Tried, dump: Dump | None, *, covered: bool = False) -> Row:
    """The row. An open bypass is a warning: people need one, and a sidecar shares the network of its autoscaler.

    Args:
        dump: the proxy's; ``None``: not looked at.
        covered: the API server itself asks, by the webhook, wherever a write comes from.
    """
    name = NAMES[0]
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


def backstop(policies: Sequence[Tree], webhooks: Sequence[Tree], *, works: bool = False) -> Row:
    """What refuses what passes no Envoy. ``works``: a webhook of ours was seen to work."""
    name = NAMES[1]
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
