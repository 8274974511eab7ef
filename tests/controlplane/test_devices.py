"""Claims of devices count as ResourceQuota counts them: both watch one real API server, in many small worlds.

The real controllers make the pods and their claims. In every world a ResourceQuota limits the keys that ours does.
``EXTAUTHZ_WORLDS`` sets how many there are.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from extauthz.core import quantities
from extauthz.core.decision.gate import Gate
from extauthz.core.ledger.usage import ADMIN_ACCESS
from extauthz.core.quota.tree import QuotaTree
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import LiveCluster
from extauthz.testing import pod, quota
from tests.controlplane.manager import ControllerManager
from tests.controlplane.plane import Plane
from tests.waiting import eventually, until

pytestmark = pytest.mark.controlplane("kube-controller-manager")

Tree = Any
WORLDS = int(os.environ.pop("EXTAUTHZ_WORLDS", "") or 20)
CLASSES = {"gpu": "example.com/gpu", "nic": "example.com/nic", "tpu": ""}
DEVICES = {name: f"{name}.deviceclass.resource.k8s.io/devices" for name in CLASSES}
KEYS = (*DEVICES.values(), "requests.example.com/gpu", "requests.example.com/nic", "requests.example.com/other",
        "requests.deviceclass.resource.kubernetes.io/gpu")  # fmt: skip
MADE_BY = ["deployment", "replicaset", "job", "resourceclaim", "resourcequota"]


@pytest.fixture(scope="module")
def controllers(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    flags = [f"--controllers={','.join(f'{name}-controller' for name in MADE_BY)}"]
    with ControllerManager(plane, plane.url, tmp_path_factory.mktemp("manager"), flags):
        yield


class World:
    """One namespace with drawn claims, and pods that make or share them."""

    def __init__(self, name: str, draw: random.Random) -> None:
        self.name, self._draw = name, draw
        self.admins = draw.random() < 0.3
        self.templates = [f"t{at}" for at in range(draw.randint(1, 3))]
        self.shared = [f"s{at}" for at in range(draw.randint(0, 2))]
        self.pods = 0
        self.made = 0
        """Claims that the controller will make."""

    def objects(self) -> Iterator[Tree]:
        labels = {"workspace": self.name} | ({ADMIN_ACCESS: "true"} if self.admins else {})
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": labels}}
        for name in self.templates:
            yield self._of_devices("ResourceClaimTemplate", name, {"spec": self._spec()})
        for name in self.shared:
            yield self._of_devices("ResourceClaim", name, self._spec())
        for at in range(self._draw.randint(1, 3)):
            yield self._workload(f"w{at}")

    def _of_devices(self, kind: str, name: str, spec: Tree) -> Tree:
        metadata = {"name": name, "namespace": self.name}
        return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}

    def _spec(self) -> Tree:
        return {"devices": {"requests": [self._request(f"r{at}") for at in range(self._draw.randint(1, 3))]}}

    def _request(self, name: str) -> Tree:
        if self._draw.random() < 0.3:
            either = [{"name": f"a{at}"} | self._wants() for at in range(self._draw.randint(1, 4))]
            return {"name": name, "firstAvailable": either}
        admin = {"adminAccess": True} if self.admins and self._draw.random() < 0.5 else {}
        return {"name": name, "exactly": self._wants() | admin}

    def _wants(self) -> Tree:
        said: Tree = {"deviceClassName": self._draw.choice([*CLASSES, "tpu"])}
        if self._draw.random() < 0.1:
            return said | {"allocationMode": "All"}
        return said | ({} if self._draw.random() < 0.2 else {"count": self._draw.randint(1, 9)})

    def _workload(self, name: str) -> Tree:
        template = pod({"example.com/other": "2"} if self._draw.random() < 0.3 else {}, {"example.com/other": "2"})
        template["metadata"] = {"labels": {"app": name}}
        claims = [{"name": f"c{at}", "resourceClaimTemplateName": self._draw.choice(self.templates)} for at in range(2)]
        claims = claims[: self._draw.randint(0, 2)]
        shared = [{"name": one, "resourceClaimName": one} for one in self.shared if self._draw.random() < 0.5]
        template["spec"]["resourceClaims"] = claims + shared
        replicas = self._draw.randint(0, 3)
        kind = self._draw.choice(["Deployment", "Job", "Pod"])
        replicas = 1 if kind == "Pod" else replicas
        self.pods += replicas
        self.made += replicas * len(claims)
        metadata = {"name": name, "namespace": self.name}
        if kind == "Pod":
            return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": template["spec"]}
        spec: Tree = {"template": template}
        if kind == "Job":
            spec["parallelism"] = replicas
            template["spec"]["restartPolicy"] = "Never"
            return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}
        spec |= {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}

    def is_settled(self, plane: Plane) -> bool:
        """The controllers have made all that they are to make."""
        claims = plane.api.list("ResourceClaim.resource.k8s.io/v1", self.name)
        return len(claims) == self.made + len(self.shared) and len(plane.api.list("Pod", self.name)) == self.pods

    def quota_counts(self, plane: Plane) -> dict[str, int] | None:
        """What ResourceQuota says is in use; ``None``: nothing yet."""
        used = plane.api.get("ResourceQuota", "devices", self.name).get("status", {}).get("used", {})
        return {key: quantities.parse(used[key]) // 10**9 for key in KEYS} if set(used) == set(KEYS) else None

    def of_admins(self, plane: Plane) -> Counter[str]:
        """What ResourceQuota counts and the gate does not: administrators' access (docs/counting.md)."""
        found: Counter[str] = Counter()
        for claim in plane.api.list("ResourceClaim.resource.k8s.io/v1", self.name):
            for one in claim["spec"]["devices"]["requests"]:
                exactly = one.get("exactly", {})
                if exactly.get("adminAccess"):
                    device_class, count = exactly["deviceClassName"], exactly.get("count", 32)
                    found[DEVICES[device_class]] += count
                    if CLASSES[device_class]:
                        found[f"requests.{CLASSES[device_class]}"] += count
                        found[f"requests.deviceclass.resource.kubernetes.io/{device_class}"] += count
        return found


