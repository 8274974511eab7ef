"""Run by ``test_istio.py`` in a network namespace: istiod, a stock Envoy as the sidecar, and clients of the service IP.

Of Istio's redirect rules there is the one that counts here: what goes to the service IP goes to the sidecar first. The
sidecar's own connection to the API server is addressed to where that really listens, so that no rule needs to tell it
by its user.
"""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from extauthz.cli import main
from tests.controlplane import knative
from tests.controlplane.access import service_account
from tests.controlplane.api import Api, RefusedError, Tree
from tests.controlplane.fixtures import deployment
from tests.controlplane.istio import OUTBOUND_PORT, Pod, Sidecar, only_services_of, running_istiod
from tests.controlplane.plane import Plane
from tests.support import authz
from tests.support.authz import ScriptedAuthz
from tests.support.kubelet import of_annotations
from tests.waiting import eventually

SERVICE_IP = "10.0.0.1"
LISTENER = f"{SERVICE_IP}_443"
REPOSITORY = Path(__file__).parents[2]
POD = Pod("autoscaler-0", knative.NAMESPACE, {"app": "autoscaler"})
SENTENCE = "exceeded workspace quota: acme, requested: pods=3, used: pods=2, limited: pods=4"


def refuse() -> authz.Answer:
    """As the gate does, with all that kubectl and the autoscaler need to show the sentence."""
    response = authz.deny(403, SENTENCE)(None)
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
    response.denied_response.body = json.dumps(status | {"message": SENTENCE})
    return lambda request: response


@dataclass(frozen=True)
class Mesh:
    plane: Plane
    gate: ScriptedAuthz
    sidecar: Sidecar
    folder: Path
    filter: Path
    """The EnvoyFilter, with where things are here."""
    named: str = "knative-autoscaler"
    """The client, as ``--client`` names it."""

    def client(self) -> Api:
        """With a bearer token, to the service IP as a pod would."""
        token = service_account(self.plane, "default", "person", "cluster-admin")
        return Api(f"https://{SERVICE_IP}", ssl.create_default_context(cafile=str(self.plane.ca)), token)

    def diagnosis(self) -> object:
        return self.sidecar.chains(LISTENER), self.sidecar.refusals(), self.sidecar.log[-3000:]


@pytest.fixture(scope="session", autouse=True)
def network() -> None:
    """Before any other fixture: a new network namespace has not even a loopback that is up."""
    redirect = f"iptables -t nat -A OUTPUT -p tcp -d {SERVICE_IP} --dport 443 -j REDIRECT --to-ports {OUTBOUND_PORT}"
    for command in ("ip link set lo up", f"ip address add {SERVICE_IP}/32 dev lo", redirect):
        subprocess.run(command.split(), check=True, timeout=30)


