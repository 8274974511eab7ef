"""What the chart and ``extauthz render tls`` make: a real API server takes it, whatever was chosen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.demo.processes import Child
from tests.controlplane.access import service_account
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.parts import config, find
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.rendering import AUTOSCALERS, ROOT, Autoscaler, chart
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("helm")

PATCHED = ("keda", "knative")
HPA = AUTOSCALERS["hpa-controller"]


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", *words]) == 0
    return capsys.readouterr().out


def tried(kubectl: Kubectl, manifests: str) -> list[str]:
    """What a server-side dry run with strict fields would make."""
    done = kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests)
    return [line.partition(" ")[0] for line in done.splitlines()]


@pytest.fixture
def kubectl(plane: Plane, request: pytest.FixtureRequest) -> Kubectl:
    """A dry run makes no namespace that objects could be tried in."""
    for namespace in ("extauthz-system", "keda", "knative-serving", "cert-manager"):
        plane.kubectl.run("create", "namespace", namespace)
    return plane.kubectl


@pytest.mark.parametrize(
    "values",
    [
        "mode=enforce",
        "ledger=memory,replicas=1,mode=audit,logLevel=debug",
        "service.trafficDistribution=PreferSameZone",
        "service.trafficDistribution=",
        "networkPolicy.clients={192.0.2.0/28,2001:db8::/32},imagePullSecrets[0].name=registry,image.pullPolicy=Always",
        "nodeSelector.disk=ssd,tolerations[0].operator=Exists,podLabels.team=platform,priorityClassName=system-node-critical",
        "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=kubernetes.io/hostname",
        "settings.refusals=terse,resources.limits.cpu=2,podAnnotations.note=mine",
        "webhook.enabled=true,webhook.certificates=self-signed,webhook.clamp=true",
        "webhook.enabled=true,webhook.certificates=self-signed,grpc.enabled=false",
        "api.enabled=true,dashboard.enabled=true",
    ],
)
def test_the_api_server_takes_the_gate_with_every_field_known(kubectl: Kubectl, values: str):
    made = tried(kubectl, chart("--set", values))
    assert "deployment.apps/extauthz" in made
    assert len(made) >= 18, "the four of the test of a release among them"


@pytest.mark.parametrize("name", ["account.yaml", "pod.yaml"])
def test_the_api_server_takes_the_static_pod_with_every_field_known(kubectl: Kubectl, name: str):
    assert tried(kubectl, (ROOT / "envoy" / "static-pod" / name).read_text())


def test_a_field_that_is_no_field_would_be_noticed(kubectl: Kubectl):
    misspelt = chart().replace("trafficDistribution", "traficDistribution")
    with pytest.raises(AssertionError, match="traficDistribution"):
        tried(kubectl, misspelt)


def shipped(autoscaler: Autoscaler) -> Any:
    """A Deployment as the autoscaler's project ships it, but for what plays no part here."""
    own = {"name": autoscaler.container, "image": "theirs", "env": [{"name": "POD_IP", "value": "10.9.8.7"}]}
    own["volumeMounts"] = [{"name": "certificates", "mountPath": "/certs"}]
    labels = {"app": autoscaler.deployment}
    spec = {
        "serviceAccountName": autoscaler.account,
        "containers": [own],
        "volumes": [{"name": "certificates", "emptyDir": {}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": autoscaler.deployment, "namespace": autoscaler.namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def lay_over(kubectl: Kubectl, how: str, patch: str, tmp_path: Path) -> Any:
    """The Deployment that comes of *patch*, by each of the ways that its comment names."""
    (tmp_path / "pod.yaml").write_text(patch)
    tree = yaml.safe_load(patch)
    name, namespace = tree["metadata"]["name"], tree["metadata"]["namespace"]
    where = (f"--filename={tmp_path / 'pod.yaml'}", "--output=yaml")
    if how == "apply":
        return yaml.safe_load(kubectl("apply", "--server-side", "--field-manager=extauthz", *where))
    if how == "patch":
        file = f"--patch-file={tmp_path / 'pod.yaml'}"
        return yaml.safe_load(kubectl("-n", namespace, "patch", "deployment", name, file, "--output=yaml"))
    overlay = {"resources": ["theirs.yaml"], "patches": [{"path": "pod.yaml"}]}
    theirs = next(each for each in AUTOSCALERS.values() if each.deployment == name)
    (tmp_path / "theirs.yaml").write_text(yaml.safe_dump(shipped(theirs)))
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return yaml.safe_load(kubectl("kustomize", str(tmp_path)))


@pytest.mark.parametrize("how", ["apply", "patch", "kustomize"])
@pytest.mark.parametrize("name", PATCHED)
def test_the_sidecar_is_laid_over_what_is_there_and_takes_nothing_away(
    kubectl: Kubectl, tmp_path: Path, name: str, how: str
):
    autoscaler = AUTOSCALERS[name]
    before = shipped(autoscaler)
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(before))
    try:
        patch = chart("--show-only=templates/beside.yaml", place=name)
        after = lay_over(kubectl, how, patch, tmp_path)["spec"]["template"]["spec"]
    finally:
        kubectl("-n", autoscaler.namespace, "delete", "deployment", autoscaler.deployment)
    assert {each["name"] for each in after["containers"]} == {autoscaler.container, "extauthz-gate"}
    assert [each["name"] for each in after["initContainers"]] == ["extauthz-envoy"]
    (own,) = [each for each in after["containers"] if each["name"] == autoscaler.container]
    assert own["image"] == "theirs"
    assert {each["name"] for each in own["env"]} >= {"POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}
    assert {each["name"] for each in own["volumeMounts"]} == {"certificates", "extauthz-api-access"}


@pytest.mark.parametrize("name", AUTOSCALERS)
def test_the_api_server_takes_a_sidecar_with_every_field_known(kubectl: Kubectl, name: str):
    autoscaler = AUTOSCALERS[name]
    made = chart(place=name)
    if name in PATCHED:
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump(shipped(autoscaler)))
    try:
        assert f"deployment.apps/{autoscaler.deployment}" in tried(kubectl, made)
    finally:
        kubectl("-n", autoscaler.namespace, "delete", "--ignore-not-found", "deployment", autoscaler.deployment)


@pytest.mark.controlplane("kube-controller-manager")
def test_the_hpa_controller_has_the_rights_that_it_needs_and_takes_a_lease_of_its_own(plane: Plane, tmp_path: Path):
    """The container's own arguments, and its service account; only the way to the API server is another."""
    trees = [*yaml.safe_load_all(chart("--set=crds.install=false", place="hpa-controller"))]
    (pod,) = [tree for tree in trees if tree["kind"] == "Deployment"]
    account = yaml.safe_dump_all(tree for tree in trees if tree["kind"] not in ("Deployment", "ConfigMap"))
    plane.kubectl("apply", "-f", "-", stdin=account)
    (container,) = [each for each in pod["spec"]["template"]["spec"]["containers"] if each["name"] == "hpa-controller"]
    kubeconfig = tmp_path / "kubeconfig"
    token = service_account(plane, HPA.namespace, HPA.account)
    write_kubeconfig(kubeconfig, plane.url, plane.ca, {"token": token})
    roads = [f"--{each}kubeconfig={kubeconfig}" for each in ("", "authentication-", "authorization-")]
    command = [str(find(container["command"][0])), *container["args"], *roads, "--secure-port=0", "--v=1"]
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(AUTOSCALED))
    child = Child(command, tmp_path / "log")

    def judged() -> bool:
        """It read the HPA, was let see that there is no such scale, and wrote that into the status."""
        status = plane.api.get("HorizontalPodAutoscaler", "web", "default").get("status", {})
        return any("not found" in each["message"] for each in status.get("conditions", []))

    try:
        eventually(judged, child.tail, within_s=60)
        assert plane.api.get("Lease", HPA.deployment, HPA.namespace)["spec"]["holderIdentity"]
    finally:
        child.terminate()
        plane.kubectl("-n", "default", "delete", "hpa", "web")
        plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=account)
    log = (tmp_path / "log").read_text()
    assert "forbidden" not in log.lower(), log


