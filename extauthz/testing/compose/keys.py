"""Certificates, tokens, kubeconfigs and Envoy's configuration: all that is made before anything starts."""

from __future__ import annotations

import base64
import json
import secrets
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from extauthz.render import envoy
from extauthz.render.options import Endpoint, GateTls, Profile, SidecarOptions
from extauthz.testing import metricsapi
from extauthz.testing.certs import Authority, Pair
from extauthz.testing.envoy import write_secrets

# Names and ports of ``docker-compose.yml``'s services, as they and their certificates need them.


APISERVER = ("kube-apiserver", 6443)
ENVOY = ("envoy", 6443)
GATE = ("gate", 9191)
GATE_HTTP = ("gate", 9192)
METRICS = ("metrics", 8080)

PUBLISHED = "https://127.0.0.1:16443"
"""The API server, on the machine where ``docker compose`` runs."""


def url(place: tuple[str, int], scheme: str = "https") -> str:
    """``https://kube-apiserver:6443``."""
    host, port = place
    return f"{scheme}://{host}:{port}"


ADMIN = "admin"
TOKENS = "tokens.csv"
"""``--token-auth-file``: token, user, UID, groups."""


class User(NamedTuple):
    """Who shows a bearer token. A client certificate would end at Envoy."""

    file: str
    """Its kubeconfig."""
    name: str
    groups: str
    server: tuple[str, int]


MANAGER = "system:kube-controller-manager"
USERS = (
    User("controller-manager.kubeconfig", MANAGER, "", ENVOY),
    User("controller-manager-direct.kubeconfig", MANAGER, "", APISERVER),
    User("gate.kubeconfig", "system:serviceaccount:extauthz-system:extauthz", "system:serviceaccounts", APISERVER),
)
"""The API server's own roles are bound to the first; ``deploy/rbac.yaml`` binds those of the gate."""


def make(folder: Path) -> None:
    """Make everything, or nothing where it was made before."""
    if (folder / "envoy.json").exists():
        return
    authority = Authority(folder, "ca")
    for host, _ in (APISERVER, ENVOY, GATE):
        authority.issue(host, (host, "localhost", "127.0.0.1", "kubernetes.default.svc"))
    admin = authority.issue(ADMIN, (ADMIN,), organization="system:masters")
    _signer(folder)
    rows = []
    for user in USERS:
        token = secrets.token_urlsafe(24)
        rows.append(f'{token},{user.name},{user.file},"{user.groups}"\n')
        _kubeconfig(folder / user.file, url(user.server), folder / "ca.crt", {"token": token})
    _write(folder / TOKENS, "".join(rows))
    for name, server in (("admin.kubeconfig", url(APISERVER)), ("host.kubeconfig", PUBLISHED)):
        _kubeconfig(folder / name, server, folder / "ca.crt", _embedded(admin))
    _write(folder / "envoy.json", json.dumps(_envoy(folder)))


def administrator(folder: Path) -> ssl.SSLContext:
    """Trusts the API server, and shows it an administrator's certificate."""
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    tls.load_cert_chain(folder / f"{ADMIN}.crt", folder / f"{ADMIN}.key")
    return tls


def _envoy(folder: Path) -> dict[str, Any]:
    """As ``extauthz render envoy --profile scale`` prints it; and the metrics of pods come from the stand-in."""
    options = SidecarOptions(
        listen=Endpoint("0.0.0.0", ENVOY[1]),  # in a container of its own, with TLS
        cert_file=str(folder / "envoy.crt"),
        key_file=str(folder / "envoy.key"),
        apiserver=Endpoint(*APISERVER),
        apiserver_name=APISERVER[0],
        apiserver_ca_file=str(folder / "ca.crt"),
        gate=Endpoint(*GATE),
        gate_tls=GateTls(str(folder / "ca.crt"), GATE[0], str(folder / "envoy.crt"), str(folder / "envoy.key")),
        profile=Profile.SCALE,
        secrets_dir=str(folder),
    )
    write_secrets(options, folder)
    tree = envoy.to_tree(envoy.sidecar(options))
    host, port = METRICS
    metricsapi.route(port, tree, host)
    return tree


def _signer(folder: Path) -> None:
    """Of service account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _write(folder / "sa.key", private.decode())
    _write(folder / "sa.pub", public.decode())


def _embedded(pair: Pair) -> dict[str, str]:
    data = {"client-certificate-data": pair.cert, "client-key-data": pair.key}
    return {name: base64.b64encode(file.read_bytes()).decode() for name, file in data.items()}


def _kubeconfig(path: Path, server: str, ca: Path, user: dict[str, str]) -> None:
    trust = base64.b64encode(ca.read_bytes()).decode()
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "compose", "cluster": {"server": server, "certificate-authority-data": trust}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "compose", "context": {"cluster": "compose", "user": "me"}}],
        "current-context": "compose",
    }
    _write(path, json.dumps(tree))  # JSON is YAML


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
