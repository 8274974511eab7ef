"""Asks the API server, straight, for what the checks need."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from extauthz.core.quota.spec import API_VERSION, QuotaSpecError, WorkspaceQuota, parse
from extauthz.kube.connection import ApiError
from extauthz.kube.resource import Calls

from . import cluster, table
from .cluster import RIGHTS, Right, Rights
from .trust import Identity

Tree: TypeAlias = Any

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 (a path)
AT_A_TIME = 8
PAGE = 500
AT_MOST_CANARIES = 8


async def definitions(api: Calls) -> dict[str, Tree]:
    """Our definitions that exist, by name. Raises ApiError and Unreachable, as all below."""
    found = {name: await _or_none(api, f"{DEFINITIONS}/{name}") for name in table.DEFINITIONS}
    return {name: tree for name, tree in found.items() if tree is not None}


async def rights(api: Calls, account: str, wanted: Sequence[Right] = RIGHTS) -> Rights:
    """Which of them the service account ``namespace/name`` has. If the asker may not ask that: the asker itself."""
    namespace, _, name = account.partition("/")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    who = {"user": f"system:serviceaccount:{namespace}:{name}", "groups": groups}
    try:
        allowed = await _reviews(api, "SubjectAccessReview", "subjectaccessreviews", who, wanted)
    except ApiError as error:
        if error.status != 403:
            raise
        allowed = await _reviews(api, "SelfSubjectAccessReview", "selfsubjectaccessreviews", {}, wanted)
        return Rights("the user of --kubeconfig", False, allowed)
    return Rights(f"the service account {account}", True, allowed)


async def _reviews(
    api: Calls, kind: str, plural: str, who: Mapping[str, Tree], wanted: Sequence[Right]
) -> dict[Right, bool]:
    turn = asyncio.Semaphore(AT_A_TIME)

    async def one(right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        asked = {"group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb}
        asked |= {"namespace": right.namespace, "name": right.name}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": {**who, "resourceAttributes": asked}}
        async with turn:
            answer = await api.call("POST", f"{AUTHORIZATION}/{plural}", body=body)
        return bool((answer.get("status") or {}).get("allowed"))

    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))


async def identity(api: Calls, token: str) -> Identity:
    """The user of a token, asked straight at the API server."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    try:
        answer = await api.call("POST", TOKEN_REVIEWS, body=body)
    except ApiError as error:
        return Identity(error=f"no review of the token: {error}")
    status = answer.get("status") or {}
    if not status.get("authenticated"):
        return Identity(error=f"it is not taken: {status.get('error', 'no reason given')}")
    return Identity(user=str(status["user"]["username"]))


async def service(api: Calls, namespace: str, name: str) -> tuple[Tree | None, list[Tree]]:
    """A Service, ``None`` if there is none, and its EndpointSlices."""
    found = await _or_none(api, f"/api/v1/namespaces/{namespace}/services/{name}")
    selector = ("labelSelector", f"kubernetes.io/service-name={name}")
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    return found, await _items(api, slices, selector)


async def nodes(api: Calls) -> list[Tree]:
    return await _items(api, "/api/v1/nodes")


async def backstops(api: Calls) -> tuple[list[Tree], list[Tree]]:
    """Policies that have a binding, and webhooks."""
    policies = await _items(api, f"{ADMISSION}/validatingadmissionpolicies")
    bindings = await _items(api, f"{ADMISSION}/validatingadmissionpolicybindings")
    bound = {(each.get("spec") or {}).get("policyName") for each in bindings}
    policies = [{"kind": "ValidatingAdmissionPolicy"} | each for each in policies if each["metadata"]["name"] in bound]
    return policies, [{"kind": "ValidatingWebhookConfiguration"} | each for each in await webhooks(api)]


async def webhooks(api: Calls) -> list[Tree]:
    """All configurations of validating ones."""
    return await _items(api, f"{ADMISSION}/validatingwebhookconfigurations")


async def mutating_webhooks(api: Calls) -> list[Tree]:
    """All configurations of mutating ones."""
    return await _items(api, f"{ADMISSION}/mutatingwebhookconfigurations")


async def quotas(api: Calls) -> list[WorkspaceQuota]:
    """The first of them, without those that cannot be read."""
    found = []
    for tree in await _items(api, f"/apis/{API_VERSION}/workspacequotas"):
        with suppress(QuotaSpecError):
            found.append(parse(tree))
    return found


async def namespaces(api: Calls) -> dict[str, dict[str, str]]:
    """The labels of the first of them."""
    found = await _items(api, "/api/v1/namespaces")
    return {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in found}


async def scaled(api: Calls) -> list[cluster.Scaled]:
    """The first workloads that an HPA targets, with those HPAs."""
    hpas = await _items(api, "/apis/autoscaling/v2/horizontalpodautoscalers")
    kinds = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
    found = [
        each | {"kind": kind} for kind, plural in kinds.items() for each in await _items(api, f"/apis/apps/v1/{plural}")
    ]
    return cluster.paired(hpas, found)


async def some_deployments(api: Calls, exempt: Sequence[str]) -> list[tuple[str, str]]:
    """Namespace and name of one in each of a few namespaces, those ``exempt`` left out."""
    found: dict[str, str] = {}
    for each in await _items(api, "/apis/apps/v1/deployments"):
        metadata = each["metadata"]
        if metadata["namespace"] not in exempt:
            found.setdefault(metadata["namespace"], metadata["name"])
    return list(found.items())[:AT_MOST_CANARIES]


async def _items(api: Calls, path: str, *query: tuple[str, str]) -> list[Tree]:
    """The first ``PAGE``."""
    answer = await api.call("GET", path, query=[*query, ("limit", str(PAGE))])
    return list(answer.get("items") or [])


async def _or_none(api: Calls, path: str) -> Tree | None:
    try:
        return await api.call("GET", path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise
