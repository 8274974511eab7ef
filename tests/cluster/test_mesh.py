"""docs/istio.md on a cluster with Istio: what a person types has Knative's autoscaler, KEDA's operator and the HPA's
controller ask before they grow anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster import mesh
from tests.cluster.cluster import ROOT, Cluster
from tests.cluster.conftest import CLEAN, GATE, IMAGE
from tests.cluster.place import APISERVER, PAUSE
from tests.cluster.typed import Person
from tests.cluster.writers import administrator
from tests.controlplane import keda, knative
from tests.controlplane.workspace import workload
from tests.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.controlplane("istiod", "pilot-agent", f"autoscaler-{mesh.KNATIVE}")]


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
*HPA, MOVED, _ = blocks("istio.md", "To take it out")[len(blocks("istio.md", "The HPA")) :]
(TAKE_OUT,) = re.findall(r"^kubectl .* delete envoyfilter .*$", (ROOT / "docs/istio.md").read_text(), re.MULTILINE)
QUOTA = """kubectl patch workspacequota acme --type=merge --patch '{"spec": {"mode": "Enforce", "hard": %s}}'"""
SERVING = "kubectl -n knative-serving"
ROLLED = f"{SERVING} rollout status deployment autoscaler | tail -1"
TAKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
BESIDE = {"volumeMounts": [{"name": "extauthz-api-access", "mountPath": TAKEN}]}
"""A container that is added to the autoscaler's pod has its token."""
DOCTOR = (
    f"{SERVING} debug --quiet --attach --profile=general --custom=<(echo '{json.dumps(BESIDE)}') --image={GATE}"
    f" $({SERVING} get pod --selector=app=autoscaler --sort-by=.metadata.creationTimestamp --output=name | tail -1)"
    f" -- extauthz doctor --admin=http://127.0.0.1:15000 --url=https://{APISERVER} --ca={TAKEN}/ca.crt"
    f" --token-file={TAKEN}/token --profile=autoscaler --canary=shop/web --output=json"
)


@pytest.fixture(scope="module")
def inside(person: Person, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """Istio, Knative's autoscaler, and the gate as the pages say; a revision with one pod, and a quota of three."""
    folder = tmp_path_factory.mktemp("mesh")
    person.run(CLEAN)
    mesh.give_images(cluster, folder)
    mesh.install_istio(person, cluster, folder)
    mesh.install_knative(person, cluster, folder)
    person.heading("docs/envoy.md and docs/istio.md")
    person.types("\n".join(["set -eu", *envoy_page(), *PAGE]))
    person.types(QUOTA % '{"pods": "3", "requests.cpu": null, "requests.memory": null}')
    with closing(administrator(cluster.kubeconfig, folder / "admin")) as api:
        deployment, autoscaler = knative.revision("shop", "web", {"cpu": "10m"})
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = PAUSE
        api.create(deployment)
        api.create(autoscaler)
        knative.await_service(api, "shop", "web")
    yield person
    person.run(f"{CLEAN}\nkubectl delete namespace extauthz-system knative-serving istio-system")


def wants(person: Person, pods: int) -> None:
    """As under load: Knative's autoscaler asks for so many pods, again and again."""
    person.types(f"kubectl -n shop annotate kpa web --overwrite autoscaling.knative.dev/min-scale={pods}")


def grows(person: Person, pods: int) -> None:
    person.sees("kubectl -n shop get deployment web", f" {pods}/{pods} ")


def is_refused(person: Person, why: str, pods: int) -> None:
    person.sees("kubectl -n shop describe kpa web", "InternalError", f"exceeded workspace quota: acme, {why}")
    grows(person, pods)


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


def test_what_the_page_has_one_look_at_is_there(inside: Person):
    command, shown = re.findall(r"^\$ (.*\n.*)\n(.*)\n$", ASKED)[0]
    assert shown in inside.types(command).splitlines()


def test_doctor_in_the_pod_finds_nothing_wrong_with_the_sidecar(inside: Person):
    rows = {row["name"]: row["verdict"] for row in json.loads(inside.types(DOCTOR))["checks"]}
    assert {name for name, verdict in rows.items() if verdict not in ("ok", "skipped")} == set()
    assert rows["chain"] == rows["canary"] == rows["trust"] == rows["certificate"] == rows["gate reachable"] == "ok"


def test_without_the_filter_nobody_is_asked_and_with_it_growth_is_refused_again(inside: Person):
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
    inside.types("\n".join(["set -eu", page, *HPA]))
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
