"""Ways to guard growth, each with a real API server of its own: none, a ResourceQuota, the gate behind Envoy or as a
webhook. One team's Deployments and ReplicaSets are there; controllers do not run."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import machine
from bench.check import GRANTS
from bench.filling import define
from bench.webhook import NAMESPACE as GATES
from bench.webhook import SERVICE, certificates, service
from extauthz.demo.envoy import Envoy
from extauthz.demo.gate import Gate
from extauthz.tools.render.options import Endpoint
from extauthz.tools.render.webhook import WebhookOptions, configuration
from tests.controlplane.access import service_account
from tests.controlplane.api import MERGE, RefusedError, path_of
from tests.controlplane.plane import Plane, free_ports, running_plane, write_kubeconfig
from tests.support.objects import namespace, pod_of, quota, scalable
from tests.waiting import eventually

Tree = Any

NONE, RESOURCE_QUOTA = "no quota", "a ResourceQuota"
ENVOY, WEBHOOK = "the gate behind Envoy", "the gate as a webhook"
WAYS = (NONE, RESOURCE_QUOTA, ENVOY, WEBHOOK)
TEAM = "team"


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

    def used_s(self) -> Counter[str]:
        """Processor time of its servers so far, by the name of the program."""
        found: Counter[str] = Counter()
        for pid in self.pids:
            found[Path(f"/proc/{pid}/comm").read_text().strip()] += machine.processor_s([pid])
        return found


@contextmanager
def running(name: str, workload_count: int) -> Iterator[Way]:
    """A way, from its start to its end."""
    before = set(machine.family(os.getpid()))
    with running_plane() as plane, ExitStack() as stack:
        workloads = fill(plane, workload_count)
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
    plane.api.create(namespace(TEAM, workspace=TEAM))
    requests = {"cpu": "10m", "memory": "16Mi"}
    found = []
    for number in range(count):
        name = f"web-{number}"
        deployment = plane.api.create(scalable(name, TEAM, 1, requests))
        revision = plane.api.create(scalable(f"{name}-1", TEAM, 1, requests, kind="ReplicaSet", owner=deployment))
        pod = json.dumps(pod_of(revision))
        found.append({"scale": path_of("Deployment", TEAM, name, "scale"), "pods": path_of("Pod", TEAM), "pod": pod})
    return found


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
    define(plane)
    plane.api.create(quota(TEAM, HARD))
    plane.api.create(namespace(GATES))
    kubeconfig = plane.folder / "gate.kubeconfig"  # a token, as in a pod: it is known again, a certificate is verified
    token = service_account(plane, GATES, "gate", "cluster-admin")
    write_kubeconfig(kubeconfig, plane.url, plane.ca, {"token": token})
    flags = [f"--kubeconfig={kubeconfig}", "--ledger=kubernetes", "--allow-unknown=unclean-start"]
    if name == WEBHOOK:
        plane.api.create(service())
        ca, pair = certificates(plane.folder)
        (port,) = free_ports(1)
        flags += [f"--webhook=127.0.0.1:{port}", f"--webhook-cert={pair[0]}"]
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
    options = plane.sidecar(Endpoint("127.0.0.1", gate.port))
    return f"https://127.0.0.1:{stack.enter_context(Envoy(options, plane.folder / 'envoy')).port}"