AUTOSCALED = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
}
"""Of a Deployment that is not there: that is said in its conditions, too."""


@pytest.mark.controlplane("cert-manager")
def test_the_api_server_takes_what_cert_manager_is_to_make(capsys, kubectl: Kubectl, plane: Plane):
    kinds = ("certificates", "issuers", "clusterissuers")
    folder = config("cert-manager") / "cert-manager"
    established = ["--for=condition=Established", "--timeout=60s", *(f"crd/{kind}.cert-manager.io" for kind in kinds)]
    definitions = [f"--filename={folder / f'cert-manager.io_{kind}.yaml'}" for kind in kinds]
    kubectl("apply", "--server-side", *definitions)
    try:
        kubectl("wait", *established)
        made = tried(kubectl, rendered(capsys, "tls", "--issuer", "cert-manager", "--as", "deployment"))
        with pytest.raises(AssertionError, match='Unsupported value: "server"'):
            tried(kubectl, rendered(capsys, "tls", "--issuer", "cert-manager").replace("server auth", "server"))
    finally:
        kubectl("delete", *definitions)
    found = [each.partition(".")[0].partition("/")[0] for each in made]
    assert {kind: found.count(kind) for kind in found} == {
        "issuer": 2,
        "certificate": 5,
        "clusterissuer": 2,
        "secret": 1,
    }


def test_the_api_server_takes_the_secrets_of_files(capsys, kubectl: Kubectl, tmp_path: Path, monkeypatch):
    text = rendered(capsys, "tls", "--as", "deployment")
    (tmp_path / "kustomization.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    for command in re.findall(r"^#     extauthz (.*)\n", text, re.MULTILINE):
        assert main(command.split()) == 0
    made = kubectl("apply", "--dry-run=server", "-k", str(tmp_path))
    names = {line.partition(" ")[0] for line in made.splitlines()}
    assert names == {f"secret/extauthz-{name}" for name in ("apiserver", "tls", "client", "kubeconfig")}
