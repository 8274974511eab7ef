"""What `kubectl apply -k deploy/` installs: a real API server takes it; the gate may do what it needs and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz import version
from extauthz.core.decision.gate import Gate
from extauthz.inputs.cluster.event_handlers import InvalidObjects
from extauthz.inputs.cluster.live import PHASES, LiveCluster
from extauthz.inputs.kube.connection import connect
from extauthz.inputs.sources.kubernetes import WORKSPACE_QUOTAS, LiveQuotas
from extauthz.serve.ledger_store.kubernetes import WORKSPACE_LEDGERS
from extauthz.serve.service.settings import described, word
from tests.controlplane.access import service_account
from tests.controlplane.api import Api, RefusedError
from tests.controlplane.kubectl import Kubectl
from tests.controlplane.plane import Plane, write_kubeconfig
from tests.waiting import eventually

Tree = Any
Right = tuple[str, str, str]
"""API group, resource, verb."""
DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "extauthz-system"
SYNCED_WITHIN_S = 120.0

WATCHED: set[Right] = {
    (one.group, one.plural, verb)
    for one in (WORKSPACE_QUOTAS, WORKSPACE_LEDGERS, *(resource for phase in PHASES for resource in phase))
    for verb in ("list", "watch")
}
DISCOVERED: set[Right] = {("apiextensions.k8s.io", "customresourcedefinitions", verb) for verb in ("list", "watch")}
WRITTEN: set[Right] = {
    ("extauthz.dev", "workspacequotas/status", "patch"),
    *(("extauthz.dev", "workspaceledgers", verb) for verb in ("get", "create", "update")),
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
}
AUTOSCALERS: set[Right] = {
    ("autoscaling", "horizontalpodautoscalers", "list"),
    ("autoscaling.internal.knative.dev", "podautoscalers", "list"),
    ("keda.sh", "scaledobjects", "list"),
}
OWNERS: set[Right] = {("serving.knative.dev", plural, "get") for plural in ("services", "configurations", "revisions")}
NEEDED = WATCHED | DISCOVERED | WRITTEN | AUTOSCALERS | OWNERS

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


def test_the_gate_has_the_rights_that_its_watches_and_writes_need_and_no_more():
    rules = manifest("ClusterRole")["rules"]
    given = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given == NEEDED


def test_the_flags_of_the_deployment_are_settings():
    container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
    flags = {argument.partition("=")[0] for argument in container["args"]}
    assert container["command"] == ["extauthz", "serve"]
    assert flags <= {f"--{word(field)}" for field in described()}


def test_the_image_is_the_version_of_the_package():
    container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == f"extauthz:{version()}"


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


@pytest.fixture(scope="module")
def kubeconfig(plane: Plane, installed: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a token of the gate's own service account."""
    path = tmp_path_factory.mktemp("gate") / "kubeconfig"
    write_kubeconfig(path, plane.url, plane.ca, {"token": service_account(plane, NAMESPACE, "extauthz")})
    return path


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
def test_the_api_server_lets_the_gate_do_what_it_needs_in_all_namespaces(plane: Plane):
    eventually(lambda: allowed(plane.api, ("extauthz.dev", "workspacequotas", "list")))
    assert [right for right in sorted(NEEDED) if not allowed(plane.api, right)] == []


@pytest.mark.controlplane
@pytest.mark.usefixtures("installed")
def test_the_api_server_lets_the_gate_do_nothing_else(plane: Plane):
    assert [right for right in FORBIDDEN if allowed(plane.api, right)] == []


@pytest.mark.controlplane
async def test_the_gate_learns_quotas_and_state_with_its_own_rights(kubeconfig: Path):
    gate, quotas = Gate(), asyncio.Event()
    async with connect(kubeconfig) as connection, asyncio.timeout(SYNCED_WITHIN_S):
        cluster = LiveCluster(connection, gate, InvalidObjects(lambda *_: None))
        following = [
            asyncio.create_task(cluster.run()),
            asyncio.create_task(LiveQuotas(connection, lambda _: quotas.set()).run()),
        ]
        await asyncio.gather(cluster.synced.wait(), quotas.wait())
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    assert "default" in gate.ledger.coverage.namespaces


@pytest.mark.controlplane
@pytest.mark.usefixtures("installed")
def test_owners_of_scaled_kinds_can_let_the_gate_see_them(plane: Plane):
    role = plane.api.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/extauthz-scaled-kinds")
    (selector,) = role["aggregationRule"]["clusterRoleSelectors"]
    assert selector == {"matchLabels": {"extauthz.dev/aggregate-to-gate": "true"}}
