"""Growth through a real API server: without any quota, with a ResourceQuota, and with ours in both ways.

A growth is the write of a count, and the pods that it makes room for: a ResourceQuota charges these, ours the write.
Each way has an API server and an etcd of its own, so that nobody pays for another's. Controllers do not run: the client
makes the pods, and the ResourceQuota has the status that its controller gives it first.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.check import GRANTS
from bench.figures import Figure, Goal
from bench.webhook import NAMESPACE as GATES
from bench.webhook import SERVICE, certificates, service
from extauthz.render.options import Endpoint, SidecarOptions
from extauthz.render.webhook import WebhookOptions, configuration
from extauthz.testing.envoy import Envoy
from extauthz.testing.gate import Gate
from tests.controlplane.access import service_account
from tests.controlplane.api import MERGE, RefusedError, eventually, path_of
from tests.controlplane.plane import Plane, free_ports, running_plane

from . import machine
from .rounds import figure, turns

Tree = Any

NONE, RESOURCE_QUOTA = "no quota", "a ResourceQuota"
ENVOY, WEBHOOK = "the gate behind Envoy", "the gate as a webhook"
WAYS = (NONE, RESOURCE_QUOTA, ENVOY, WEBHOOK)
NOT_SLOWER = Goal(1.0)
AS_MANY = Goal(1.0, at_least=True)
CLIENTS = 32
FEW = 0.05
"""Of the writes. On a machine that others use too, one now and then is answered too late."""
TEAM = "team"
DEPLOY = Path(__file__).parents[2] / "deploy"


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    workloads: int
    pods: tuple[int, ...]
    """How many pods a write makes room for; all rounds with each."""
    rounds: int
    seconds: float
    """A way and round with all clients; half of it with one."""


FULL = Size(workloads=64, pods=(1, 4), rounds=5, seconds=4.0)
QUICK = Size(workloads=32, pods=(1,), rounds=1, seconds=1.0)


@dataclass
class Found:
    """What was measured of a way, a value a round."""

    rates: list[float] = field(default_factory=list)
    """Growths a second of all clients."""
    medians_ms: list[float] = field(default_factory=list)
    """Of a growth, one at a time."""
    costs_ms: list[float] = field(default_factory=list)
    """Processor time of all servers of the way, a growth."""
    writes: list[float] = field(default_factory=list)
    """Of etcd, a growth."""


@dataclass
class Way:
    """A running control plane, with what decides on growth there."""

    plane: Plane
    token: str
    scale_url: str
    pids: list[int]
    charged: Callable[[], float]
    """How many pods, or writes, whoever decides has counted."""
    sent: int = 0
    """Growths so far."""
    count: int = 1
    """The highest count of a workload so far."""


def measure(size: Size, programs: Path, say: Callable[[str], None]) -> list[Figure]:
    """The rows, for each number of pods."""
    say("starting four API servers, two gates and an Envoy")
    rows = []
    with ExitStack() as stack:
        ways = {name: stack.enter_context(_running(name, size)) for name in WAYS}
        for pods in size.pods:
            found = {name: Found() for name in WAYS}
            for way in ways.values():
                _run(programs, way, pods, CLIENTS, size.seconds / 4)
            for number, names in enumerate(turns(WAYS, size.rounds), start=1):
                for name in names:
                    _round(programs, ways[name], pods, size.seconds, found[name])
                told = ", ".join(f"{name} {one.rates[-1]:.0f}/s" for name, one in found.items())
                say(f"growth by {pods}, round {number} of {size.rounds}: {told}")
            rows += _rows(found, pods)
        for name, way in ways.items():
            assert name == NONE or way.charged() >= way.sent, (
                f"{name} counted {way.charged():.0f} of {way.sent} growths"
            )
    return rows


def _rows(found: Mapping[str, Found], pods: int) -> list[Figure]:
    def rows(one: str, other: str, *, judged: bool) -> list[Figure]:
        ours, theirs = found[one], found[other]
        title = f"growth by {pods}, {one} against {other}"
        slower, many = (NOT_SLOWER, AS_MANY) if judged else (None, None)
        return [
            figure(f"{title}: growths a second", ours.rates, theirs.rates, many, unit="/s"),
            figure(f"{title}: one at a time", ours.medians_ms, theirs.medians_ms, slower, unit=" ms", digits=2),
            figure(f"{title}: processor time", ours.costs_ms, theirs.costs_ms, slower, unit=" ms", digits=2),
            figure(f"{title}: etcd writes", ours.writes, theirs.writes, slower, digits=2),
        ]

    against = [row for way in (ENVOY, WEBHOOK) for row in rows(way, RESOURCE_QUOTA, judged=True)]
    return [*against, *(row for way in WAYS[1:] for row in rows(way, NONE, judged=False))]


def _round(programs: Path, way: Way, pods: int, seconds: float, found: Found) -> None:
    """First with all clients, and then with one."""
    writes, used_s = _writes(way.plane), machine.processor_s(way.pids)
    many = _run(programs, way, pods, CLIENTS, seconds)
    growths = len(many["grown"])
    found.rates.append(growths / many["seconds"])
    found.costs_ms.append(1e3 * (machine.processor_s(way.pids) - used_s) / growths)
    found.writes.append((_writes(way.plane) - writes) / growths)
    found.medians_ms.append(1e3 * median(_run(programs, way, pods, 1, seconds / 2)["grown"]))


def _run(programs: Path, way: Way, pods: int, clients: int, seconds: float) -> Tree:
    flags = {
        "scale": way.scale_url,
        "api": way.plane.url,
        "ca": way.plane.ca,
        "token": way.token,
        "workloads": way.plane.folder / "workloads.json",
        "clients": clients,
        "pods": pods,
        "start": way.count,
        "seconds": seconds,
    }
    command = [str(programs / "grow"), *(f"-{name}={value}" for name, value in flags.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] <= FEW * len(found["grown"]), f"{found['failed']} failed: {done.stderr}"
    way.count = found["last"]
    way.sent += len(found["grown"]) - found["failed"]
    return found


def _writes(plane: Plane) -> float:
    """Of keys, as etcd counts them: those of the API server's own leases too."""
    with urllib.request.urlopen(f"{plane.etcd_url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    names = ("etcd_mvcc_put_total ", "etcd_mvcc_delete_total ")
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(names))


