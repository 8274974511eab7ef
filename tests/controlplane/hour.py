"""Records an hour of a small platform for examples/record: ``python -m tests.controlplane.hour --out FOLDER``.

Real API server, kube-controller-manager and its HPAs, which sync every 15 s; the gate answers by its webhook. Load
comes in waves. People scale, roll out, make and remove, and one limit is raised. The quotas are there to the end.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from extauthz.demo.envoy import Envoy
from extauthz.tools.render.options import Profile
from tests.controlplane.api import RefusedError
from tests.controlplane.manager import ControllerManager
from tests.controlplane.plane import running_plane
from tests.controlplane.workspace import autoscaler, workload
from tests.e2e.webhooked import WebhookWorld

Tree = Any

AS_SHIPPED = (
    "--horizontal-pod-autoscaler-sync-period=15s",
    "--horizontal-pod-autoscaler-downscale-stabilization=60s",
)
"""In place of the tests' two seconds."""

STEP_S = 5.0

QUOTAS: dict[str, tuple[str, dict[str, str]]] = {
    "acme": ("", {"requests.cpu": "14", "requests.memory": "24Gi"}),
    "shop": ("acme", {"requests.cpu": "8", "requests.memory": "16Gi", "pods": "24"}),
    "lab": ("acme", {"requests.cpu": "6", "requests.memory": "14Gi"}),
}
"""Quota to its parent, and its limits."""

SCALED: dict[str, tuple[str, str, dict[str, str], float, float, float]] = {
    "shop-web": ("shop", "Deployment", {"cpu": "500m", "memory": "512Mi"}, 1.2, 1.0, 600.0),
    "shop-api": ("shop", "Deployment", {"cpu": "250m", "memory": "256Mi"}, 0.5, 0.4, 900.0),
    "shop-search": ("shop", "StatefulSet", {"cpu": "1", "memory": "2Gi"}, 1.0, 0.8, 1300.0),
    "lab-infer": ("lab", "Deployment", {"cpu": "1", "memory": "1Gi"}, 1.0, 0.8, 800.0),
}
"""Namespace, which has one workload with an HPA: its quota, kind, requests; what it is asked to work, in CPUs: the
mean, how far it goes from that, and within how many seconds."""


class Patient(WebhookWorld):
    """The world of the end-to-end tests, with the intervals of a real kube-controller-manager."""

    @functools.cached_property
    def manager(self) -> ControllerManager:
        bare = self._stack.enter_context(Envoy(self._options(Profile.SCALE), self.folder / "bare", self._without_gate))
        url = f"https://127.0.0.1:{bare.port}"
        return self._stack.enter_context(ControllerManager(self.plane, url, self.folder, AS_SHIPPED))