@pytest.fixture(scope="module")
def mesh(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Everything but the EnvoyFilter."""
    with running_mesh(plane, tmp_path_factory.mktemp("mesh"), POD, "knative-autoscaler") as mesh:
        yield mesh


@contextmanager
def running_mesh(plane: Plane, folder: Path, pod: Pod, named: str) -> Iterator[Mesh]:
    """istiod, the pod's sidecar and a gate."""
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": pod.namespace}})
    with running_istiod(plane, folder) as xds, ScriptedAuthz() as gate:
        plane.api.create(only_services_of(pod.namespace, "default/*"))
        with Sidecar(pod, xds, folder) as sidecar:
            yield Mesh(plane, gate, sidecar, folder, folder / "filter.yaml", named)


def render(capsys: pytest.CaptureFixture[str], mesh: Mesh, *words: str) -> str:
    """The EnvoyFilter of ``istio/``, made by the same command, told where things are here. The sidecar is given what
    the pod's annotations hold for it."""
    here = {
        "service-ip": SERVICE_IP,
        "apiserver": f"127.0.0.1:{mesh.plane.port}",
        "apiserver-ca": mesh.plane.ca,
        "cert": mesh.plane.folder / "server.crt",
        "key": mesh.plane.folder / "server.key",
        "gate": f"127.0.0.1:{mesh.gate.port}",
        "secrets": mesh.folder / "secrets",
    }
    told = [*(f"--{name}={value}" for name, value in here.items()), *words]
    tls = [] if any(word.startswith("--gate-ca=") for word in words) else ["--gate-plain"]
    *_, pod = yaml.safe_load_all(_made_anew(capsys, f"{mesh.named}-pod", *told, *tls))
    for file, text in of_annotations(pod["spec"]["template"]):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text(text)
    return _made_anew(capsys, mesh.named, *told, *tls)


def _made_anew(capsys: pytest.CaptureFixture[str], name: str, *words: str) -> str:
    what, client = ("istio-pod", name.removesuffix("-pod")) if name.endswith("-pod") else ("istio", name)
    assert main(["render", what, "--client", client, *words]) == 0
    return capsys.readouterr().out


def test_the_filters_are_taken_by_the_api_server(capsys, mesh: Mesh):
    for namespace in ("keda", "extauthz-hpa"):
        mesh.plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for name in ("knative-autoscaler", "keda-operator", "hpa-controller"):
        filters = _made_anew(capsys, name)
        said = mesh.plane.kubectl("create", "--dry-run=server", "--filename=-", stdin=filters)
        assert "created (server dry run)" in said


def test_the_patch_of_the_pod_is_taken_for_the_autoscaler_and_leaves_the_rest_of_it(mesh: Mesh):
    container = {"name": "autoscaler", "image": "a:1", "volumeMounts": [{"name": "own", "mountPath": "/own"}]}
    spec = {"containers": [container], "serviceAccountName": "controller"}
    tree = deployment("autoscaler", 1, spec | {"volumes": [{"name": "own", "emptyDir": {}}]})
    mesh.plane.api.create(tree | {"metadata": {"name": "autoscaler", "namespace": knative.NAMESPACE}})
    patch = REPOSITORY / "istio" / "knative" / "pod.yaml"
    said = mesh.plane.kubectl(
        "-n", knative.NAMESPACE, "patch", "deployment", "autoscaler", f"--patch-file={patch}", "--output=json"
    )
    template = json.loads(said)["spec"]["template"]
    spec = template["spec"]
    assert sorted(each["name"] for each in spec["volumes"]) == ["extauthz-api-access", "own"]
    assert len(spec["containers"][0]["volumeMounts"]) == 2
    pod = injected(template) | {"apiVersion": "v1", "kind": "Pod"}
    said = mesh.plane.kubectl("create", "--dry-run=server", "--validate=strict", "--filename=-", stdin=json.dumps(pod))
    assert said == "pod/autoscaler-0 created (server dry run)\n"
    mesh.plane.kubectl("-n", knative.NAMESPACE, "delete", "deployment", "autoscaler")


def injected(template: Tree) -> Tree:
    """With a sidecar that has what the annotations give it, as Istio's template does it
    (``manifests/charts/istio-control/istio-discovery/files/injection-template.yaml`` in istio.io/istio)."""
    metadata, spec = template["metadata"], template["spec"]
    volumes, mounts = (
        json.loads(metadata["annotations"][f"sidecar.istio.io/{what}"]) for what in ("userVolume", "userVolumeMount")
    )
    proxy = {"name": "istio-proxy", "image": "proxyv2:1", "volumeMounts": mounts}
    return {
        "metadata": metadata | {"name": POD.name, "namespace": POD.namespace},
        "spec": spec | {"containers": [*spec["containers"], proxy], "volumes": [*spec["volumes"], *volumes]},
    }


def test_istiod_names_the_listener_after_the_service_ip_and_without_the_filter_nothing_is_looked_at(mesh: Mesh):
    eventually(lambda: LISTENER in mesh.sidecar.listeners(), mesh.diagnosis)
    assert "extauthz" not in mesh.sidecar.chains(LISTENER)


def test_a_filter_for_another_service_ip_or_for_other_pods_changes_nothing_until_it_is_right(capsys, mesh: Mesh):
    wrong = render(capsys, mesh, "--service-ip=10.0.0.9"), render(capsys, mesh).replace("app: autoscaler", "app: other")
    for number, text in enumerate(wrong):
        mesh.plane.kubectl("apply", "--filename=-", stdin=text.replace("name: extauthz-", f"name: wrong{number}-"))
    mesh.filter.write_text(render(capsys, mesh))
    assert "extauthz" not in mesh.sidecar.chains(LISTENER)
    said = mesh.plane.kubectl("apply", f"--filename={mesh.filter}")
    assert said.strip() == "envoyfilter.networking.istio.io/extauthz-autoscaler created"
    eventually(lambda: "extauthz" in mesh.sidecar.chains(LISTENER), mesh.diagnosis)
    assert mesh.sidecar.chains(LISTENER).count("extauthz") == 1
    assert mesh.sidecar.refusals() == []
    for number in range(len(wrong)):
        mesh.plane.kubectl("-n", knative.NAMESPACE, "delete", "envoyfilter", f"wrong{number}-autoscaler")


SCALE = "/apis/apps/v1/namespaces/default/deployments/web/scale"
MERGE = "application/merge-patch+json"


def replicas(mesh: Mesh) -> int:
    return int(mesh.plane.api.get("Deployment.apps/v1", "web", "default")["spec"]["replicas"])


def test_a_write_to_the_service_ip_is_decided_by_the_gate_and_what_cannot_grow_is_not(mesh: Mesh):
    mesh.plane.api.create(deployment("web", 2) | {"metadata": {"name": "web", "namespace": "default"}})
    client = mesh.client()
    client.call("GET", SCALE)
    assert mesh.gate.checks == []

    mesh.gate.answer = refuse()
    with pytest.raises(RefusedError) as refused:
        client.call("PATCH", SCALE, {"spec": {"replicas": 3}}, MERGE)
    assert (refused.value.code, refused.value.status["message"]) == (403, SENTENCE)
    assert replicas(mesh) == 2

    mesh.gate.answer = authz.allow()
    client.call("PATCH", SCALE, {"spec": {"replicas": 3}}, MERGE)
    assert replicas(mesh) == 3
    asked = [check.attributes.request.http for check in mesh.gate.checks]
    assert [(each.method, each.path) for each in asked] == [("PATCH", SCALE)] * 2
    assert all("authorization" not in each.headers for each in asked)
    eventually(lambda: len(mesh.gate.entries) == 2, lambda: mesh.gate.entries)
    client.close()


def test_knatives_autoscaler_dials_the_service_ip_and_its_patch_is_decided(mesh: Mesh):
    mesh.gate.answer = refuse()
    with knative.running_autoscaler(mesh.plane, "v0.50.0", f"https://{SERVICE_IP}", mesh.folder) as autoscaler:
        for tree in knative.revision("default", "hello", {"cpu": "100m"}):
            mesh.plane.api.create(tree)
        knative.await_service(mesh.plane.api, "default", "hello")
        annotations = {"autoscaling.knative.dev/min-scale": "2"}
        mesh.plane.api.patch(knative.AUTOSCALER, "hello", "default", {"metadata": {"annotations": annotations}})

        def sentences() -> list[str]:
            events = mesh.plane.api.list("Event.v1", "default")
            return [each["message"] for each in events if each["involvedObject"]["name"] == "hello"]

        def has() -> int:
            return int(mesh.plane.api.get("Deployment.apps/v1", "hello", "default")["spec"]["replicas"])

        eventually(lambda: any(SENTENCE in each for each in sentences()), lambda: (sentences(), autoscaler.tail()))
        assert has() == 1
        assert mesh.gate.checks[-1].attributes.request.http.path.endswith("/deployments/hello/scale")
        mesh.gate.answer = authz.allow()
        eventually(lambda: has() == 2, lambda: (has(), autoscaler.tail()))


def test_taken_out_istio_passes_everything_again(mesh: Mesh):
    mesh.plane.kubectl("delete", f"--filename={mesh.filter}")
    eventually(lambda: "extauthz" not in mesh.sidecar.chains(LISTENER), mesh.diagnosis)
    assert LISTENER in mesh.sidecar.listeners()
