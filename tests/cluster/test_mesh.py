"""docs/istio.md on a cluster with Istio: what a person types has Knative's autoscaler, KEDA's operator and the HPA's
controller ask before they grow anything.

Knative makes the revision of a Service, and holds its requests in its activator while there is no pod. No ingress is
there, so requests go to the activator as an ingress would send them.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster import mesh
from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.conftest import APP, CLEAN, GATE, IMAGE
from tests.cluster.place import APISERVER, PAUSE
from tests.cluster.typed import LINE_WITHIN_S, Person
from tests.cluster.writers import administrator
from tests.controlplane import keda, parts
from tests.controlplane.parts import find
from tests.controlplane.workspace import workload
from tests.waiting import eventually

PARTS = (
    "istiod",
    "pilot-agent",
    f"autoscaler-{mesh.KNATIVE}",
    *(f"knative-{name}" for name in parts.SERVING),
    "queue-proxy",
    "hey",
)
pytestmark = [pytest.mark.cluster, pytest.mark.controlplane(*PARTS)]


def blocks(page: str, until: str) -> list[str]:
    """What is typed and shown, in the order of the page, before a heading."""
    text, found, _ = (ROOT / "docs" / page).read_text().partition(f"\n## {until}")
    assert found
    every = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in every if language in ("", "sh")]


def envoy_page() -> list[str]:
    """Its steps 2 to 4, by Helm: with one gate, a registry of ours, and a new ledger's hold of seconds."""
    _, certificates, gate, helm, quota, ready, _ = blocks("envoy.md", "5.")
    secret, by_kubectl, _ = gate.partition("kubectl apply -k deploy")
    theirs, ours = "registry.example.com/platform/extauthz", f"{IMAGE},replicas=1,settings.window-s=10"
    assert by_kubectl
    assert theirs in helm
    return [certificates, secret, helm.replace(theirs, ours), quota, ready]


PAGE = blocks("istio.md", "3.")
SERVICE_IP, FILTER = PAGE[0].splitlines()[0], PAGE[2].splitlines()[0]
(ASKED,) = blocks("istio.md", "What a sidecar may take")[len(PAGE) :]
HPA, HPA_ROLLED, MOVED, _ = blocks("istio.md", "To take it out")[len(blocks("istio.md", "The HPA")) :]
(TAKE_OUT,) = re.findall(r"^kubectl .* delete envoyfilter .*$", (ROOT / "docs/istio.md").read_text(), re.MULTILINE)
QUOTA = """kubectl patch workspacequota acme --type=merge --patch '{"spec": {"mode": "Enforce", "hard": %s}}'"""
SERVING = "kubectl -n knative-serving"
REVISION = "web-00001"
"""Knative's name for the first revision of a Service."""
DEPLOYMENT = f"{REVISION}-deployment"
APPLICATION = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
http.server.test(http.server.SimpleHTTPRequestHandler, port=8080)
"""
ROLLED = f"{SERVING} rollout status deployment autoscaler | tail -1"
TAKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
BESIDE = {"volumeMounts": [{"name": "extauthz-api-access", "mountPath": TAKEN}]}
"""A container that is added to the autoscaler's pod has its token."""
EXPLAIN = "extauthz explain ksvc/web -n shop | tr --squeeze-repeats '\\n ' ' '"
DOCTOR = (
    f"{SERVING} debug --quiet --attach --profile=general --custom=<(echo '{json.dumps(BESIDE)}') --image={GATE}"
    f" $({SERVING} get pod --selector=app=autoscaler --sort-by=.metadata.creationTimestamp --output=name | tail -1)"
    f" -- extauthz doctor --admin=http://127.0.0.1:15000 --url=https://{APISERVER} --ca={TAKEN}/ca.crt"
    f" --token-file={TAKEN}/token --profile=autoscaler --canary=shop/{DEPLOYMENT} --output=json"
)


