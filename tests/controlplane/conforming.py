"""One write at two entrances: what ext_authz says of its bytes, and what comes of them at a real API server that asks
the webhook. Every quota is exactly full, so that growth is refused and the objects mostly stay as they are.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from extauthz.core.decision.gate import Gate as Deciding
from extauthz.core.decision.policy import Policy
from extauthz.core.intake.admission import NAME
from extauthz.core.intake.counts import read
from extauthz.core.model import Decision, Observed, Request, Unknown, WorkloadRef
from extauthz.core.quota.selectors import LabelSelector
from extauthz.core.quota.spec import Mode, WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.demo.gate import Gate
from extauthz.testing import snapshot
from extauthz.tools.render.webhook import Custom, WebhookOptions, configuration
from tests.controlplane import fixtures
from tests.controlplane.api import RefusedError
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.wire import Reply, Wire, spell
from tests.support.objects import quota
from tests.waiting import WITHIN_S, eventually

Tree = Any

GATED = ("deployments", "statefulsets", "replicasets", "replicationcontrollers")
BUILT_IN = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
KEYS = (
    "requests.cpu", "limits.cpu", "requests.memory", "limits.memory", "pods", "requests.storage",
    "requests.nvidia.com/gpu", "count/deployments.apps", "count/statefulsets.apps", "count/replicationcontrollers",
    "requests.ephemeral-storage", "limits.ephemeral-storage", "persistentvolumeclaims",
)  # fmt: skip
CRD = Path(__file__).parents[2] / "deploy" / "crd.yaml"
NANO = 10**9
POLL_S = 0.005
RESTORER = "restorer"
"""Who puts objects back: the webhook is not asked about that."""
DENIED = (NAME.encode(), b"denied the request: ")
"""In the sentence of a refusal, however it is encoded."""
FAILED = b"failed calling webhook"


class Outcome(StrEnum):
    """What came of a write at the API server."""

    ALLOW = "allow"
    DENY = "deny"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    """By the API server itself."""


class Said(NamedTuple):
    """What both entrances say."""

    ext_authz: Decision
    outcome: Outcome
    reply: Reply


class Restorer(Wire):
    """An administrator whose writes pass without a question."""

    def json(self, method: str, target: str, tree: Tree = None, content_type: str = "application/json") -> Reply:
        body = b"" if tree is None else json.dumps(tree).encode()
        headers = [("impersonate-user", RESTORER), ("impersonate-group", "system:masters")]
        return self.send(spell(method, target, headers + ([("content-type", content_type)] if body else []), body))


class Remembering(Wire):
    """Keeps the last answer."""

    last = Reply(0, b"")

    def send(self, raw: bytes) -> Reply:
        self.last = super().send(raw)
        return self.last


class Entrances:
    """Both, on one API server."""

    def __init__(self, plane: Plane, gate: Gate, hard: Mapping[str, int]) -> None:
        self._plane, self._gate, self._hard = plane, gate, hard
        self._deciding: Deciding | None = None
        self._known: dict[str, str] = {}

    def known(self, objects: Mapping[str, Tree]) -> None:
        """Wait until the gate behind the webhook has seen these objects; ext_authz knows them at once."""
        until_s = time.monotonic() + WITHIN_S
        versions = {ref: tree["metadata"]["resourceVersion"] for ref, tree in objects.items()}
        for ref in versions.keys() | self._known.keys():
            is_gated = ref.split(".")[0].split(" ")[0] in GATED
            if is_gated and versions.get(ref) != self._known.get(ref):
                while not self._has_seen(ref, versions.get(ref)):  # a watch takes some milliseconds
                    assert time.monotonic() < until_s, ref
                    time.sleep(POLL_S)
        self._known = versions
        self._deciding = full_gate(objects, self._hard)

    def _has_seen(self, ref: str, version: str | None) -> bool:
        return self._version(ref) == version

    def _version(self, ref: str) -> str | None:
        resource, _, place = ref.partition(" ")
        namespace, name = place.split("/")
        try:
            found = json.loads(self._gate.page(f"/api/v1/namespaces/{namespace}/workloads/{resource}/{name}/headroom"))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None
        version: str = found["resourceVersion"]
        return version

    def decided(self, request: Request) -> Decision:
        """What ext_authz says."""
        assert self._deciding is not None
        return self._deciding.decide(read(request), "ext-authz", 0.0, charge=False)


def outcome(reply: Reply) -> Outcome:
    """What an answer of the API server means."""
    if reply.status in (200, 201):
        return Outcome.ALLOW
    if all(part in reply.body for part in DENIED):
        return Outcome.DENY if reply.status == 403 else Outcome.UNAVAILABLE
    return Outcome.REFUSED


def full_gate(objects: Mapping[str, Tree], hard: Mapping[str, int]) -> Deciding:
    """A gate that knows these objects, under one quota of everything."""
    deciding = Deciding(Policy(allows={Unknown.FOOTPRINT}))
    quota = WorkspaceQuota("all", namespace_selector=LabelSelector(), hard=dict(hard), mode=Mode.ENFORCE)
    deciding.load_quotas(QuotaTree.build([quota]), 0.0)
    namespaces: dict[str, Mapping[str, str]] = {tree["metadata"]["namespace"]: {} for tree in objects.values()}
    state = snapshot(*(one for one in objects.values() if one["kind"] in BUILT_IN), namespaces=namespaces)
    state.workloads.extend(_custom(ref, tree) for ref, tree in objects.items() if tree["kind"] not in BUILT_IN)
    deciding.load_state(state, 0.0)
    return deciding


def _custom(ref: str, tree: Tree) -> tuple[WorkloadRef, Observed]:
    """A custom resource, of which nothing but a count is known."""
    kind, _, place = ref.partition(" ")
    resource, _, group = kind.partition(".")
    metadata = tree["metadata"]
    count = fixtures.digest(ref, tree)["replicas"]
    found = Observed(count, None, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    return WorkloadRef(group, resource, *place.split("/")), found


def used(objects: Mapping[str, Tree]) -> dict[str, int]:
    """What they take: as a limit, it is exactly full."""
    return {row.resource: row.used for row in full_gate(objects, dict.fromkeys(KEYS, 0)).usage()}


@contextlib.contextmanager
def entrances(plane: Plane, objects: Mapping[str, Tree]) -> Iterator[Entrances]:
    """A gate on an API server that has these objects, and its webhook in force."""
    plane.kubectl("apply", "--server-side", f"--filename={CRD}")
    eventually(lambda: plane.api.serves("WorkspaceQuota"))
    hard = used(objects)
    plane.api.create(quota("all", {key: _quantity(amount) for key, amount in hard.items()}, labels={}))
    (port,) = free_ports(1)
    pair = [f"--webhook-cert={plane.folder / 'server.crt'}"]
    flags = [
        f"--kubeconfig={plane.kubeconfig}",
        f"--webhook=127.0.0.1:{port}",
        *pair,
        "--ledger=memory",
        "--window-s=2",
        "--allow-unknown=unknown-footprint",
    ]
    with Gate("kubernetes", "kubernetes", plane.folder / "gate.log", [*flags, "--allow-unknown=unclean-start"]) as gate:
        both = Entrances(plane, gate, hard)
        both.known(objects)
        plane.api.create(_configuration(plane, port))
        eventually(lambda: _is_asked(plane))
        yield both


def _quantity(nano: int) -> str:
    return f"{nano}n" if nano % NANO else str(nano // NANO)


def _configuration(plane: Plane, port: int) -> Tree:
    custom = (Custom("example.dev", "gadgets"), Custom("example.dev", "widgets"))
    tree = configuration(WebhookOptions(ca=plane.ca.read_bytes(), url=f"https://127.0.0.1:{port}", custom=custom))
    spared = {"name": "not-by-the-test", "expression": f"request.userInfo.username != '{RESTORER}'"}
    tree["webhooks"][0]["matchConditions"].append(spared)
    return tree


def _is_asked(plane: Plane) -> bool:
    """An API server takes a new configuration in about a second."""
    try:
        probe = fixtures.deployment("probe", 1000)
        plane.api.call("POST", "/apis/apps/v1/namespaces/default/deployments?dryRun=All", probe)
    except RefusedError as error:
        return all(part in str(error).encode() for part in DENIED)
    return False
