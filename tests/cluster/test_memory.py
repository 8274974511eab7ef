"""A node that is short of memory: how many pods the kernel kills, and how many where ``extauthz-guard`` pauses some.

The kubelet takes the machine for a small one, and lets pods have no more memory than that (Node Allocatable), so that
nothing else is in danger. A run is one throw of many: all that is asserted is that a third less are killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extauthz.core.quantities import NANO, parse
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import APP
from tests.cluster.place import NODE
from tests.cluster.writers import administrator
from tests.controlplane.api import Api, RefusedError
from tests.examples import MEMORY_PRESSURE
from tests.waiting import eventually

pytestmark = pytest.mark.cluster

Tree = Any
MIB = 1024 * 1024
ROOM, PODS, PEAK = 3000, 8, 560
"""MiB that pods may have, and what each of them comes to: together one and a half times as much."""
SECONDS = 270
NAMESPACE = "batch"
WORK = f"""
import mmap, pathlib, time
def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
rounds = pathlib.Path("/done/rounds")
while True:
    held = []
    for _ in range({PEAK}):
        held.append(mmap.mmap(-1, {MIB}, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        held[-1].write(b"x" * {MIB})
        burn(0.022)
    burn(2)
    while held:
        held.pop().close()
    rounds.write_text((rounds.read_text() if rounds.exists() else "") + "x")
"""
"""Fills its memory as fast as it has processor time, works with it, and frees it: some 90 s with 150m."""
GUARD = ("--upper=84", "--lower=80", "--step=2", "--patience=6", "--round-s=3")
KUBELET = ("--housekeeping-interval=2s", "--eviction-hard=nodefs.available<1%")
"""Its figures are as young as they get. It evicts nobody: who ends is killed by the kernel."""
METRICS = ("--metric-resolution=10s", "--kubelet-request-timeout=5s")


class Seen(NamedTuple):
    """What has become of the pods."""

    killed: int
    """Containers, for want of memory."""
    rounds: int
    """Of work that all pods have done."""


@pytest.fixture
def short(cluster: Cluster, tmp_path: Path) -> Iterator[Api]:
    """The node has some memory, and no more: kubelet and metrics-server say so."""
    with contextlib.closing(administrator(cluster.kubeconfig, tmp_path / "admin")) as api:
        (node,) = eventually(lambda: api.call("GET", "/apis/metrics.k8s.io/v1beta1/nodes")["items"], within_s=60)
        reserved = parse(node["usage"]["memory"]) // NANO // MIB
        has = reserved + ROOM
        meminfo = tmp_path / "meminfo"
        meminfo.write_text(f"MemTotal: {has * 1024} kB\nMemFree: {has * 1024} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
        cluster.inside("mount", "--bind", str(meminfo), "/proc/meminfo")
        try:
            cluster.set_flags("metrics-server", *METRICS)
            cluster.set_flags("kubelet", *KUBELET, f"--system-reserved=memory={reserved}Mi")
            eventually(lambda: capacity(api) == has, lambda: f"{capacity(api)} MiB in place of {has}", within_s=60)
            yield api
        finally:
            cluster.inside("umount", "/proc/meminfo")
            for name in ("kubelet", "metrics-server"):
                cluster.set_flags(name)


def capacity(api: Api) -> int:
    """The node's, in MiB."""
    return parse(api.get("Node", NODE)["status"]["capacity"]["memory"]) // NANO // MIB


def batch() -> Tree:
    """Pods that ask for little, and use much."""
    labels = {"app": NAMESPACE, "extauthz.dev/guard": "pause"}
    container = {
        "name": "app",
        "image": f"{APP}:1",
        "command": ["python3", "-S", "-c", WORK],
        "resources": {
            "requests": {"cpu": "5m", "memory": "64Mi"},
            "limits": {"cpu": "150m", "memory": f"{PEAK + 80}Mi"},
        },
        "volumeMounts": [{"name": "done", "mountPath": "/done"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "done", "emptyDir": {}}], "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAMESPACE, "namespace": NAMESPACE},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


@contextlib.contextmanager
def running(api: Api) -> Iterator[None]:
    """All pods, in a namespace that is gone afterwards."""
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    try:
        api.create(batch())
        yield
    finally:
        api.delete("Namespace", NAMESPACE)
        eventually(lambda: not exists(api), lambda: "the namespace stays", within_s=120)


def exists(api: Api) -> bool:
    try:
        return bool(api.get("Namespace", NAMESPACE))
    except RefusedError:
        return False


def look(api: Api, cluster: Cluster) -> Seen:
    """After some minutes. What is killed comes back, later each time."""
    time.sleep(SECONDS)
    pods = api.list("Pod", NAMESPACE)
    containers = [one for pod in pods for one in pod["status"]["containerStatuses"]]
    ends = [
        one[state]["terminated"] for one in containers for state in ("state", "lastState") if "terminated" in one[state]
    ]
    assert {end["exitCode"] for end in ends} <= {128 + signal.SIGKILL}, ends
    ended = sum("terminated" in one["state"] for one in containers)
    volumes = cluster.place.folder.glob("var-lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/done/rounds")
    of_these = [file for file in volumes if file.parts[-5] in {pod["metadata"]["uid"] for pod in pods}]
    rounds = sum(len(file.read_text()) for file in of_these)
    return Seen(sum(one["restartCount"] for one in containers) + ended, rounds)


@contextlib.contextmanager
def guard(cluster: Cluster, log: Path) -> Iterator[None]:
    """As its page has it."""
    command = [sys.executable, "-m", "memory_pressure.guard", "--namespace", NAMESPACE, "--apply", *GUARD]
    environment = {**os.environ, "PYTHONPATH": str(MEMORY_PRESSURE)}
    with log.open("wb") as output:
        child = subprocess.Popen(
            [*command, "--kubeconfig", str(cluster.kubeconfig)], stdout=output, stderr=output, env=environment
        )
    try:
        yield
        child.terminate()
        assert child.wait(60) == 0, log.read_text()
    finally:
        child.kill()
        child.wait()


def test_the_guard_saves_pods_that_a_node_short_of_memory_would_kill(
    short: Api, cluster: Cluster, tmp_path: Path, tell
):
    with running(short):
        without = look(short, cluster)
    log = tmp_path / "guard.log"
    with running(short), guard(cluster, log):
        guarded = look(short, cluster)
    said = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    for what, seen in {"without the guard": without, "with it": guarded}.items():
        tell(f"{what}: {seen.killed} containers killed, {seen.rounds} rounds done")
    tell(f"pods lowered {said.count('lowered')} times")
    assert without.killed > 0
    assert 3 * guarded.killed <= 2 * without.killed
    assert said.count("restored") == said.count("lowered") > 0