@contextmanager
def _running(name: str, size: Size) -> Iterator[Way]:
    before = set(machine.family(os.getpid()))
    with running_plane() as plane, ExitStack() as stack:
        workloads = fill(plane, size.workloads)
        (plane.folder / "workloads.json").write_text(json.dumps(workloads))
        token = service_account(plane, TEAM, "grower", "cluster-admin")
        url, charged = plane.url, lambda: 0.0
        if name == RESOURCE_QUOTA:
            charged = _set_resource_quota(plane)
        if name in (ENVOY, WEBHOOK):
            gate = _gate(name, plane, stack)
            charged = partial(gate.metric, GRANTS)
            url = behind_envoy(plane, gate, stack) if name == ENVOY else url
        yield Way(plane, token, url, [pid for pid in machine.family(os.getpid()) if pid not in before], charged)


def fill(plane: Plane, count: int) -> list[Tree]:
    """Deployments with their ReplicaSets; how to grow each of them."""
    labels = {"workspace": TEAM}
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "labels": labels}})
    found = []
    for number in range(count):
        name = f"web-{number}"
        deployment = plane.api.create(_scalable("Deployment", name, {}))
        owned = {"ownerReferences": [_owner(deployment)]}
        revision = plane.api.create(_scalable("ReplicaSet", f"{name}-1", owned))
        pod = {"metadata": {"generateName": f"{name}-1-", "labels": {"app": name}}, "spec": _pod()}
        pod["metadata"]["ownerReferences"] = [_owner(revision)]
        found.append(
            {
                "scale": path_of("Deployment", TEAM, name, "scale"),
                "pods": path_of("Pod", TEAM),
                "pod": json.dumps(pod),
            }
        )
    return found


