"""Is what the gate needs of the cluster there: version, definitions, rights? And all else that is asked of the API
server, straight."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from extauthz.core.quota.spec import API_VERSION, LABEL, QuotaSpecError, WorkspaceQuota, parse
from extauthz.inputs.kube import reviews
from extauthz.inputs.kube.connection import ApiError, get_or_none
from extauthz.inputs.kube.resource import Calls
from extauthz.inputs.kube.reviews import Person, Target
from extauthz.tell.observe.observers import named

from . import table
from .appliers import Scaled, paired
from .dump import Tree
from .table import Row, fail, judged, ok, skipped, warn
from .trust import Identity

NAMES = ("server version", "definitions", "rights", "namespace labels")
OLDEST = (1, 30)
"""docs/install.md."""

APPLY = "kubectl apply -k deploy, of this version of extauthz"
MISTYPED = f"kubectl label namespace NAME --overwrite {LABEL}=QUOTA, or create that WorkspaceQuota"


class Rights(NamedTuple):
    """Which of the gate's rights an account has."""

    whose: str
    whole: bool
    """The answer is about the gate's own account."""
    allowed: Mapping[Target, bool]


_LIST_WATCH = ("list", "watch")
_NEEDED: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("", ("namespaces", "limitranges", "persistentvolumeclaims", "pods", "replicationcontrollers"), _LIST_WATCH),
    ("apps", ("deployments", "statefulsets", "replicasets", "controllerrevisions"), _LIST_WATCH),
    ("batch", ("jobs",), _LIST_WATCH),
    ("node.k8s.io", ("runtimeclasses",), _LIST_WATCH),
    ("resource.k8s.io", ("deviceclasses", "resourceclaims", "resourceclaimtemplates"), _LIST_WATCH),
    ("storage.k8s.io", ("storageclasses",), _LIST_WATCH),
    (table.GROUP, ("workspacequotas",), _LIST_WATCH),
    (table.GROUP, ("workspacequotas/status",), ("patch",)),
    (table.GROUP, ("workspaceledgers",), ("get", "list", "watch", "create", "update")),
    ("events.k8s.io", ("events",), ("create", "patch")),
    ("autoscaling", ("horizontalpodautoscalers",), ("list",)),
    ("autoscaling.internal.knative.dev", ("podautoscalers",), ("list",)),
    ("keda.sh", ("scaledobjects",), ("list",)),
    ("serving.knative.dev", ("services", "configurations", "revisions"), ("get",)),
    ("apiextensions.k8s.io", ("customresourcedefinitions",), _LIST_WATCH),
)
RIGHTS = tuple(
    Target(group, resource, verb=verb)
    for group, resources, verbs in _NEEDED
    for resource in resources
    for verb in verbs
)
"""The rights of ``deploy/rbac.yaml``. A test compares them."""


def version(told: Tree) -> Row:
    """The row of ``/version``."""
    numbers = [re.match(r"\d+", str(told.get(name, ""))) for name in ("major", "minor")]
    found = str(told.get("gitVersion", "unknown"))
    if not all(numbers):
        return warn(NAMES[0], f"{found}: it cannot be told how old it is", "see docs/install.md for what is needed")
    has = tuple(int(number[0]) for number in numbers if number)
    if has < OLDEST:
        return fail(NAMES[0], f"{found}, {OLDEST[0]}.{OLDEST[1]} or later is needed", "upgrade the cluster")
    return ok(NAMES[0], found)


def definitions_row(there: Mapping[str, Tree]) -> Row:
    """``there``: CustomResourceDefinitions by name; those that are missing are left out."""
    problems = []
    for name in table.DEFINITIONS:
        if name not in there:
            problems.append(f"{name} is not there")
            continue
        served = [each["name"] for each in there[name]["spec"]["versions"] if each.get("served")]
        if table.VERSION not in served:
            problems.append(f"{name} is served as {', '.join(served) or 'nothing'}, not {table.VERSION}")
        if not _established(there[name]):
            problems.append(f"{name} is not established")
    return judged(NAMES[1], f"{', '.join(table.DEFINITIONS)} are served as {table.VERSION}", problems, APPLY)


