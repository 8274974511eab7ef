"""Each right of the gate's account is dropped in turn on a real API server, and what needs it fails by that."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from extauthz.core.model import OwnerRef
from extauthz.core.queries import Queries
from extauthz.core.quota.problems import standing
from extauthz.core.quota.spec import parse
from extauthz.inputs.cluster.live import DEPLOYMENTS, PHASES
from extauthz.inputs.kube import reviews, webhooks
from extauthz.inputs.kube.connection import ApiError, connect
from extauthz.inputs.kube.reflector import Reflector
from extauthz.inputs.kube.resource import DEFINITIONS
from extauthz.inputs.sources.kubernetes import WORKSPACE_QUOTAS
from extauthz.serve.ledger_store.kubernetes import WORKSPACE_LEDGERS, KubernetesStore
from extauthz.serve.ledger_store.store import Stored
from extauthz.serve.selfsigned import issuing, keeper, renewal
from extauthz.tell.observe import owners
from extauthz.tell.observe.autoscalers import Autoscalers, Subject
from extauthz.tell.observe.episodes import Episodes
from extauthz.tell.observe.kube_events import EVENTS, KubeEvents
from extauthz.tell.observe.status import StatusWriter
from extauthz.testing import gate, workload
from tests.controlplane.access import RBAC, service_account
from tests.controlplane.api import path_of
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.unit.render.test_chart import Right, rows
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

Tree = Any
GATE = "gate-of-rights"
USER = f"system:serviceaccount:default:{GATE}"
DEPLOY = Path(__file__).parents[2] / "deploy"
ROLE = path_of(f"ClusterRole.{RBAC}/v1", None, GATE)
WITHIN_S = 10.0


class Heard:
    """A connection that notes what the API server refuses: much of it the gate survives, and tells elsewhere."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.server = connection.server
        self.refused: list[str] = []

    async def call(self, *given: Any, **named: Any) -> Tree:
        with self._noted():
            return await self._connection.call(*given, **named)

    async def items(self, *given: Any, **named: Any) -> Tree:
        with self._noted():
            return await self._connection.items(*given, **named)

    @asynccontextmanager
    async def watch(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
        with self._noted():
            async with self._connection.watch(*given, **named) as events:
                yield events

    @contextlib.contextmanager
    def _noted(self) -> Any:
        try:
            yield
        except ApiError as error:
            self.refused.append(str(error))
            raise


class Deaf:
    """An event handler that drops what it is told."""

    def convert(self, tree: Tree) -> Tree:
        return tree

    async def replaced(self, objects: Any, version: str) -> None: ...
    def changed(self, event: str, obj: Tree) -> None: ...
    def reached(self, version: str) -> None: ...


Doing = Callable[[Heard], Awaitable[object]]
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
SIGNER = issuing.authority(NOW, DAY)
HELD = issuing.Held(SIGNER, (), issuing.serving(SIGNER, ["gate"], NOW, DAY))
SECRET = keeper.SecretPlace("default", "extauthz-webhook")
SUBJECT = Subject("apps/v1", "Deployment", "default", "web", "u1")


def followed(resource: Any) -> Doing:
    """In pages, as of an API server that streams no list: there the right to list is needed of each kind."""
    return lambda heard: Reflector(heard, resource, Deaf(), streams_lists=False).run()


async def status(heard: Heard) -> None:
    spec = {"namespaceSelector": {}, "hard": {"pods": "1"}}
    metadata = {"name": "acme", "generation": 1}
    obj = {"apiVersion": WORKSPACE_QUOTAS.api_version, "kind": "WorkspaceQuota", "metadata": metadata, "spec": spec}
    writer = StatusWriter(heard, gate([parse(obj)], workload()), lambda: [standing(obj, 1)], tell=silent)
    await writer.sweep()


def silent(*given: object, **named: object) -> None: ...


def events(heard: Heard) -> KubeEvents:
    known = {("apps", "deployments"): DEPLOYMENTS}
    return KubeEvents(heard, Queries(gate([], workload()).ledger), known, Episodes(), instance="g", tell=silent)


def sent(method: str, path: str) -> Doing:
    return lambda heard: events(heard)._call(method, path, {}, "application/merge-patch+json")


def trusted(kind: str) -> Doing:
    hook = renewal.Hook("one", "gate", b"")
    path = f"{webhooks.COLLECTION}/{kind}/extauthz"
    return lambda heard: renewal.trust(heard, renewal.Configuration(path, "1", (hook,)), b"new")


def owned_by(kind: str) -> Doing:
    return lambda heard: owners.top(heard, "default", OwnerRef("serving.knative.dev", kind, "web", "u1"))


AUTOSCALERS = ("horizontalpodautoscalers.autoscaling", "podautoscalers.autoscaling.internal.knative.dev",
               "scaledobjects.keda.sh")  # fmt: skip
OWNERS = {"services": "Service", "configurations": "Configuration", "revisions": "Revision"}
FOLLOWED = [DEFINITIONS, WORKSPACE_QUOTAS, WORKSPACE_LEDGERS, *(one for phase in PHASES for one in phase)]
DOING: dict[tuple[str, str], Doing] = {
    **{
        (f"{one.plural}.{one.group}".rstrip("."), verb): followed(one) for one in FOLLOWED for verb in ("list", "watch")
    },
    ("workspacequotas/status.extauthz.dev", "patch"): status,
    ("workspaceledgers.extauthz.dev", "get"): lambda heard: KubernetesStore(heard).get(),
    ("workspaceledgers.extauthz.dev", "create"): lambda heard: KubernetesStore(heard).put("x", 0, None),
    ("workspaceledgers.extauthz.dev", "update"): lambda heard: KubernetesStore(heard).put("x", 0, Stored("", "1", "u")),
    ("events.events.k8s.io", "create"): sent("POST", EVENTS.collection("default")),
    ("events.events.k8s.io", "patch"): sent("PATCH", EVENTS.object("default", "one")),
    **{(one, "list"): lambda heard: Autoscalers(heard, lambda: 0.0).of(SUBJECT) for one in AUTOSCALERS},
    **{(f"{plural}.serving.knative.dev", "get"): owned_by(kind) for plural, kind in OWNERS.items()},
    **{
        (f"{kind}.admissionregistration.k8s.io", "get"): lambda heard: renewal.read(heard, "extauthz")
        for kind in (webhooks.VALIDATING, webhooks.MUTATING)
    },
    **{
        (f"{kind}.admissionregistration.k8s.io", "patch"): trusted(kind)
        for kind in (webhooks.VALIDATING, webhooks.MUTATING)
    },
    ("secrets", "get"): lambda heard: keeper.get(heard, SECRET),
    ("secrets", "update"): lambda heard: keeper.put(heard, SECRET, HELD, {"metadata": {"name": SECRET.name}}),
    ("tokenreviews.authentication.k8s.io", "create"): lambda heard: reviews.person_of(heard, "nobody's"),
    ("subjectaccessreviews.authorization.k8s.io", "create"): lambda heard: reviews.may(
        heard, reviews.Person("jane"), reviews.Target("", "pods", "")
    ),
}


def rule(right: Right) -> Tree:
    resource, _, group = right.resource.partition(".")
    return {"apiGroups": [group], "resources": [resource], "verbs": [right.verb]} | (
        {"resourceNames": [right.name]} if right.name else {}
    )


def role(*rights: Right) -> Tree:
    kind = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": GATE}}
    return kind | {"rules": [rule(one) for one in rights]}


def is_allowed(plane: Plane, right: Right) -> bool:
    resource, _, group = right.resource.partition(".")
    resource, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": resource, "subresource": subresource, "verb": right.verb, "name": right.name}
    spec = {"user": USER, "resourceAttributes": asked}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(plane.api.call("POST", reviews.ACCESS_REVIEWS, body)["status"]["allowed"])


async def refusals(heard: Heard, doing: Doing) -> list[str]:
    """What the API server refuses to it, and how it ended."""
    heard.refused.clear()
    task = asyncio.ensure_future(doing(heard))
    for _ in range(int(WITHIN_S / 0.01)):
        if task.done() or heard.refused:
            break
        await asyncio.sleep(0.01)
    if not task.done():
        await asyncio.sleep(0.05)  # one that goes on asks the rest of what it asks
    task.cancel()
    ended = await asyncio.gather(task, return_exceptions=True)
    return [*heard.refused, repr(ended)]


def test_each_right_has_somebody_who_needs_it_here() -> None:
    rights = [right for each, _ in rows() for right in each]
    assert {(right.resource, right.verb) for right in rights} == set(DOING)
    assert not [right for right, times in Counter(rights).items() if times > 1]


async def test_without_each_right_what_needs_it_fails_by_that(plane: Plane, tmp_path: Path) -> None:
    rights = [right for each, _ in rows() for right in each]
    token = service_account(plane, "default", GATE, GATE)
    plane.api.create(role(*rights))
    for part in ("crd", "ledger-crd"):
        plane.kubectl("apply", "--filename", str(DEPLOY / f"{part}.yaml"))
    eventually(
        lambda: (
            plane.api.serves("WorkspaceQuota") and plane.api.serves(f"WorkspaceLedger.{WORKSPACE_LEDGERS.api_version}")
        )
    )
    write_kubeconfig(tmp_path / "kubeconfig", plane.url, plane.ca, {"token": token})
    lacking: list[tuple[Right, list[str]]] = []
    async with connect(tmp_path / "kubeconfig") as connection:
        heard = Heard(connection)
        for right in rights:
            await asyncio.to_thread(plane.api.call, "PUT", ROLE, role(*(one for one in rights if one != right)))
            await asyncio.to_thread(eventually, lambda right=right: not is_allowed(plane, right))
            told = await refusals(heard, DOING[right.resource, right.verb])
            resource = right.resource.partition(".")[0]
            if not any(f'cannot {right.verb} resource "{resource}"' in one for one in told):
                lacking.append((right, told))
    assert not lacking, "no code of the gate was refused by that"
