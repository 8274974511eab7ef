"""A real API server with many Deployments, their ReplicaSets and pods; and how soon a gate is ready there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import cluster
from bench.cluster import DEPLOYMENTS, NAMESPACES, QUOTAS
from bench.figures import Figure, Goal
from extauthz.demo.gate import SERVE, Gate
from extauthz.inputs.kube.connection import connect
from extauthz.inputs.kube.resource import Resource
from tests.controlplane.plane import Plane, running_plane
from tests.waiting import eventually

from . import machine
from .rounds import figure

Tree = Any

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
PODS = Resource("", "v1", "pods", "Pod")
LISTED = (DEPLOYMENTS, REPLICA_SETS, PODS)
READY = Goal(1.2)
READY_WITHIN_S = 300.0
DEPLOY = Path(__file__).parents[2] / "deploy"


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    workloads: int
    namespaces: int
    quotas: int
    starts: int
    seconds: float
    """Of growth (``tail``)."""


FULL = Size(workloads=20_000, namespaces=200, quotas=50, starts=3, seconds=60.0)
QUICK = Size(workloads=100, namespaces=4, quotas=2, starts=1, seconds=3.0)


@contextmanager
def crowded(size: Size, say: Callable[[str], None]) -> Iterator[Plane]:
    """The API server, filled."""
    say(f"starting a real API server, and creating {size.workloads:,} Deployments with ReplicaSets and pods")
    with running_plane() as plane:
        for file in ("crd.yaml", "ledger-crd.yaml"):
            plane.kubectl("apply", "--server-side", f"--filename={DEPLOY / file}")
        eventually(lambda: plane.api.serves("WorkspaceQuota"))
        eventually(lambda: plane.api.serves("WorkspaceLedger.extauthz.dev/v1alpha1"))
        asyncio.run(_fill(plane, size))
        yield plane


def namespace_of(number: int, size: Size) -> str:
    """Of workload number ``number``."""
    return f"team-{number % size.namespaces}"


def name_of(number: int) -> str:
    """Of workload number ``number``; its pod has it too, with ``-0`` behind."""
    name: str = cluster.deployment(number)["metadata"]["name"]
    return name


async def _fill(plane: Plane, size: Size) -> None:
    async with connect(plane.kubeconfig) as connection:

        async def create(resource: Resource, namespace: str | None, tree: Tree) -> Tree:
            return await connection.call("POST", resource.collection(namespace), body=tree, timeout_s=60)

        async def workload(number: int) -> None:
            namespace, tree = namespace_of(number, size), cluster.deployment(number)
            tree["spec"]["replicas"] = 1
            made = await create(DEPLOYMENTS, namespace, tree)
            template = tree["spec"]["template"]
            labels = {"metadata": {"name": f"{name_of(number)}-1", "labels": template["metadata"]["labels"]}}
            revision = await create(REPLICA_SETS, namespace, _owned(tree | labels, "Deployment", made))
            pod = {"metadata": {"name": f"{name_of(number)}-0", "labels": template["metadata"]["labels"]}}
            await create(PODS, namespace, _owned(pod | {"spec": template["spec"]}, "ReplicaSet", revision))

        as_cluster = cluster.Size(0, size.namespaces, size.quotas, 0, 0.0)
        await cluster.each(create(NAMESPACES, None, cluster.namespace(n, as_cluster)) for n in range(size.namespaces))
        await cluster.each(create(QUOTAS, None, cluster.quota(n)) for n in range(size.quotas))
        await cluster.each(workload(number) for number in range(size.workloads))


def _owned(tree: Tree, kind: str, owner: Tree) -> Tree:
    known = {name: owner["metadata"][name] for name in ("name", "uid")}
    reference = {"apiVersion": "apps/v1", "kind": kind, "controller": True, **known}
    return tree | {"metadata": tree["metadata"] | {"ownerReferences": [reference]}}


def ready(plane: Plane, size: Size, say: Callable[[str], None]) -> list[Figure]:
    """A list of the same objects and a start of the gate by turns."""
    found: Mapping[str, list[float]] = {name: [] for name in ("start", "start, processor", "list", "list, processor")}
    for number in range(size.starts):
        took_s, used_s = asyncio.run(_list(plane))
        found["list"].append(took_s)
        found["list, processor"].append(used_s)
        begin_s = time.monotonic()
        with started(plane, f"ready-{number}") as gate:
            found["start"].append(time.monotonic() - begin_s)
            found["start, processor"].append(machine.processor_s(machine.family(gate.pid)))
        told = ", ".join(f"{name} {times[-1]:.1f} s" for name, times in found.items())
        say(f"ready, round {number + 1} of {size.starts}: {told}")
    title = f"ready on {size.workloads:,} Deployments with their pods, against listing them"
    return [
        figure(title, found["start"], found["list"], READY, unit=" s", digits=1),
        figure(f"{title}: processor time", found["start, processor"], found["list, processor"], unit=" s", digits=1),
    ]


def started(plane: Plane, name: str, serve: Sequence[str] = SERVE) -> Gate:
    """A gate there, ready at the begin of its context."""
    flags = [f"--kubeconfig={plane.kubeconfig}", "--ledger=kubernetes", "--allow-unknown=unclean-start"]
    log = plane.folder / f"{name}.log"
    return Gate("kubernetes", "kubernetes", log, flags, serve=serve, within_s=READY_WITHIN_S)


async def _list(plane: Plane) -> tuple[float, float]:
    """Seconds, and those of this process's processor: page by page by the gate's own client, and nothing is kept."""
    async with connect(plane.kubeconfig) as connection:
        start_s, used_s = time.monotonic(), time.process_time()
        for resource in LISTED:
            async for _ in cluster.items(connection, resource):
                pass
        return time.monotonic() - start_s, time.process_time() - used_s
