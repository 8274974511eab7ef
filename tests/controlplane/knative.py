"""A real Knative autoscaler against a real API server, with no nodes, no activator and no networking layer.

What the rest of Knative would do, is done by hand: a Deployment and a PodAutoscaler stand for a revision, and the
ServerlessService that the autoscaler makes is told that its endpoints are there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet

from extauthz.demo.processes import Child
from tests.controlplane import parts
from tests.controlplane.access import service_account
from tests.controlplane.api import Api, RefusedError
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.waiting import eventually

Tree = Any

VERSIONS = ("v0.50.0", "v0.42.2")
"""The second is older: `make older` builds it."""
NAMESPACE = "knative-serving"
CONFIG = ("serving/core/configmaps", "networking/config-network.yaml")
"""The module archive of serving has config-network as a symlink, and so not at all."""
DEFINITIONS = ("serving/core/300-resources", "networking")
WANTED = ("metrics", "podautoscalers", "serverlessservices", "ingresses", "revisions")

QUICK: Mapping[str, dict[str, str]] = {
    "config-leader-election": {"lease-duration": "5s", "renew-deadline": "3s", "retry-period": "1s"},
    "config-autoscaler": {
        "stable-window": "6s",
        "scale-to-zero-grace-period": "6s",
        "max-scale-down-rate": "100",
        "target-burst-capacity": "-1",  # the activator stays in the path, so that nothing waits for a network
    },
}
"""The quickest that the autoscaler takes; as they come it would be minutes."""
NOTHING: Mapping[str, Mapping[str, str]] = {}

ENVIRONMENT = {
    "SYSTEM_NAMESPACE": NAMESPACE,
    "POD_NAME": "autoscaler-0",
    "POD_IP": "10.244.0.5",  # an EndpointSlice refuses loopback addresses
    "CONFIG_LOGGING_NAME": "config-logging",
    "CONFIG_OBSERVABILITY_NAME": "config-observability",
    "METRICS_DOMAIN": "knative.dev/serving",
    "KUBERNETES_MIN_VERSION": "1.20.0",
}


def versions(*parts: str) -> list[ParameterSet]:
    """Parameters of a test or fixture: each version, where its parts (``autoscaler``, ``decider``) are built."""
    names = {version: [f"{part}-{version}" for part in parts] for version in VERSIONS}
    return [pytest.param(version, marks=pytest.mark.controlplane(*names[version])) for version in VERSIONS]


def install(kubectl: Kubectl, version: str, more: Mapping[str, Mapping[str, str]] = NOTHING) -> None:
    """Custom resource definitions and config maps of one version, over those of another."""
    config = parts.config(f"autoscaler-{version}")
    definitions = [tree for tree in _objects(config, DEFINITIONS) if tree["spec"]["names"]["plural"] in WANTED]
    _apply(kubectl, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *definitions)
    names = [f"crd/{tree['metadata']['name']}" for tree in definitions]
    kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    maps = list(_objects(config, CONFIG))
    for tree in maps:
        tree["data"].pop("_example", None)
        tree["data"] |= QUICK.get(tree["metadata"]["name"], {}) | dict(more.get(tree["metadata"]["name"], {}))
    _apply(kubectl, *maps)


def _apply(kubectl: Kubectl, *objects: Tree) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=json.dumps(listed))


def _objects(config: Path, places: tuple[str, ...]) -> Iterator[Tree]:
    wanted = "CustomResourceDefinition" if places == DEFINITIONS else "ConfigMap"
    for place in places:
        path = config / place
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            yield from (tree for tree in yaml.safe_load_all(file.read_text()) if tree and tree["kind"] == wanted)


@contextlib.contextmanager
def running_autoscaler(
    plane: Plane, version: str, server: str, folder: Path, more: Mapping[str, Mapping[str, str]] = NOTHING
) -> Iterator[Child]:
    """One autoscaler, installed and led, whose requests go to ``server`` with a bearer token. ``more`` of its config
    maps goes over ``QUICK``."""
    with _alone():
        install(plane.kubectl, version, more)
        token = service_account(plane, NAMESPACE, "controller", "cluster-admin")
        kubeconfig = folder / f"autoscaler-{version}.kubeconfig"
        write_kubeconfig(kubeconfig, server, plane.ca, {"token": token})
        environment = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
        command = ["env", *environment, str(parts.find(f"autoscaler-{version}")), f"-kubeconfig={kubeconfig}"]
        child = Child(command, folder / f"autoscaler-{version}.log")
        try:
            yield child
        finally:
            child.terminate()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One autoscaler at a time on a machine: its ports are not configurable. Tests side by side wait for each other."""
    with (Path(tempfile.gettempdir()) / "extauthz-autoscaler.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def revision(namespace: str, name: str, requests: dict[str, str], replicas: int = 1) -> list[Tree]:
    """What Knative's controller makes of a Service, as far as the autoscaler looks at it."""
    labels = {f"serving.knative.dev/{key}": name for key in ("revision", "revisionUID", "configuration", "service")}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    container = {"name": "user-container", "image": "app:1", "resources": {"requests": requests, "limits": requests}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    annotations = {
        "autoscaling.knative.dev/class": "kpa.autoscaling.knative.dev",
        "autoscaling.knative.dev/metric": "concurrency",
        "autoscaling.knative.dev/target": "1",
        "autoscaling.knative.dev/target-utilization-percentage": "100",
    }
    autoscaler = {
        "apiVersion": "autoscaling.internal.knative.dev/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {**metadata, "annotations": annotations},
        "spec": {
            "protocolType": "http1",
            "reachability": "Reachable",
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        },
    }
    return [deployment, autoscaler]


AUTOSCALER = "PodAutoscaler.autoscaling.internal.knative.dev/v1alpha1"
SERVERLESS_SERVICE = "ServerlessService.networking.internal.knative.dev/v1alpha1"


def await_service(api: Api, namespace: str, name: str) -> None:
    """Wait until the autoscaler has taken the PodAutoscaler up, and say what the networking layer would say then."""
    sks = eventually(lambda: _found(api, namespace, name), lambda: f"no ServerlessService {namespace}/{name}")
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Ready", "EndpointsPopulated", "ActivatorEndpointsPopulated")
    ]
    status = {
        "observedGeneration": sks["metadata"]["generation"],
        "privateServiceName": f"{name}-private",
        "serviceName": name,
        "conditions": conditions,
    }
    api.patch(SERVERLESS_SERVICE, name, namespace, {"status": status}, sub="status")


def _found(api: Api, namespace: str, name: str) -> Tree:
    try:
        return api.get(SERVERLESS_SERVICE, name, namespace)
    except RefusedError:
        return None
