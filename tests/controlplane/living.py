"""Follows a real API server in the test's own process, and counts again what kubectl prints of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from extauthz.core.decision.gate import Gate
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import LiveCluster
from extauthz.inputs.cluster.reader import Reader
from extauthz.inputs.cluster.snapshot import SnapshotBuilder
from extauthz.inputs.kube.connection import Connection
from extauthz.inputs.settlement.reads import ConsistentReads, Result
from extauthz.testing import pod, quota
from tests.controlplane.plane import Plane
from tests.support import objects

Tree = Any
NANO = 10**9
WITHIN_S = 60.0
EVERYTHING = (
    "namespaces,limitranges,runtimeclasses,storageclasses,deployments,statefulsets,replicasets,replicationcontrollers,"
    "controllerrevisions,jobs,pods,persistentvolumeclaims,deviceclasses,resourceclaimtemplates,resourceclaims"
)
COUNTED = ("pods", "requests.cpu", "requests.memory", "limits.memory", "count/pods", "count/deployments.apps")


class Live:
    """A gate that follows the API server, in this process."""

    def __init__(self, plane: Plane, connection: Connection, workspace: str) -> None:
        self.plane = plane
        self.workspace = workspace
        self.invalid: list[str] = []
        self.results: list[Result] = []
        self.gate = Gate()
        self.gate.load_quotas(self._tree(), 0.0)
        invalid = InvalidObjects(lambda *what: self.invalid.append(str(what)))
        self.cluster = LiveCluster(connection, self.gate, invalid)
        self.reads = self.reads_by(connection)

    def reads_by(self, connection: Connection) -> ConsistentReads:
        """Reads that go another way than the watches."""
        bring = Reader(connection, self.gate, self.cluster).bring
        pending = self.gate.ledger.pending
        return ConsistentReads(bring, pending, lambda result, *_: self.results.append(result), time.monotonic)

    def _tree(self) -> QuotaTree:
        hard = dict.fromkeys(COUNTED, "1000000")
        of_gold = quota("gold", hard, namespaces={"workspace": self.workspace}, workloads={"tier": "gold"})
        return QuotaTree.build([quota(self.workspace, hard), of_gold])

    def used(self) -> dict[str, int]:
        """What the watches have brought."""
        assert self.gate.ledger.drift() == {}
        return _used(self.gate)

    def recounted(self) -> dict[str, int]:
        """What kubectl prints, counted from nothing."""
        printed = self.plane.kubectl("get", EVERYTHING, "--all-namespaces", "--output=json")
        builder = SnapshotBuilder()
        for item in json.loads(printed)["items"]:
            builder.add(item)
        gate = Gate()
        gate.load_quotas(self._tree(), 0.0)
        gate.load_state(builder.state(), 0.0)
        return _used(gate)


def _used(gate: Gate) -> dict[str, int]:
    return {f"{row.quota} {row.resource}": row.used for row in gate.usage()}


@asynccontextmanager
async def living(plane: Plane, connection: Connection, workspace: str) -> AsyncIterator[Live]:
    """Followed from its first lists on; afterwards ended."""
    live = Live(plane, connection, workspace)
    tasks = [asyncio.create_task(live.cluster.run()), asyncio.create_task(live.reads.run())]
    try:
        async with asyncio.timeout(WITHIN_S):
            await live.cluster.synced.wait()
        yield live
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def agrees(live: Live) -> None:
    """Until what the watches have brought is what kubectl prints."""
    deadline = asyncio.get_running_loop().time() + WITHIN_S
    while (wanted := await asyncio.to_thread(live.recounted)) != (found := live.used()):
        off = {key: (found[key], wanted[key]) for key in wanted if found[key] != wanted[key]}
        assert asyncio.get_running_loop().time() < deadline, off
        await asyncio.sleep(0.1)


def deployment(name: str, replicas: int, namespace: str) -> Tree:
    """Of one CPU a pod."""
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": pod({"cpu": "1"}) | {"metadata": {"labels": labels}},
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def owned(owner: Tree) -> list[Tree]:
    """``metadata.ownerReferences`` of what a controller has made."""
    metadata = owner["metadata"]
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
    ]


def namespace(plane: Plane, name: str) -> str:
    """One of the workspace of that name."""
    plane.api.create(objects.namespace(name, workspace=name))
    return name
