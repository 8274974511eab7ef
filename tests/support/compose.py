"""What docker-compose.yml runs beside the real parts (examples/compose): ``python -m tests.support.compose``.

In: the name of a part, and a shared folder. Out: keys, stand-ins for kubelet and metrics-server, and the show.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import secrets
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from extauthz.demo.envoy import write_secrets
from extauthz.demo.processes import page
from extauthz.tools.render import envoy
from extauthz.tools.render.options import Endpoint, GateTls, Profile, SidecarOptions
from tests.support import metricsapi
from tests.support.certs import Authority, Pair
from tests.support.kubelet import Kubelet
from tests.support.metricsapi import MetricsApi

Tree = Any

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


def make_keys(folder: Path) -> None:
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
    tree = envoy.sidecar(options)
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


# The show: installs what ``examples/compose`` describes, watches the HPA grow until its quota stops it, and says how to
# look.

NAMESPACE, NAME = "shop", "web"
BUSY = {"cpu": "900m", "memory": "64Mi"}
"""What each container uses of the 500m that it asks for: at any size the HPA wants more."""
FITS = 4
"""Replicas: two CPUs of quota, 500m each."""
MANIFESTS = Path("/manifests")
WITHIN_S = 300.0
PAUSE_S = 0.5

LOOK = """\
All of it stays up. To look around:
  docker compose run --rm kubectl -n shop describe hpa web
  docker compose run --rm kubectl describe workspacequota acme
  docker compose logs gate envoy
Give it room, and it goes on by itself:
  docker compose run --rm kubectl patch wsq acme --type=merge --patch '{"spec": {"hard": {"requests.cpu": "4"}}}'
  docker compose run --rm kubectl -n shop get hpa web --watch
Take it away:
  docker compose down --volumes
"""


class NeverError(Exception):
    """It did not happen in time. The message says what was seen last."""


def show(folder: Path) -> int:
    """0 if the HPA stopped where its quota says; 1 if not, with what there was instead."""
    kubectl = Kubectl(folder / "admin.kubeconfig")
    try:
        _install(kubectl)
        said = _watch(kubectl)
    except (NeverError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(f"stopped: the HPA says {said}\n")
    _say(kubectl("get", "workspacequotas"))
    _say(kubectl("-n", NAMESPACE, "get", "hpa,deployment"))
    _say(LOOK)
    return 0


class Kubectl:
    """The command, as an administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        self._command = ["kubectl", f"--kubeconfig={kubeconfig}", "--cache-dir=/tmp/kubectl"]

    def __call__(self, *arguments: str) -> str:
        """The output of the command.

        Raises:
            NeverError: it does not go well; with what it says.
        """
        command = [*self._command, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        if done.returncode:
            raise NeverError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


def _install(kubectl: Kubectl) -> None:
    _say("waiting for the API server")
    _until(lambda: kubectl("get", "--raw", "/readyz"))
    _say("the gate's definitions and rights, as deploy/ has them; a quota of two CPUs: examples/compose/quota.yaml")
    kubectl("apply", f"--kustomize={MANIFESTS}/examples/compose/cluster")
    kubectl("wait", "--for=condition=Established", "crd/workspacequotas.extauthz.dev", "--timeout=60s")
    kubectl("apply", f"--filename={MANIFESTS}/examples/compose/quota.yaml")
    _say("waiting for the gate")
    _until(_gate_ready)
    kubectl("wait", "--for=condition=Ready", "workspacequota/acme", "--timeout=120s")
    _say("a Deployment of 500m a pod, always busy, and its HPA, from 1 to 10: examples/compose/shop.yaml")
    kubectl("apply", f"--filename={MANIFESTS}/examples/compose/shop.yaml")


def _watch(kubectl: Kubectl) -> str:
    """Tell of each size, until a quota stops it. The condition's sentence."""
    sizes = [0]

    def stopped() -> str:
        size = int(json.loads(kubectl("-n", NAMESPACE, "get", "deployment", NAME, "-o", "json"))["spec"]["replicas"])
        if size != sizes[-1]:
            _say(f"{NAMESPACE}/{NAME}: {size} replicas")
            sizes.append(size)
        able = condition(json.loads(kubectl("-n", NAMESPACE, "get", "hpa", NAME, "-o", "json")), "AbleToScale")
        if size > FITS:
            raise AssertionError(f"{size} replicas, and {FITS} fit")
        sentence = f"{able.get('status')} {able.get('reason')}: {able.get('message')}"
        if size == FITS and "exceeded workspace quota" in sentence:
            return sentence
        raise NeverError(f"{size} replicas; AbleToScale {sentence}")

    return _until(stopped)


def condition(hpa: Tree, kind: str) -> Tree:
    """One condition of an HPA; empty before it has any."""
    conditions = hpa.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def _gate_ready() -> str:
    try:
        return page(url(GATE_HTTP, "http") + "/readyz")
    except OSError as error:
        raise NeverError(f"the gate is not ready: {error}") from error


def _until(attempt: Callable[[], str]) -> str:
    """Try until it goes well.

    Raises:
        NeverError: the last one, when time is up.
    """
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            return attempt()
        except NeverError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)


def _say(text: str) -> None:
    sys.stdout.write(text.rstrip("\n") + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run one; its exit code."""
    about = "One command for each service: ``keys``, ``kubelet``, ``metrics``, ``show``."
    parser = argparse.ArgumentParser(prog="python -m tests.support.compose", description=about)
    parser.add_argument("service", choices=SERVICES)
    parser.add_argument("--keys", type=Path, default=Path("/keys"), help="Folder of keys. Default: /keys.")
    arguments = parser.parse_args()
    return SERVICES[arguments.service](arguments.keys)


def _keys(folder: Path) -> int:
    make_keys(folder)
    return 0


def _kubelet(folder: Path) -> int:
    asyncio.run(Kubelet(url(APISERVER), administrator(folder)).main())
    return 0


def _metrics(folder: Path) -> int:
    server = MetricsApi(url(APISERVER), administrator(folder), ("0.0.0.0", METRICS[1]))
    server.usage[NAMESPACE] = BUSY
    asyncio.run(server.main())
    return 0


SERVICES: Mapping[str, Callable[[Path], int]] = {
    "keys": _keys,
    "kubelet": _kubelet,
    "metrics": _metrics,
    "show": show,
}

if __name__ == "__main__":
    sys.exit(main())