def rights_row(whose: str, allowed: Mapping[Target, bool], *, whole: bool) -> Row:
    """Whether ``whose`` may do all that the gate does.

    Args:
        whose: in words.
        whole: the gate's own account was asked about, as against the one that asks.
    """
    found = f"{whose} may do all {len(RIGHTS)} things that the gate does"
    return may(NAMES[2], whose, {right: bool(allowed.get(right)) for right in RIGHTS}, found, APPLY, whole=whole)


def may(name: str, whose: str, allowed: Mapping[Target, bool], found: str, cure: str, *, whole: bool) -> Row:
    """Whether ``whose`` may do all of ``allowed``; ``found`` if so."""
    missing = [str(right) for right, is_allowed in allowed.items() if not is_allowed]
    if missing:
        if not whole:  # who asks does not need them
            why = f"{whose} may not {named(tuple(missing))}, nor ask what the gate's own account may"
            return skipped(name, why, "--kubeconfig, of who may create subjectaccessreviews")
        return fail(name, f"{whose} may not {named(tuple(missing))}", cure)
    if whole:
        return ok(name, found)
    return warn(name, found, "for the gate's own account, use a --kubeconfig that may create subjectaccessreviews")


def labels_row(quotas: Sequence[WorkspaceQuota], there: Mapping[str, Mapping[str, str]]) -> Row:
    """Whether a quota covers each namespace with the label of quotas that have no selector. ``there``: their labels."""
    name, by_name, inside = NAMES[3], any(quota.by_its_name for quota in quotas), _selected(quotas, there)
    strays = [
        f"{name} ({LABEL}={labels[LABEL]})"
        for name, labels in there.items()
        if by_name and LABEL in labels and name not in inside
    ]
    if not strays:
        return ok(name, f"no namespace has a label {LABEL} that no quota covers")
    return warn(name, f"no quota covers {named(tuple(strays))}: nothing is limited there", MISTYPED)


def _selected(quotas: Sequence[WorkspaceQuota], there: Mapping[str, Mapping[str, str]]) -> set[str]:
    return {name for name, labels in there.items() if any(covers(quota, labels) for quota in quotas)}


def covers(quota: WorkspaceQuota, labels: Mapping[str, str]) -> bool:
    """Whether a quota itself selects a namespace with these labels."""
    return quota.namespace_selector is not None and quota.namespace_selector.matches(labels)


def unknown(names_: Sequence[str], why: str) -> list[Row]:
    """The API server was asked and did not answer."""
    cure = "see that --kubeconfig is of this cluster, reaches it, and may read what the row is about"
    return [fail(name, why, cure) for name in names_]


def _established(definition: Tree) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AT_A_TIME = 8
PAGE = 500
RELEASE = "meta.helm.sh/release-name"
"""The annotation that Helm gives to all that it installs, beside the label ``app.kubernetes.io/managed-by``."""
AT_MOST_CANARIES = 8


async def definitions(api: Calls) -> dict[str, Tree]:
    """Our definitions that exist, by name. Raises ApiError and Unreachable, as all below."""
    found = {name: await get_or_none(api, f"{DEFINITIONS}/{name}") for name in table.DEFINITIONS}
    return {name: tree for name, tree in found.items() if tree is not None}


async def rights(api: Calls, account: str, wanted: Sequence[Target] = RIGHTS) -> Rights:
    """Which of them the service account ``namespace/name`` has. If the asker may not ask that: the asker itself."""
    namespace, _, name = account.partition("/")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    gate = Person(f"system:serviceaccount:{namespace}:{name}", groups)
    try:
        return Rights(f"the service account {account}", True, await _allowed(api, gate, wanted))
    except ApiError as error:
        if error.status != 403:
            raise
        return Rights("the user of --kubeconfig", False, await _allowed(api, None, wanted))


