"""A control plane on loopback: etcd and kube-apiserver as supervised children, ended with the ``with`` block."""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from extauthz.demo.processes import Child, page
from extauthz.tools.render.options import Endpoint, SidecarOptions
from tests.controlplane.api import Api
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.parts import find
from tests.support.certs import LOOPBACK_NAMES, Authority

READY_WITHIN_S = 90.0


@dataclass(frozen=True)
class Plane:
    """Where a running API server is, and how an administrator talks to it."""

    port: int
    folder: Path
    tls: ssl.SSLContext
    restart: Callable[[], None]
    """Ends the API server and starts it again, on the same port and the same data; returns once it is ready."""
    etcd: Child
    etcd_url: str

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path:
        """The authority of all certificates here."""
        return self.folder / "ca.crt"

    @functools.cached_property
    def api(self) -> Api:
        """An administrator's, straight at the API server."""
        return Api(self.url, self.tls)

    @functools.cached_property
    def kubectl(self) -> Kubectl:
        """An administrator's, straight at the API server."""
        return Kubectl(self.kubeconfig)

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, straight at the API server."""
        return self.folder / "admin.kubeconfig"

    def sidecar(self, gate: Endpoint, **options: Any) -> SidecarOptions:
        """Of an Envoy that asks this gate and leads here, with the API server's own certificate."""
        return SidecarOptions(
            cert_file=str(self.folder / "server.crt"),
            key_file=str(self.folder / "server.key"),
            apiserver=Endpoint("127.0.0.1", self.port),
            apiserver_name="127.0.0.1",
            apiserver_ca_file=str(self.ca),
            gate=gate,
            **options,
        )


@contextlib.contextmanager
def running_plane(apiserver_flags: Sequence[str] = (), folder: Path | None = None) -> Iterator[Plane]:
    """Start both, wait until ``/readyz`` says ok, and stop both at the end, whatever happened.

    Keys, data and logs go to *folder*, and stay there; without one they go with the server.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="extauthz-plane-")))
        _write_keys(folder)
        etcd_port, peer_port, port = free_ports(3)
        etcd = _start(stack, "etcd", folder, _etcd_flags(folder, etcd_port, peer_port))
        flags = [*_apiserver_flags(folder, etcd_port, port), *apiserver_flags]
        servers = [_start(stack, "kube-apiserver", folder, flags)]
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        tls.load_cert_chain(folder / "admin.crt", folder / "admin.key")

        def ready() -> None:
            servers[-1].until(lambda: _says_ok(plane), READY_WITHIN_S)

        def restart() -> None:
            servers[-1].terminate()
            servers.append(_start(stack, "kube-apiserver", folder, flags))
            ready()

        plane = Plane(port, folder, tls, restart, etcd, f"http://127.0.0.1:{etcd_port}")
        user = {"client-certificate": str(folder / "admin.crt"), "client-key": str(folder / "admin.key")}
        write_kubeconfig(plane.kubeconfig, plane.url, plane.ca, user)
        ready()
        stack.callback(plane.api.close)
        yield plane


def _write_keys(folder: Path) -> None:
    """ca.crt, server.{crt,key}, admin.{crt,key} (O=system:masters) and, for service accounts, sa.{key,pub}."""
    authority = Authority(folder, "ca")
    authority.issue("server", (*LOOPBACK_NAMES, "10.0.0.1"))
    authority.issue("admin", organization="system:masters")
    signer = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, pkcs8, plain = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    (folder / "sa.key").write_bytes(signer.private_bytes(pem, pkcs8, plain))
    (folder / "sa.pub").write_bytes(signer.public_key().public_bytes(pem, PublicFormat.SubjectPublicKeyInfo))


def _start(stack: contextlib.ExitStack, name: str, folder: Path, flags: Sequence[str]) -> Child:
    child = Child([str(find(name)), *flags], folder / f"{name}.log")
    stack.callback(child.terminate)
    return child


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
        "--experimental-watch-progress-notify-interval=5s",  # as kubeadm has it: else idle watches get no bookmarks
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


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now."""
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _says_ok(plane: Plane) -> bool | None:
    try:
        page(f"{plane.url}/readyz", context=plane.tls)
        return True
    except OSError:
        return None
