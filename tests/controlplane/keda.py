"""KEDA's real operator and its metrics adapter against a real API server, without its webhooks."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import yaml

from extauthz.demo.processes import Child
from tests.controlplane import parts
from tests.controlplane.access import service_account
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.plane import Plane, free_ports, write_kubeconfig

Tree = Any

NAMESPACE = "keda"
SCALED_OBJECT = "ScaledObject.keda.sh/v1alpha1"
SCALED_JOB = "ScaledJob.keda.sh/v1alpha1"
ENVIRONMENT = {"WATCH_NAMESPACE": "", "POD_NAMESPACE": NAMESPACE, "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE}


def install(kubectl: Kubectl) -> None:
    """Its custom resource definitions and its namespace."""
    folder = parts.config("keda-operator") / "v2"
    items: list[Tree] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    items += [yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted(folder.glob("*.yaml"))]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    kubectl("apply", "--server-side", "--filename=-", stdin=listed)
    names = [f"crd/{tree['metadata']['name']}" for tree in items[1:]]
    kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)


@contextlib.contextmanager
def running_operator(plane: Plane, server: str, folder: Path, metrics: int = 0) -> Iterator[Child]:
    """One operator, installed, whose requests go to ``server`` with a bearer token.

    Args:
        metrics: the port where it tells its adapter what it measures; 0: any.
    """
    install(plane.kubectl)
    probes, free = free_ports(2)
    flags = [
        f"--health-probe-bind-address=127.0.0.1:{probes}",
        f"--metrics-service-bind-address=127.0.0.1:{metrics or free}",
        "--enable-prometheus-metrics=false",
    ]
    with _running("keda-operator", plane, server, folder, flags) as child:
        yield child


@contextlib.contextmanager
def running_adapter(plane: Plane, folder: Path, metrics: int) -> Iterator[str]:
    """The adapter of an operator at that port; the URL of its external metrics API, which takes tokens of ``plane``."""
    port, other = free_ports(2)
    kubeconfig = folder / "keda-adapter.kubeconfig"
    flags = [
        f"--lister-kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-tolerate-lookup-failure=true",
        f"--secure-port={port}",
        f"--tls-cert-file={plane.folder / 'server.crt'}",
        f"--tls-private-key-file={plane.folder / 'server.key'}",
        f"--port={other}",
        f"--metrics-service-address=localhost:{metrics}",
    ]
    with _running("keda-adapter", plane, plane.url, folder, flags):
        yield f"https://127.0.0.1:{port}"


@contextlib.contextmanager
def _running(name: str, plane: Plane, server: str, folder: Path, flags: list[str]) -> Iterator[Child]:
    kubeconfig, certificates = folder / f"{name}.kubeconfig", folder / f"{name}-certificates"
    token = service_account(plane, NAMESPACE, name, "cluster-admin")
    write_kubeconfig(kubeconfig, server, plane.ca, {"token": token})
    certificates.mkdir()
    for file, source in (("ca.crt", "ca.crt"), ("tls.crt", "server.crt"), ("tls.key", "server.key")):
        (certificates / file).write_bytes((plane.folder / source).read_bytes())
    environment = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
    flags = [f"--kubeconfig={kubeconfig}", f"--cert-dir={certificates}", *flags]
    child = Child(["env", *environment, str(parts.find(name)), *flags], folder / f"{name}.log")
    try:
        yield child
    finally:
        child.terminate()


def scaled_object(name: str, trigger: Tree, *, least: int, most: int) -> Tree:
    """What scales the Deployment of that name."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"name": name},
            "minReplicaCount": least,
            "maxReplicaCount": most,
            "pollingInterval": 1,
            "cooldownPeriod": 1,
            "triggers": [trigger],
        },
    }


def scaled_job(name: str, trigger: Tree, template: Tree, *, parallelism: int, most: int) -> Tree:
    """What makes Jobs of that pod template, as many as there is work for."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "metadata": {"name": name},
        "spec": {
            "jobTargetRef": {"parallelism": parallelism, "template": template},
            "maxReplicaCount": most,
            "pollingInterval": 1,
            "triggers": [trigger],
        },
    }


class Queue:
    """A service that says how much there is to do, for KEDA's trigger ``metrics-api``. A context manager."""

    def __init__(self) -> None:
        self.length = 0
        queue = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"length": queue.length}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def trigger(self) -> Tree:
        """One replica for each piece of work."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        return {"type": "metrics-api", "metadata": {"url": url, "valueLocation": "length", "targetValue": "1"}}
