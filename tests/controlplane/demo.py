"""``make demo``: the demo, on a real API server where ``make controlplane`` has built one."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any, Self

from extauthz.demo.__main__ import main
from extauthz.demo.cluster import NAMESPACE, OBJECTS, TOKEN, Recording, StandIn, until
from extauthz.demo.gate import Gate
from tests.controlplane import parts
from tests.controlplane.plane import Plane, running_plane
from tests.controlplane.wire import bytes_field, fields
from tests.support.certs import Pair

Tree = Any
LEASE = ("Lease", "kube-controller-manager", "kube-system")
NEEDED = ("etcd", "kube-apiserver")


class Real:
    """etcd and kube-apiserver; the gate watches it."""

    title = "API server (the real one)"
    state: Path | str = "kubernetes"

    def __init__(self, directory: Path) -> None:
        self._folder = directory / "plane"
        self._folder.mkdir()
        self.ca = self._folder / "ca.crt"
        self.certificate = Pair(self._folder / "server.crt", self._folder / "server.key")
        self.gate_flags = (f"--kubeconfig={self._folder / 'admin.kubeconfig'}", "--allow-unknown=unclean-start")
        self._stack = contextlib.ExitStack()
        self._plane: Plane | None = None

    def __enter__(self) -> Self:
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{TOKEN},everybody,everybody,system:masters\n")
        self._plane = self._stack.enter_context(running_plane([f"--token-auth-file={tokens}"], self._folder))
        until(self._has_namespaces, "the API server has its own namespaces")
        for tree in OBJECTS:
            self._plane.api.create(tree)
        kind, name, namespace = LEASE
        metadata = {"name": name, "namespace": namespace}
        self._plane.api.create({"apiVersion": "coordination.k8s.io/v1", "kind": kind, "metadata": metadata})
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def port(self) -> int:
        return self._running.port

    @property
    def _running(self) -> Plane:
        assert self._plane is not None, "it is not running"
        return self._plane

    def _has_namespaces(self) -> bool:
        return LEASE[2] in {one["metadata"]["name"] for one in self._running.api.list("Namespace")}

    def replicas(self, name: str) -> int:
        return int(self._running.api.get("Deployment", name, NAMESPACE)["spec"]["replicas"])

    def meet(self, recording: Recording, workload: str | None) -> Recording:
        """Writes the version and the UID of the object here into the request."""
        if workload is None:
            return recording.changed(body=_renewed(recording.body, self._running.api.get(*LEASE)["metadata"]))
        body, metadata = recording.body, self._running.api.get("Deployment", workload, NAMESPACE)["metadata"]
        for key, value in recording.precondition.items():
            body = body.replace(f'"{key}":"{value}"'.encode(), f'"{key}":"{metadata[key]}"'.encode())
        return recording.changed(body=body)

    def show(self, gate: Gate) -> None:
        """What was allowed has been answered, and the answer seen."""
        until(lambda: gate.metric("extauthz_intents") == 0, "the gate has seen what was allowed")

    def arrived(self) -> bool:
        """It takes no request without a token: every scene has its answer."""
        return True


def _renewed(body: bytes, metadata: Tree) -> bytes:
    """A Lease in protobuf with another UID and resourceVersion (``metav1.ObjectMeta``, fields 5 and 6)."""
    magic, envelope = body[:4], dict(fields(body[4:]))
    lease = dict(fields(envelope[2]))
    news = {5: metadata["uid"].encode(), 6: metadata["resourceVersion"].encode()}
    lease[1] = b"".join(bytes_field(tag, value) for tag, value in ({**dict(fields(lease[1])), **news}).items())
    envelope[2] = b"".join(bytes_field(tag, value) for tag, value in lease.items())
    return magic + b"".join(bytes_field(tag, value) for tag, value in envelope.items())


def start() -> int:
    """The demo's exit code. Says on what it runs, and what would make that the real one."""
    if missing := parts.missing(NEEDED):
        print(f"On a stand-in for the API server, since {missing[0]}.")
        return main(StandIn)
    return main(Real)


if __name__ == "__main__":
    sys.exit(start())
