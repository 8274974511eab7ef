"""A gate on a live cluster: time until it is ready, what a workload costs it, what it asks the API server when idle.

The real API server of ``make controlplane``; where that is not built, nothing of this is measured, and said so.

``python -m bench.cluster --deployments 5000 --namespaces 120 --quotas 40 --pods 2`` says the same of another size.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from extauthz.demo.gate import Gate
from extauthz.inputs.kube.connection import Connection, connect
from extauthz.inputs.kube.resource import Resource
from tests.controlplane import parts
from tests.controlplane.plane import Plane, running_plane
from tests.waiting import eventually

from .figures import Figure, median_ratio

Tree = Any

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
PODS = Resource("", "v1", "pods", "Pod")
QUOTAS = Resource("extauthz.dev", "v1alpha1", "workspacequotas", "WorkspaceQuota", namespaced=False)
CRD = Path(__file__).parents[1] / "deploy" / "crd.yaml"
PAGE = 500
AT_ONCE = 32
NEEDED = ("etcd", "kube-apiserver", "kubectl")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    deployments: int
    namespaces: int
    quotas: int
    starts: int
    idle_s: float
    pods: int = 0
    """Of each Deployment, by a ReplicaSet. Nobody makes them here."""


FULL = Size(deployments=20_000, namespaces=500, quotas=50, starts=3, idle_s=60.0)
QUICK = Size(deployments=100, namespaces=5, quotas=2, starts=1, idle_s=2.0)


@dataclass
class _Found:
    """What was measured."""

    ready_s: list[float] = field(default_factory=list)
    list_s: list[float] = field(default_factory=list)
    """Each just before a start."""
    resident_bytes: int = 0
    """More than that of a gate on an empty cluster."""
    whole_bytes: int = 0
    json_bytes: int = 0
    calls: float = 0.0
    """A minute, when idle."""
    calls_without: float = 0.0


def measure(size: Size, say: Callable[[str], None]) -> list[Figure]:
    """The three rows; none where there is no API server."""
    if missing := parts.missing(NEEDED):
        say(f"NOT MEASURED, a live cluster: {missing[0]}")
        return []
    say("starting a real API server")
    with running_plane() as plane:
        found = _found(plane, size, say)
    count, each = f"live cluster, {size.deployments:,} Deployments", 1 / size.deployments
    return [
        Figure(
            f"{count}: ready, against a plain list",
            f"{median(found.ready_s):.1f} s",
            f"{median(found.list_s):.1f} s",
            median_ratio(found.ready_s, found.list_s),
        ),
        Figure(
            f"{count}: memory of one, against its JSON",
            f"{found.resident_bytes * each:,.0f} B",
            f"{found.json_bytes * each:,.0f} B",
            found.resident_bytes / found.json_bytes,
        ),
        Figure(
            f"{count}: API calls when idle, against no gate",
            f"{found.calls:.0f}/min",
            f"{found.calls_without:.0f}/min",
            found.calls / max(found.calls_without, 1.0),
        ),
    ]


def _found(plane: Plane, size: Size, say: Callable[[str], None]) -> _Found:
    plane.kubectl("apply", "--server-side", f"--filename={CRD}")
    eventually(lambda: plane.api.serves("WorkspaceQuota"))
    with _gate(plane) as gate:
        empty_bytes = _resident_bytes(gate)
    say(f"creating {size.deployments:,} Deployments in {size.namespaces} namespaces")
    asyncio.run(_fill(plane, size))
    found = _Found()
    say("looking at the API server by itself")
    found.calls_without = _calls_a_minute(plane, size.idle_s)
    for number in range(size.starts):
        found.json_bytes, list_s = asyncio.run(_list(plane))
        found.list_s.append(list_s)
        start = time.monotonic()
        with _gate(plane) as gate:
            found.ready_s.append(time.monotonic() - start)
            times = f"ready after {found.ready_s[-1]:.1f} s, a plain list {list_s:.1f} s"
            say(f"start {number + 1} of {size.starts}: {times}")
            if number == size.starts - 1:
                found.whole_bytes = _resident_bytes(gate)
                found.resident_bytes = found.whole_bytes - empty_bytes
                _await_idle(gate)
                say("looking at the API server under an idle gate")
                found.calls = _calls_a_minute(plane, size.idle_s)
    return found


@contextmanager
def _gate(plane: Plane) -> Iterator[Gate]:
    flags = [f"--kubeconfig={plane.kubeconfig}", "--ledger=memory", "--window-s=1"]
    with Gate("kubernetes", "kubernetes", plane.folder / "gate.log", flags) as gate:
        yield gate


def _resident_bytes(gate: Gate) -> int:
    status = Path(f"/proc/{gate.pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


async def _fill(plane: Plane, size: Size) -> None:
    async with connect(plane.kubeconfig) as connection:

        async def create(resource: Resource, namespace: str | None, tree: Tree) -> None:
            await connection.call("POST", resource.collection(namespace), body=tree, timeout_s=60)

        await each(create(NAMESPACES, None, namespace(n, size)) for n in range(size.namespaces))
        await each(create(QUOTAS, None, quota(n)) for n in range(size.quotas))
        await each(create(DEPLOYMENTS, f"team-{n % size.namespaces}", deployment(n)) for n in range(size.deployments))
        if size.pods:
            await each(_pods(connection, n, size) for n in range(size.deployments))


async def _pods(connection: Connection, number: int, size: Size) -> None:
    """Those of one Deployment, as its controllers would make them."""
    namespace, made = f"team-{number % size.namespaces}", deployment(number)
    name, template = made["metadata"]["name"], made["spec"]["template"]
    owner = await connection.call("GET", DEPLOYMENTS.object(namespace, name))
    labels = template["metadata"]["labels"]
    metadata = {"name": f"{name}-1", "labels": labels, "ownerReferences": [_owned("Deployment", owner)]}
    spec = {"replicas": size.pods, "selector": made["spec"]["selector"], "template": template}
    body = {"metadata": metadata, "spec": spec}
    owner = await connection.call("POST", REPLICA_SETS.collection(namespace), body=body, timeout_s=60)
    for each_of in range(size.pods):
        metadata = {"name": f"{name}-1-{each_of}", "labels": labels, "ownerReferences": [_owned("ReplicaSet", owner)]}
        body = {"metadata": metadata, "spec": template["spec"]}
        await connection.call("POST", PODS.collection(namespace), body=body, timeout_s=60)


def _owned(kind: str, owner: Tree) -> Tree:
    metadata = owner["metadata"]
    return {"apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": True}


async def each(calls: Iterable[Awaitable[None]]) -> None:
    todo = iter(calls)

    async def worker() -> None:
        for call in todo:
            await call

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def namespace(number: int, size: Size) -> Tree:
    return {"metadata": {"name": f"team-{number}", "labels": {"workspace": f"workspace-{number % size.quotas}"}}}


def quota(number: int) -> Tree:
    return {
        "apiVersion": "extauthz.dev/v1alpha1",
        "kind": "WorkspaceQuota",
        "metadata": {"name": f"workspace-{number}"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"workspace": f"workspace-{number}"}},
            "hard": {"requests.cpu": "10k", "requests.memory": "100Ti", "pods": "1M"},
        },
    }


def deployment(number: int) -> Tree:
    labels = {"app": f"checkout-api-{number:06}"}
    requests = {"cpu": f"{100 + number % 50}m", "memory": "256Mi"}
    container = {"name": "main", "image": "registry.test/app:1", "resources": {"requests": requests}}
    return {
        "metadata": {"name": labels["app"], "labels": labels},
        "spec": {
            "replicas": 1 + number % 8,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def _list(plane: Plane) -> tuple[int, float]:
    """Bytes of the Deployments' JSON, and the seconds that listing took: page by page, and nothing made of it."""
    async with connect(plane.kubeconfig) as connection:
        start = time.monotonic()
        sizes = [len(json.dumps(item)) async for item in items(connection, DEPLOYMENTS)]
        return sum(sizes), time.monotonic() - start