class Hour:
    """What goes on."""

    def __init__(self, world: WebhookWorld, seed: int) -> None:
        self._api, self._usage = world.api, world.metrics.usage
        self._dice = random.Random(seed)
        self._count = 0

    def begin(self) -> None:
        """Quotas, namespaces, workloads."""
        for name, (parent, hard) in QUOTAS.items():
            spec: Tree = {"namespaceSelector": {"matchLabels": {"workspace": name}}, "hard": hard, "mode": "Enforce"}
            spec |= {"parent": parent} if parent else {}
            quota = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": name}}
            self._api.create(quota | {"spec": spec})
        for name, quota_name in (*((one, row[0]) for one, row in SCALED.items()), ("lab-people", "lab")):
            metadata = {"name": name, "labels": {"workspace": quota_name}}
            self._api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        time.sleep(5)  # the gate has seen them
        for name, (_, kind, requests, *_) in SCALED.items():
            self._make(name, workload(name.partition("-")[2], 2, requests, kind))
            self._make(name, autoscaler(name.partition("-")[2], kind, most=12, least=2))

    def go(self, seconds: float) -> None:
        """Live so long."""
        resize = self._resize_notebook
        acts = (self._make_notebook, resize, resize, resize, self._drop_notebook, self._work, self._stop_work)
        begin_s, next_s, raised = time.monotonic(), 20.0, False
        while (now_s := time.monotonic() - begin_s) < seconds:
            for name in SCALED:
                self._load(name, now_s)
            if now_s >= next_s:
                self._dice.choice(acts)()
                next_s = now_s + self._dice.uniform(15, 40)
            if now_s > seconds / 4 and self._count % 7 == 3:
                self._count += 1
                self._roll_out()
            if now_s > seconds * 0.6 and not raised:
                raised = True
                self._api.patch("WorkspaceQuota", "shop", None, {"spec": {"hard": {"requests.cpu": "10"}}})
            time.sleep(STEP_S)

    def _load(self, namespace: str, now_s: float) -> None:
        """Its work is shared by the pods that are ready."""
        _, kind, _, mean, swing, period_s = SCALED[namespace]
        noise = self._dice.uniform(0.9, 1.1)
        cpus = noise * (mean + swing * math.sin(2 * math.pi * now_s / period_s))
        status = self._api.get(kind, namespace.partition("-")[2], namespace).get("status", {})
        each = max(0.001, cpus / max(1, status.get("readyReplicas", 0)))
        self._usage[namespace] = {"cpu": f"{round(each * 1000)}m", "memory": "64Mi"}

    def _make(self, namespace: str, tree: Tree) -> None:
        tree["metadata"]["namespace"] = namespace
        self._try(lambda: self._api.create(tree))

    def _try(self, act: Callable[[], object]) -> None:
        self._count += 1
        with suppress(RefusedError):
            act()

    def _make_notebook(self) -> None:
        cpu = self._dice.choice(("250m", "500m", "1"))
        self._make("lab-people", workload(self._name("notebook"), 1, {"cpu": cpu, "memory": "1Gi"}))

    def _name(self, kind: str) -> str:
        return f"{kind}-{self._dice.randrange(4)}"

    def _resize_notebook(self) -> None:
        name, tree = self._name("notebook"), {"spec": {"replicas": self._dice.randint(0, 4)}}
        self._try(lambda: self._api.patch("Deployment", name, "lab-people", tree, sub="scale"))

    def _drop_notebook(self) -> None:
        self._try(lambda: self._api.delete("Deployment", self._name("notebook"), "lab-people"))

    def _work(self) -> None:
        name, many = self._name("train"), self._dice.randint(1, 4)
        made = workload(name, many, {"cpu": "500m", "memory": "1Gi"})
        template = made["spec"]["template"]
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": many, "template": template}
        self._make("lab-people", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})

    def _stop_work(self) -> None:
        self._try(lambda: self._api.delete("Job", self._name("train"), "lab-people"))

    def _roll_out(self) -> None:
        image = f"registry.test/app:{self._count}"
        spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
        self._try(lambda: self._strategic("shop-web", "web", {"spec": spec}))

    def _strategic(self, namespace: str, name: str, tree: Tree) -> None:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        self._api.call("PATCH", path, tree, "application/strategic-merge-patch+json")


def members(data: bytes) -> Iterator[bytes]:
    """Lines of each gzip member."""
    while data:
        packer = zlib.decompressobj(31)
        yield packer.decompress(data)
        data = packer.unused_data


def named(data: bytes) -> bytes:
    """The same file of ``gate-0``: the name of this machine, and of the process, say nothing to anybody."""
    out = []
    for text in members(data):
        plain = re.sub(rb'("gate":)"[^"]*"(.*?"run":)"[^"]*"', rb'\1"gate-0"\2"gate-0/1"', text)
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        out.append(packer.compress(plain) + packer.flush())
    return b"".join(out)


def main() -> None:
    """Record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=59.0, help="How long. A file ends after an hour.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="A folder for the record.")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="extauthz-hour-"))
    (folder / "plane").mkdir()
    (folder / "world").mkdir()
    record = folder / "record"
    with (
        running_plane(folder=folder / "plane") as plane,
        Patient(plane, folder / "world", settings=(f"--record={record}",)) as world,
    ):
        assert world.manager.running
        hour = Hour(world, arguments.seed)
        hour.begin()
        hour.go(arguments.minutes * 60)
        world.gate.terminate()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(sorted(record.iterdir())):
        (arguments.out / f"gate-0.{number}.jsonl.gz").write_bytes(named(path.read_bytes()))


if __name__ == "__main__":
    main()
