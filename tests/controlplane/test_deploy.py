"""What `kubectl apply -k deploy/` installs: a real API server takes it; the gate may do what it needs and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.serve.service.settings import described, word
from tests.controlplane.api import Api, RefusedError
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.plane import Plane
from tests.waiting import eventually

Tree = Any
Right = tuple[str, str, str]
"""API group, resource, verb."""
DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "extauthz-system"

FORBIDDEN: tuple[Right, ...] = (
    ("", "secrets", "list"),
    ("", "secrets", "get"),
    ("", "configmaps", "get"),
    ("", "pods", "create"),
    ("", "pods", "delete"),
    ("", "namespaces", "patch"),
    ("apps", "deployments", "patch"),
    ("apps", "deployments/scale", "update"),
    ("extauthz.dev", "workspacequotas", "update"),
    ("extauthz.dev", "workspacequotas", "patch"),
    ("extauthz.dev", "workspaceledgers", "delete"),
    ("events.k8s.io", "events", "delete"),
    ("rbac.authorization.k8s.io", "clusterroles", "escalate"),
)


def manifests() -> list[Tree]:
    """Every object of every file, as they are written."""
    names = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    return [tree for name in names for tree in yaml.safe_load_all((DEPLOY / name).read_text())]


def manifest(kind: str, name: str = "extauthz") -> Tree:
    (found,) = [tree for tree in manifests() if (tree["kind"], tree["metadata"]["name"]) == (kind, name)]
    return found


def test_every_file_is_installed():
    named = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    assert sorted(named) == sorted(path.name for path in DEPLOY.glob("*.yaml") if path.name != "kustomization.yaml")


def test_the_flags_of_the_deployment_are_settings():
    container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
    flags = {argument.partition("=")[0] for argument in container["args"]}
    assert container["command"] == ["extauthz", "serve"]
    assert flags <= {f"--{word(field)}" for field in described()}


def test_ports_are_named_alike_everywhere():
    container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    arguments = dict(argument.lstrip("-").split("=", 1) for argument in container["args"])
    assert {"grpc": f":{ports['grpc']}", "http": f":{ports['http']}"}.items() <= arguments.items()
    assert {port["targetPort"] for port in manifest("Service")["spec"]["ports"]} == set(ports)
    ingress = manifest("NetworkPolicy")["spec"]["ingress"]
    assert [rule["ports"][0]["port"] for rule in ingress] == ["grpc", "http"]


def test_several_gates_share_a_ledger_and_are_never_all_away():
    spec = manifest("Deployment")["spec"]
    container = spec["template"]["spec"]["containers"][0]
    assert spec["replicas"] >= 3
    assert "--ledger=kubernetes" in container["args"], "two gates that keep their own would grant the same room twice"
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert manifest("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert {one["topologyKey"] for one in spec["template"]["spec"]["topologySpreadConstraints"]} == {
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    }


@pytest.fixture(scope="module")
def installed(plane: Plane) -> Iterator[Kubectl]:
    kubectl = plane.kubectl
    kubectl("apply", "-k", str(DEPLOY))
    eventually(lambda: plane.api.serves("WorkspaceQuota"))
    yield kubectl
    rest = [one for one in manifests() if one["kind"] not in ("Namespace", "CustomResourceDefinition")]
    for one in rest:  # a namespace does not end without a controller, and the definition is shared
        kubectl("delete", "--ignore-not-found", "-n", NAMESPACE, one["kind"], one["metadata"]["name"])


@pytest.mark.controlplane
def test_applying_it_again_changes_nothing(installed: Kubectl):
    again = installed("apply", "-k", str(DEPLOY)).splitlines()
    assert len(again) == len(manifests())
    changed = [line.partition(" ")[0] for line in again if not line.endswith(" unchanged")]
    # kubectl writes each PodDisruptionBudget anew: its selector is replaced as a whole (patchStrategy in policy/v1).
    assert changed == ["poddisruptionbudget.policy/extauthz"]


@pytest.mark.controlplane
def test_its_pods_are_taken_where_the_namespace_wants_restricted_ones(plane: Plane, installed: Kubectl):
    template = plane.api.get("Deployment", "extauthz", NAMESPACE)["spec"]["template"]
    labels = plane.api.get("Namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "try", "namespace": NAMESPACE}}
    plane.api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", pod)
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(RefusedError, match="violates PodSecurity"):
        plane.api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", pod)


def allowed(api: Api, right: Right) -> bool:
    group, resource, verb = right
    resource, _, subresource = resource.partition("/")
    attributes = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    user = f"system:serviceaccount:{NAMESPACE}:extauthz"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    return bool(api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"])


@pytest.mark.controlplane
@pytest.mark.usefixtures("installed")
def test_the_api_server_lets_the_gate_do_nothing_else(plane: Plane):
    assert [right for right in FORBIDDEN if allowed(plane.api, right)] == []