async def test_the_gate_counts_what_resource_quota_counts(plane, relayed, controllers):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    worlds = [World(f"devices-{at}", random.Random(f"{seed} {at}")) for at in range(WORLDS)]
    await asyncio.to_thread(prepare, plane, worlds)
    gate = Gate()
    gate.load_quotas(QuotaTree.build([quota(one.name, dict.fromkeys(KEYS, "100000")) for one in worlds]), 0.0)
    cluster = LiveCluster(relayed, gate, InvalidObjects(lambda *what: pytest.fail(str(what))))
    following = asyncio.create_task(cluster.run())
    await asyncio.wait_for(cluster.synced.wait(), 60)
    wanted = {one.name: await asyncio.to_thread(counted, plane, one) for one in worlds}
    await until(lambda: off(gate, wanted) == {}, lambda: off(gate, wanted), 20)
    assert sum(sum(counts.values()) for counts in wanted.values()) > WORLDS, "there is something to count"
    assert gate.ledger.drift() == {}
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


def prepare(plane: Plane, worlds: list[World]) -> None:
    for name, extended in CLASSES.items():
        spec = {"extendedResourceName": extended} if extended else {}
        plane.api.call("POST", "/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": name}, "spec": spec})
    for world in worlds:
        for obj in world.objects():
            plane.api.create(obj)
    for world in worlds:
        eventually(lambda world=world: world.is_settled(plane), lambda world=world: world.name)
        metadata = {"name": "devices", "namespace": world.name}
        spec = {"hard": dict.fromkeys(KEYS, "100000")}
        plane.api.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})


def counted(plane: Plane, world: World) -> dict[str, int]:
    """What ResourceQuota says, without what is a difference by name."""
    eventually(lambda: world.quota_counts(plane) is not None, lambda: world.name)
    found, less = world.quota_counts(plane), world.of_admins(plane)
    assert found is not None
    return {key: amount - less[key] for key, amount in found.items()}


def off(gate: Gate, wanted: dict[str, dict[str, int]]) -> dict[str, tuple[int, int]]:
    """Where they differ: ours, and ResourceQuota's."""
    ours = {(row.quota, row.resource): row.used // 10**9 for row in gate.usage()}
    return {
        f"{name} {key}": (ours[name, key], amount)
        for name, counts in wanted.items()
        for key, amount in counts.items()
        if ours[name, key] != amount
    }
