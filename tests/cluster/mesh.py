"""Istio and Knative's autoscaler as pods of a cluster: their own manifests, and images of this machine's files.

Two things are not as elsewhere: the sidecar is a stock Envoy, which has not the filters of Istio's own
(``istio.stats``, ``istio.alpn``, metadata exchange), and nobody but the autoscaler is there of Knative.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.typed import Person
from tests.compose import engine
from tests.compose.standins import TRUST, StandIn, build, copy, envoy, program
from tests.controlplane import knative, parts
from tests.controlplane.istio import NAMESPACE as ISTIO
from tests.controlplane.istio import only_services_of

REGISTRY, TAG = "registry.test", "mesh"
KNATIVE = "v0.50.0"
TABLES = ("iptables-nft", "iptables-nft-restore", "iptables-nft-save")


def _proxy(files: Path) -> None:
    """As Istio's Dockerfile.proxyv2 has it."""
    copy(parts.find("pilot-agent"), files, "/usr/local/bin/pilot-agent")
    envoy(files)
    copy(TRUST, files, str(TRUST))
    bootstrap = parts.config("pilot-agent") / "istio/envoy_bootstrap.json"
    copy(bootstrap, files, "/var/lib/istio/envoy/envoy_bootstrap_tmpl.json")
    for name in (*TABLES, *(f"ip6{name.removeprefix('ip')}" for name in TABLES)):
        copy(Path("/usr/sbin") / name, files, f"/usr/sbin/{name}")
    (extensions,) = Path("/usr/lib").glob("*/xtables")
    shutil.copytree(extensions, files / extensions.relative_to("/"))


def _image(name: str, locate: Callable[[], Path], user: int) -> StandIn:
    return StandIn(program(locate, name), lines=(f"USER {user}", f'ENTRYPOINT ["/usr/local/bin/{name}"]'))


IMAGES = {
    "pilot": _image("pilot-discovery", lambda: parts.find("istiod"), 1337),
    "proxyv2": StandIn(_proxy, {"PATH": "/usr/local/bin:/usr/sbin"}, ('ENTRYPOINT ["/usr/local/bin/pilot-agent"]',)),
    "autoscaler": _image("autoscaler", lambda: parts.find(f"autoscaler-{KNATIVE}"), 65532),
}
"""By the names that Istio's chart has for them."""

ISTIOD = {
    "global": {
        "hub": REGISTRY,
        "tag": TAG,
        # Two cores are all that there is.
        "proxy": {"resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}},
    },
    "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    "autoscaleEnabled": False,
    # What follows leaves out filters that only Istio's own Envoy has.
    "env": {"PILOT_ENABLE_METADATA_EXCHANGE": "false"},
    "meshConfig": {"enableAutoMtls": False, "defaultProviders": {"metrics": []}},
}
"""Values of Istio's chart."""


def give_images(cluster: Cluster, folder: Path) -> None:
    """Build them, and let the node have them."""
    names = [f"{REGISTRY}/{name}:{TAG}" for name in IMAGES]
    for name, stand_in in zip(names, IMAGES.values(), strict=True):
        build(name, stand_in)
    archive = folder / "mesh.tar"
    found = engine.found()
    many = ("--multi-image-archive",) if found.is_podman else ()
    found.run("save", *many, "--output", str(archive), *names, within_s=engine.BUILD_WITHIN_S)
    cluster.import_images(archive)
    archive.unlink()


def install_istio(person: Person, folder: Path) -> None:
    """istiod and its injector, of Istio's charts."""
    charts = parts.config("pilot-agent") / "istio"
    values = folder / "istiod.json"
    values.write_text(json.dumps(ISTIOD))
    person.types(f"helm install istio-base {charts}/base --namespace {ISTIO} --create-namespace")
    istiod = f"{charts}/istio-control/istio-discovery --namespace {ISTIO} --values {values}"
    person.types(f"helm install istiod {istiod} --wait --timeout=5m")


def install_knative(person: Person, cluster: Cluster, folder: Path) -> None:
    """The autoscaler in a namespace of the mesh, and what it looks at."""
    knative.install(cluster.kubectl, KNATIVE)
    core = parts.config(f"autoscaler-{KNATIVE}") / "serving/core"
    deployment = (core / "deployments/autoscaler.yaml").read_text()
    built = "ko://knative.dev/serving/cmd/autoscaler"
    assert built in deployment
    file = folder / "autoscaler.yaml"
    file.write_text(deployment.replace(built, f"{REGISTRY}/autoscaler:{TAG}"))
    person.types(f"kubectl label namespace {knative.NAMESPACE} istio-injection=enabled")
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(only_services_of(knative.NAMESPACE, "default/*")))
    person.types(
        f"kubectl apply --filename {core}/200-serviceaccount.yaml --filename {core}/200-roles --filename {file}"
    )
    person.types(f"kubectl -n {knative.NAMESPACE} rollout status deployment autoscaler --timeout=120s")
