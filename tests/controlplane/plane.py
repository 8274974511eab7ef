"""A control plane on loopback: etcd and kube-apiserver as supervised children, ended with the ``with`` block."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.parts import find
from tests.controlplane.pki import write_pki

READY_WITHIN_S = 90.0


@dataclass(frozen=True)
class Plane:
    """Where a running API server is, and how an administrator talks to it."""

    port: int
    folder: Path
    tls: ssl.SSLContext

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, straight at the API server."""
        return self.folder / "admin.kubeconfig"


@contextlib.contextmanager
def running_plane(apiserver_flags: Sequence[str] = ()) -> Iterator[Plane]:
    """Start both, wait until ``/readyz`` says ok, and stop both at the end, whatever happened."""
    with tempfile.TemporaryDirectory(prefix="extauthz-plane-") as name, contextlib.ExitStack() as children:
        folder = Path(name)
        write_pki(folder)
        etcd_port, peer_port, port = _free_ports(3)
        children.enter_context(_child("etcd", folder, _etcd_flags(folder, etcd_port, peer_port)))
        flags = [*_apiserver_flags(folder, etcd_port, port), *apiserver_flags]
        server = children.enter_context(_child("kube-apiserver", folder, flags))
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        tls.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        plane = Plane(port, folder, tls)
        user = {"client-certificate": str(folder / "admin.crt"), "client-key": str(folder / "admin.key")}
        write_kubeconfig(plane.kubeconfig, plane.url, folder / "ca.crt", user)
        _await_ready(plane, server)
        yield plane


def write_kubeconfig(path: Path, server: str, ca: Path, user: Mapping[str, str]) -> None:
    """One cluster, one user, one context. *user* as a kubeconfig has it: ``token``, or ``client-certificate``, …"""
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "me", "user": dict(user)}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }
    path.write_text(json.dumps(tree))  # JSON is YAML


def _etcd_flags(folder: Path, port: int, peer_port: int) -> list[str]:
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{port}",
        f"--advertise-client-urls=http://127.0.0.1:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        "--unsafe-no-fsync",
    ]


def _apiserver_flags(folder: Path, etcd_port: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
    ]


@contextlib.contextmanager
def _child(name: str, folder: Path, flags: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{name}.log").open("wb") as log:
        child = subprocess.Popen([find(name), *flags], stdout=log, stderr=log, cwd=folder)
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _await_ready(plane: Plane, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        if _says_ok(plane):
            return
        time.sleep(0.2)
    tail = (plane.folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
    raise RuntimeError(f"the API server did not become ready within {READY_WITHIN_S} s:\n{tail}")


def _says_ok(plane: Plane) -> bool:
    try:
        with urllib.request.urlopen(f"{plane.url}/readyz", context=plane.tls, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
