"""A real API server with definitions, quotas, and Deployments with what controllers would make of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extauthz.inputs.kube.connection import Connection, connect
from extauthz.inputs.kube.resource import Resource
from tests.controlplane.plane import Plane
from tests.support.objects import namespace, pod_of, quota, scalable
from tests.waiting import eventually

Tree = Any

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
PODS = Resource("", "v1", "pods", "Pod")
QUOTAS = Resource("extauthz.dev", "v1alpha1", "workspacequotas", "WorkspaceQuota", namespaced=False)
DEPLOY = Path(__file__).parents[1] / "deploy"
HARD = {"requests.cpu": "10k", "requests.memory": "100Ti", "pods": "1M"}
PAGE = 500
AT_ONCE = 32


@dataclass(frozen=True)
class Size:
    """How much is there, and how much is measured."""

    deployments: int
    namespaces: int
    quotas: int
    starts: int
    seconds: float
    """Of what is measured of a running gate."""
    pods: int = 0
    """Of each Deployment, by a ReplicaSet. Nobody makes them here."""


def define(plane: Plane) -> None:
    """Have the API server know WorkspaceQuota and WorkspaceLedger."""
    for name in ("crd.yaml", "ledger-crd.yaml"):
        plane.kubectl("apply", "--server-side", f"--filename={DEPLOY / name}")
    eventually(lambda: plane.api.serves("WorkspaceQuota"))
    eventually(lambda: plane.api.serves("WorkspaceLedger.extauthz.dev/v1alpha1"))


async def fill(plane: Plane, size: Size) -> None:
    """Make all of it."""
    async with connect(plane.kubeconfig) as connection:

        async def workload(number: int) -> None:
            made = await create(connection, DEPLOYMENTS, deployment(number, size))
            if size.pods:
                await _family(connection, made)

        workspaces = [f"workspace-{n}" for n in range(size.quotas)]
        spaces = [namespace(f"team-{n}", workspace=workspaces[n % size.quotas]) for n in range(size.namespaces)]
        await each(create(connection, NAMESPACES, one) for one in spaces)
        await each(create(connection, QUOTAS, quota(one, HARD)) for one in workspaces)
        await each(workload(number) for number in range(size.deployments))


async def create(connection: Connection, resource: Resource, tree: Tree) -> Tree:
    """An object as it was made."""
    path = resource.collection(tree["metadata"].get("namespace"))
    return await connection.call("POST", path, body=tree, timeout_s=60)


async def _family(connection: Connection, deployment: Tree) -> None:
    """What its controllers would make."""
    name, spec = deployment["metadata"]["name"], deployment["spec"]
    requests = spec["template"]["spec"]["containers"][0]["resources"]["requests"]
    namespace = deployment["metadata"]["namespace"]
    made = scalable(f"{name}-1", namespace, spec["replicas"], requests, kind="ReplicaSet", owner=deployment)
    revision = await create(connection, REPLICA_SETS, made)
    for number in range(spec["replicas"]):
        await create(connection, PODS, pod_of(revision, f"{name}-1-{number}"))


async def each(calls: Iterable[Awaitable[object]]) -> None:
    """Make them all, some at once."""
    todo = iter(calls)

    async def worker() -> None:
        for call in todo:
            await call

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def namespace_of(number: int, size: Size) -> str:
    """Of Deployment number ``number``."""
    return f"team-{number % size.namespaces}"


def name_of(number: int) -> str:
    """The same; its first pod has it too, with ``-1-0`` behind."""
    return f"checkout-api-{number:06}"


def deployment(number: int, size: Size) -> Tree:
    """The same as an object."""
    requests = {"cpu": f"{100 + number % 50}m", "memory": "256Mi"}
    return scalable(name_of(number), namespace_of(number, size), size.pods or 1 + number % 8, requests)


async def items(connection: Connection, resource: Resource) -> AsyncIterator[Tree]:
    """All objects of a kind, page by page."""
    token = ""
    while True:
        query = [("limit", str(PAGE)), *([("continue", token)] if token else [])]
        page: list[Tree] = []
        metadata = await connection.items(resource.collection(None), page.append, query=query)
        for item in page:
            yield item
        token = metadata.get("continue", "")
        if not token:
            return