async def items(connection: Connection, resource: Resource) -> AsyncIterator[Tree]:
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


def _await_idle(gate: Gate) -> None:
    """Growth is no longer held, and the statuses of all quotas are written: two looks in a row show no write."""
    eventually(lambda: not gate.holding)
    writes = -1.0
    while writes != (writes := gate.metric('extauthz_api_calls_total{verb="patch"}')):
        time.sleep(3)


def _calls_a_minute(plane: Plane, seconds: float) -> float:
    """What the API server counts of requests to it, its own among them."""
    before = _requests(plane)
    time.sleep(seconds)
    return (_requests(plane) - before) * 60 / seconds


def _requests(plane: Plane) -> float:
    with urllib.request.urlopen(f"{plane.url}/metrics", context=plane.tls, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("apiserver_request_total{"))


def main() -> None:
    """Measure a size of one's own."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    for name, default in (("deployments", 5_000), ("namespaces", 120), ("quotas", 40), ("pods", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    size = Size(**vars(parser.parse_args()), starts=2, idle_s=5.0)
    with running_plane() as plane:
        found = _found(plane, size, print)
    print(f"ready after {median(found.ready_s):.1f} s, a plain list {median(found.list_s):.1f} s")
    whole, more = found.whole_bytes / 2**20, found.resident_bytes / 2**20
    print(f"memory {whole:.0f} MiB, {more:.0f} MiB more than on an empty cluster")


if __name__ == "__main__":
    main()