@pytest.fixture(scope="module")
def inside(person: Person, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """Istio, Knative, and the gate as the pages say; a Service with one pod, and a quota of three."""
    folder = tmp_path_factory.mktemp("mesh")
    person.run(CLEAN)
    mesh.give_images(cluster, folder, mesh.ISTIOS | mesh.SERVING)
    mesh.install_istio(person, cluster, folder)
    mesh.install_serving(person, cluster, folder)
    person.heading("docs/envoy.md and docs/istio.md")
    person.types("\n".join(["set -eu", *envoy_page(), *PAGE]))
    person.types(QUOTA % '{"pods": "3", "requests.cpu": null, "requests.memory": null}')
    serves(person, "web", folder)
    yield person
    person.run(f"{mesh.UNINSTALL}\n{CLEAN}\nkubectl delete namespace extauthz-system istio-system")


def serves(person: Person, name: str, folder: Path) -> None:
    """A Service and its first pod."""
    file = folder / f"{name}.json"
    page = {"image": f"{APP}:1", "command": ["python3", "-c", APPLICATION], "resources": {"requests": {"cpu": "10m"}}}
    file.write_text(json.dumps(mesh.service(name, page)))
    person.sees(f"kubectl -n shop apply --filename {file}", f"service.serving.knative.dev/{name} ")
    person.sees(f"kubectl -n shop get deployment {name}-00001-deployment", " 1/1 ")


def wants(person: Person, pods: int) -> None:
    """As under load: Knative's autoscaler asks for so many pods, again and again."""
    person.types(f"kubectl -n shop annotate revision {REVISION} --overwrite autoscaling.knative.dev/min-scale={pods}")


def grows(person: Person, pods: int) -> None:
    person.sees(f"kubectl -n shop get deployment {DEPLOYMENT}", f" {pods}/{pods} ")


def is_refused(person: Person, why: str, pods: int) -> None:
    person.sees(f"kubectl -n shop describe kpa {REVISION}", "InternalError", f"exceeded workspace quota: acme, {why}")
    grows(person, pods)


def uses(person: Person, pods: int) -> None:
    """The quota's status says so."""
    person.sees("kubectl get wsq acme -o jsonpath='{.status.used}'", f'"pods":"{pods}"')


@contextlib.contextmanager
def request(cluster: Cluster, person: Person) -> Iterator[subprocess.Popen[str]]:
    """One to the Service, which the activator holds until there is a pod: in what it prints is how it was answered."""
    address = person.types(f"{SERVING} get service activator-service -o jsonpath={{.spec.clusterIP}}")
    whose = ("-H", "Knative-Serving-Namespace: shop", "-H", f"Knative-Serving-Revision: {REVISION}")
    hey = [*cluster.way_in(), str(find("hey")), "-n", "1", "-c", "1", "-t", "280", *whose, f"http://{address}/"]
    with subprocess.Popen(hey, stdout=subprocess.PIPE, text=True) as asking:
        try:
            yield asking
        finally:
            asking.kill()


def test_growth_stops_at_the_quota_says_why_on_the_podautoscaler_and_goes_on_once_there_is_room(inside: Person):
    wants(inside, 3)
    grows(inside, 3)
    wants(inside, 5)
    is_refused(inside, "requested: pods=2, used: pods=3, limited: pods=3; largest allowed replicas: 3", 3)

    def writes() -> set[tuple[str, int, str]]:
        """Envoy writes its log every few seconds."""
        log = inside.types(f"{SERVING} logs deploy/autoscaler -c istio-proxy | grep decision_id").splitlines()
        return {(each["method"], each["status"], each["verdict"]) for each in map(json.loads, log)}

    eventually(lambda: ("PATCH", 403, "deny") in writes(), writes)
    inside.types(QUOTA % '{"pods": "5"}')
    grows(inside, 5)


def test_a_cold_start_is_refused_without_room_and_counted_with_it(inside: Person, cluster: Cluster):
    wants(inside, 0)
    grows(inside, 0)
    uses(inside, 0)
    inside.types(QUOTA % '{"pods": "0"}')
    with request(cluster, inside) as asking:
        is_refused(inside, "requested: pods=1, used: pods=0, limited: pods=0; largest allowed replicas: 0", 0)
        inside.sees("kubectl -n shop describe ksvc web", "WorkspaceQuotaExceeded", "requested: pods=1, used: pods=0")
        inside.sees(EXPLAIN, "was refused", "raise pods of workspace quota acme by 1")
        assert asking.poll() is None, "it waits"
        inside.types(QUOTA % '{"pods": "5"}')
        said, _ = asking.communicate(timeout=LINE_WITHIN_S)
    assert "[200]\t1 responses" in said, said
    uses(inside, 1)
    assert "was refused" not in inside.run(EXPLAIN).stdout


def test_the_first_pod_of_a_revision_counts_and_no_sidecar_decides_it(inside: Person, tmp_path: Path):
    """The page says so: Knative's controller makes it, and without a webhook nobody is asked."""
    inside.types(QUOTA % '{"pods": "1"}')
    wants(inside, 1)
    uses(inside, 1)
    serves(inside, "more", tmp_path)
    uses(inside, 2)
    inside.types("kubectl -n shop delete ksvc more")
    inside.types(QUOTA % '{"pods": "5"}')
    uses(inside, 1)


def test_what_the_page_has_one_look_at_is_there(inside: Person):
    command, shown = re.findall(r"^\$ (.*\n.*)\n(.*)\n$", ASKED)[0]
    assert shown in inside.types(command).splitlines()


def test_doctor_in_the_pod_finds_nothing_wrong_with_the_sidecar(inside: Person):
    rows = {row["name"]: row["verdict"] for row in json.loads(inside.types(DOCTOR))["checks"]}
    assert {name for name, verdict in rows.items() if verdict not in ("ok", "skipped")} == set()
    assert rows["chain"] == rows["canary"] == rows["trust"] == rows["certificate"] == rows["gate reachable"] == "ok"


def test_without_the_filter_nobody_is_asked_and_with_it_growth_is_refused_again(inside: Person):
    wants(inside, 5)
    grows(inside, 5)
    wants(inside, 7)
    is_refused(inside, "requested: pods=2, used: pods=5, limited: pods=5", 5)
    inside.types(TAKE_OUT)
    grows(inside, 7)
    inside.types(f"{SERVICE_IP}\n{FILTER}\n{SERVING} rollout restart deployment autoscaler")
    inside.sees(ROLLED, "successfully rolled out")
    wants(inside, 8)
    is_refused(inside, "requested: pods=1, used: pods=7, limited: pods=5", 7)


KEDAS = {
    "--client knative-autoscaler": "--client keda-operator",
    "-n knative-serving": "-n keda",
    "deployment autoscaler": "deployment keda-operator",
}
"""What the page has for Knative's autoscaler, and what it is for KEDA's operator."""
ALL_YEAR = {"timezone": "UTC", "start": "0 0 1 1 *", "end": "59 23 31 12 *", "desiredReplicas": "5"}


@pytest.fixture(scope="module")
def with_keda(inside: Person, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """KEDA's operator and the HPA's controller are in the mesh too, as the page says."""
    mesh.give_images(cluster, tmp_path_factory.mktemp("keda"), mesh.KEDA, mesh.OFFICIAL)
    mesh.install_keda(inside, cluster)
    page = "\n".join(PAGE)
    for knatives, kedas in KEDAS.items():
        assert knatives in page
        page = page.replace(knatives, kedas)
    inside.types("\n".join(["set -eu", page, HPA]))
    rolled, works = HPA_ROLLED.splitlines()
    inside.types(rolled)
    inside.sees(works, " extauthz-hpa-controller-")
    cluster.set_flags(mesh.MANAGER, MOVED.strip())
    yield inside
    inside.run("kubectl delete namespace/mill wsq/mill; kubectl delete apiservice v1beta1.external.metrics.k8s.io")
    cluster.set_flags(mesh.MANAGER)
    inside.run("kubectl delete namespace keda extauthz-hpa")


@pytest.mark.controlplane("keda-operator", "keda-adapter")
def test_growth_by_keda_and_by_its_hpa_stops_at_the_quota_and_each_says_why_where_its_owner_looks(
    with_keda: Person, cluster: Cluster, tmp_path: Path
):
    """The operator wakes the workload, and its HPA then asks for more, with what the metrics adapter tells it."""

    def limit(pods: int) -> None:
        api.patch("WorkspaceQuota", "mill", None, {"spec": {"hard": {"pods": str(pods)}}})

    with closing(administrator(cluster.kubeconfig, tmp_path / "admin")) as api:
        named = {"metadata": {"name": "mill", "labels": {"workspace": "mill"}}}
        api.create({"apiVersion": "v1", "kind": "Namespace"} | named)
        api.create(
            {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "spec": {"mode": "Enforce"}} | named
        )
        limit(1)
        with_keda.sees("kubectl wait --for=condition=Ready wsq/mill", "condition met")
        scaled = keda.scaled_object("web", {"type": "cron", "metadata": ALL_YEAR}, least=2, most=5)
        scaled["spec"]["idleReplicaCount"] = 0
        for made in (workload("web", 0, {"cpu": "1m"}, image=PAUSE), scaled):
            made["metadata"]["namespace"] = "mill"
            api.create(made)
        refused = "exceeded workspace quota: mill, requested: pods={}, used: pods={}, limited: pods={}"
        seen = with_keda.sees("kubectl -n mill describe scaledobject web", "KEDAScaleTargetActivationFailed")
        assert refused.format(2, 0, 1) in seen
        limit(3)  # of two pods an HPA makes four at most in one step
        with_keda.sees("kubectl -n mill describe hpa", "FailedUpdateScale", refused.format(2, 2, 3))
        with_keda.sees("kubectl -n mill get deployment web", " 2/2 ")
        limit(5)
        with_keda.sees("kubectl -n mill get deployment web", " 5/5 ")
