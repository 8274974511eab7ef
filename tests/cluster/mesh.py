"""Istio, Knative, KEDA and kube-controller-manager as pods of a cluster, from this machine's files.

These are not as elsewhere: the sidecar is a stock Envoy, which has not the filters of Istio's own (``istio.stats``,
``istio.alpn``, metadata exchange), Knative has no ingress, so that no Route is ever ready, and KEDA has no webhooks.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.cluster.typed import Person
from tests.compose import engine
from tests.compose.standins import TRUST, StandIn, build, copy, envoy, program
from tests.compose.standins import main as make_missing
from tests.controlplane import keda, knative, parts
from tests.controlplane.istio import NAMESPACE as ISTIO
from tests.controlplane.istio import only_services_of

REGISTRY, TAG = "registry.test", "mesh"
MANAGER = "kube-controller-manager"
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


def ours(name: str) -> str:
    """As Istio's chart puts it together."""
    return f"{REGISTRY}/{name}:{TAG}"


ISTIOS = {
    ours("pilot"): _image("pilot-discovery", lambda: parts.find("istiod"), 1337),
    ours("proxyv2"): StandIn(
        _proxy, {"PATH": "/usr/local/bin:/usr/sbin"}, ('ENTRYPOINT ["/usr/local/bin/pilot-agent"]',)
    ),
}
SCALING = {
    ours("autoscaler"): _image("autoscaler", lambda: parts.find(f"autoscaler-{KNATIVE}"), 65532),
    ours("queue-proxy"): _image("queue-proxy", lambda: parts.find("queue-proxy"), 65532),
}
"""What of Knative scales."""
SERVING = SCALING | {
    ours(name): _image(name, lambda name=name: parts.find(f"knative-{name}"), 65532) for name in parts.SERVING
}
"""All of Knative that serves."""
PULLED = {
    "config-deployment": {
        "queue-sidecar-image": ours("queue-proxy"),
        "registries-skipping-tag-resolving": REGISTRY,  # nobody answers there
    }
}
"""Settings of Knative: whence its pods have their images."""
KEDA = {
    ours("keda-operator"): _image("keda-operator", lambda: parts.find("keda-operator"), 65532),
    ours("keda-adapter"): _image("keda-adapter", lambda: parts.find("keda-adapter"), 65532),
}
"""Of ``keda.yaml``."""
OFFICIAL = f"registry.k8s.io/{MANAGER}:{parts.version(MANAGER)}"
"""Of the HPA on docs/istio.md."""

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


def give_images(cluster: Cluster, folder: Path, images: Mapping[str, StandIn], *official: str) -> None:
    """Build them, and let the node have them."""
    for name, stand_in in images.items():
        build(name, stand_in)
    make_missing(official)
    archive = folder / "mesh.tar"
    found = engine.found()
    many = ("--multi-image-archive",) if found.is_podman else ()
    found.run("save", *many, "--output", str(archive), *images, *official, within_s=engine.BUILD_WITHIN_S)
    cluster.import_images(archive)
    archive.unlink()


def install_istio(person: Person, cluster: Cluster, folder: Path) -> None:
    """istiod and its injector, of Istio's charts, and what each sidecar knows of: the API server."""
    charts = parts.config("pilot-agent") / "istio"
    values = folder / "istiod.json"
    values.write_text(json.dumps(ISTIOD))
    person.types(f"helm install istio-base {charts}/base --namespace {ISTIO} --create-namespace")
    istiod = f"{charts}/istio-control/istio-discovery --namespace {ISTIO} --values {values}"
    person.types(f"helm install istiod {istiod} --wait --timeout=5m")
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(only_services_of(ISTIO, "default/*")))


def install_knative(person: Person, cluster: Cluster, folder: Path) -> None:
    """The autoscaler, in the mesh if there is one, and what it looks at."""
    knative.install(cluster.kubectl, KNATIVE, PULLED)
    core = _core()
    person.types(f"kubectl label namespace {knative.NAMESPACE} istio-injection=enabled")
    person.types(f"kubectl apply --filename {core}/200-serviceaccount.yaml --filename {core}/200-roles")
    _deploy(person, folder, "autoscaler")


def install_serving(person: Person, cluster: Cluster, folder: Path) -> None:
    """And all else that makes pods of a Knative Service, but for an ingress."""
    install_knative(person, cluster, folder)
    theirs = parts.config(f"autoscaler-{KNATIVE}") / "networking", parts.config("knative-controller") / "caching"
    rest = [file for folder in theirs for file in folder.glob("*.yaml") if file.stem != "config-network"]
    named = " ".join(f"--filename {place}" for place in (_core() / "300-resources", _core() / "webhooks", *rest))
    person.types(f"kubectl apply --server-side --force-conflicts {named}")
    _deploy(person, folder, *parts.SERVING)


def _core() -> Path:
    return parts.config(f"autoscaler-{KNATIVE}") / "serving/core"


def _deploy(person: Person, folder: Path, *names: str) -> None:
    """Some of Knative's own Deployments, with the images that the node has."""
    for name in names:
        deployment = (_core() / f"deployments/{name}.yaml").read_text()
        built = f"ko://knative.dev/serving/cmd/{name}"
        assert built in deployment
        file = folder / f"{name}.yaml"
        file.write_text(deployment.replace(built, ours(name)))
        person.types(f"kubectl apply --filename {file}")
    for name in names:
        person.types(f"kubectl -n {knative.NAMESPACE} rollout status deployment {name} --timeout=120s")


UNINSTALL = f"""kubectl delete ksvc --all --all-namespaces
kubectl wait --for=delete pods --selector=serving.knative.dev/service --all-namespaces --timeout=120s
kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations --all
kubectl -n {knative.NAMESPACE} delete deployments --all
kubectl -n {knative.NAMESPACE} wait --for=delete pods --all --timeout=120s
kubectl delete namespace {knative.NAMESPACE}"""
"""Webhooks go early: without istiod Istio's let no pod in. Knative's controller takes finalizers from what is deleted.
Where a namespace has pods that may take ten minutes to end, Kubernetes looks after five whether they are gone."""


def service(name: str, container: Mapping[str, object]) -> Mapping[str, object]:
    """A Knative Service with a pod for each request that is under way, and one at least."""
    annotations = {
        "autoscaling.knative.dev/min-scale": "1",
        "autoscaling.knative.dev/target": "1",
        "autoscaling.knative.dev/target-utilization-percentage": "100",
    }
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    metadata = {"name": name}
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"template": template},
    }


def install_keda(person: Person, cluster: Cluster) -> None:
    """Its operator and its metrics adapter in a namespace of the mesh."""
    keda.install(cluster.kubectl)
    person.types(f"kubectl label namespace {keda.NAMESPACE} istio-injection=enabled")
    person.types(f"kubectl apply --filename {Path(__file__).with_name('keda.yaml')}")
    for name in ("keda-operator", "keda-metrics-apiserver"):
        person.types(f"kubectl -n {keda.NAMESPACE} rollout status deployment {name} --timeout=120s")