async def _allowed(api: Calls, person: Person | None, wanted: Sequence[Target]) -> dict[Target, bool]:
    turn = asyncio.Semaphore(AT_A_TIME)

    async def one(right: Target) -> bool:
        async with turn:
            return await reviews.may(api, person, right)

    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))


async def identity(api: Calls, token: str) -> Identity:
    """The user of a token, asked straight at the API server."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    try:
        answer = await api.call("POST", reviews.TOKEN_REVIEWS, body=body)
    except ApiError as error:
        return Identity(error=f"no review of the token: {error}")
    status = answer.get("status") or {}
    if not status.get("authenticated"):
        return Identity(error=f"it is not taken: {status.get('error', 'no reason given')}")
    return Identity(user=str(status["user"]["username"]))


async def service(api: Calls, namespace: str, name: str) -> Tree | None:
    """A Service, ``None`` if there is none."""
    return await get_or_none(api, f"/api/v1/namespaces/{namespace}/services/{name}")


async def webhooks(api: Calls) -> list[Tree]:
    return await _items(api, f"{ADMISSION}/validatingwebhookconfigurations")


async def mutating_webhooks(api: Calls) -> list[Tree]:
    return await _items(api, f"{ADMISSION}/mutatingwebhookconfigurations")


async def quotas(api: Calls) -> list[WorkspaceQuota]:
    """All of them, without those that cannot be read."""
    found = []
    for tree in await _items(api, f"/apis/{API_VERSION}/workspacequotas", whole=True):
        with suppress(QuotaSpecError):
            found.append(parse(tree))
    return found


async def namespaces(api: Calls) -> dict[str, dict[str, str]]:
    """The labels of all of them."""
    found = await _items(api, "/api/v1/namespaces", whole=True)
    return {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in found}


async def release(api: Calls, namespace: str) -> str | None:
    """By which release of the chart a gate in a namespace was installed; ``None``: by none."""
    selector = ("labelSelector", "app.kubernetes.io/name=extauthz,app.kubernetes.io/managed-by=Helm")
    for each in await _items(api, f"/apis/apps/v1/namespaces/{namespace}/deployments", selector):
        if name := (each["metadata"].get("annotations") or {}).get(RELEASE):
            return str(name)
    return None


async def scaled(api: Calls) -> list[Scaled]:
    """The first workloads that an HPA targets, with those HPAs."""
    hpas = await _items(api, "/apis/autoscaling/v2/horizontalpodautoscalers")
    kinds = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
    found = [
        each | {"kind": kind} for kind, plural in kinds.items() for each in await _items(api, f"/apis/apps/v1/{plural}")
    ]
    return paired(hpas, found)


async def services(api: Calls) -> list[Tree]:
    """The first of them."""
    return await _items(api, "/api/v1/services")


async def covered(api: Calls) -> set[str]:
    """Namespaces that a quota selects."""
    return _selected(await quotas(api), await namespaces(api))


async def some_deployments(api: Calls, exempt: Sequence[str], first: Collection[str]) -> list[tuple[str, str]]:
    """Namespace and name of one in each of a few namespaces, without those ``exempt``, and those of ``first`` first."""
    found: dict[str, str] = {}
    for each in await _items(api, "/apis/apps/v1/deployments"):
        metadata = each["metadata"]
        if metadata["namespace"] not in exempt:
            found.setdefault(metadata["namespace"], metadata["name"])
    return sorted(found.items(), key=lambda one: one[0] not in first)[:AT_MOST_CANARIES]


async def _items(api: Calls, path: str, *query: tuple[str, str], whole: bool = False) -> list[Tree]:
    """The first ``PAGE``, or all."""
    found: list[Tree] = []
    more = ""
    while True:
        asked = [*query, ("limit", str(PAGE)), *([("continue", more)] if more else [])]
        answer = await api.call("GET", path, query=asked)
        found += answer.get("items") or []
        more = (answer.get("metadata") or {}).get("continue", "")
        if not (whole and more):
            return found