def _scalable(kind: str, name: str, metadata: Tree) -> Tree:
    labels = {"app": name.removesuffix("-1")} if kind == "ReplicaSet" else {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": TEAM} | metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod()},
        },
    }


def _pod() -> Tree:
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    return {"containers": [{"name": "main", "image": "registry.test/app:1", "resources": resources}]}


def _owner(tree: Tree) -> Tree:
    known = {name: tree["metadata"][name] for name in ("name", "uid")}
    return {"apiVersion": "apps/v1", "kind": tree["kind"], "controller": True, **known}


HARD = {"pods": "1M", "requests.cpu": "1M", "requests.memory": "1Pi"}
"""Of both kinds of quota: the same three things are counted."""


def _set_resource_quota(plane: Plane) -> Callable[[], float]:
    """What it counts."""
    metadata = {"name": TEAM, "namespace": TEAM}
    made = plane.api.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": HARD}})
    made["status"] = {"hard": HARD, "used": dict.fromkeys(HARD, "0")}
    plane.api.call("PUT", path_of("ResourceQuota", TEAM, TEAM, "status"), made)
    return lambda: float(plane.api.get("ResourceQuota", TEAM, TEAM)["status"]["used"]["pods"])


def _gate(name: str, plane: Plane, stack: ExitStack) -> Gate:
    """The quota and what decides by it; as a webhook, it is asked."""
    for file in ("crd.yaml", "ledger-crd.yaml"):
        plane.kubectl("apply", "--server-side", f"--filename={DEPLOY / file}")
    eventually(lambda: plane.api.serves("WorkspaceQuota"))
    eventually(lambda: plane.api.serves("WorkspaceLedger.extauthz.dev/v1alpha1"))
    spec = {"namespaceSelector": {"matchLabels": {"workspace": TEAM}}, "hard": HARD}
    tree = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": TEAM}, "spec": spec}
    plane.api.create(tree)
    flags = [f"--kubeconfig={plane.kubeconfig}", "--ledger=kubernetes", "--on-unclean-start=allow"]
    if name == WEBHOOK:
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATES}})
        plane.api.create(service())
        ca, pair = certificates(plane.folder)
        (port,) = free_ports(1)
        flags += [f"--webhook=127.0.0.1:{port}", f"--webhook-cert={pair[0]}", f"--webhook-key={pair[1]}"]
    gate = stack.enter_context(Gate("kubernetes", "kubernetes", plane.folder / "gate.log", flags))
    if name == WEBHOOK:
        plane.api.create(configuration(WebhookOptions(ca, SERVICE, GATES, port)))
        eventually(lambda: _is_refused(plane))
    return gate


def _is_refused(plane: Plane) -> bool:
    """What no quota has room for."""
    try:
        path = path_of("Deployment", TEAM, "web-0", "scale")
        plane.api.call("PATCH", f"{path}?dryRun=All", {"spec": {"replicas": 2 * 10**9}}, MERGE)
    except RefusedError:
        return True
    return False


def behind_envoy(plane: Plane, gate: Gate, stack: ExitStack) -> str:
    """Where an Envoy leads to the API server."""
    options = SidecarOptions(
        cert_file=str(plane.folder / "server.crt"),
        key_file=str(plane.folder / "server.key"),
        apiserver=Endpoint("127.0.0.1", plane.port),
        apiserver_name="127.0.0.1",
        apiserver_ca_file=str(plane.ca),
        gate=Endpoint("127.0.0.1", gate.port),
    )
    return f"https://127.0.0.1:{stack.enter_context(Envoy(options, plane.folder / 'envoy')).port}"
