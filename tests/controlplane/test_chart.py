"""``charts/extauthz`` with the real Helm and a real API server: installed, upgraded, rolled back, taken away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.access import service_account
from tests.controlplane.parts import find
from tests.controlplane.plane import Plane, running_plane, write_kubeconfig
from tests.rendering import ROOT, helm
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("helm")

Tree = Any
NAMESPACE = "extauthz-system"
WITHIN_S = 120
QUOTA = {
    "apiVersion": "extauthz.dev/v1alpha1",
    "kind": "WorkspaceQuota",
    "metadata": {"name": "acme"},
    "spec": {"namespaceSelector": {"matchLabels": {"workspace": "acme"}}, "hard": {"pods": "10"}},
}


class Cluster:
    """An API server, and Helm as its administrator."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(find("helm")), *words, f"--namespace={NAMESPACE}"],
            cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def arguments(self) -> list[str]:
        """Of the gate, as it is deployed."""
        deployment = self.plane.api.get("Deployment", "extauthz", NAMESPACE)
        return list(deployment["spec"]["template"]["spec"]["containers"][0]["args"])


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running_plane() as plane:
        yield Cluster(plane)


def test_it_is_installed_upgraded_rolled_back_and_taken_away_and_the_quotas_stay(cluster: Cluster):
    said = cluster("install", "mine", "charts/extauthz", "--create-namespace")
    assert f"kubectl -n {NAMESPACE} rollout status deployment extauthz" in said
    assert "--mode=audit" not in cluster.arguments()
    eventually(lambda: cluster.plane.api.serves("WorkspaceQuota"))
    cluster.plane.api.create(QUOTA)
    definition = "workspacequotas.extauthz.dev"
    cluster.plane.kubectl("annotate", "crd", definition, "note=old")

    cluster("upgrade", "mine", "charts/extauthz", "--set", "mode=audit")
    assert "--mode=audit" in cluster.arguments()
    cluster("rollback", "mine", "1")
    assert "--mode=audit" not in cluster.arguments()

    cluster("uninstall", "mine")
    left = json.loads(cluster.plane.kubectl("get", "clusterroles,deployments", "--all-namespaces", "--output=json"))
    assert [each["metadata"]["name"] for each in left["items"] if "extauthz" in each["metadata"]["name"]] == []
    assert cluster.plane.api.get("WorkspaceQuota", "acme", "")["spec"] == QUOTA["spec"] | {"mode": "Clamp"}

    cluster("install", "another", "charts/extauthz", "--take-ownership")
    assert cluster.plane.api.get("WorkspaceQuota", "acme", "")["spec"]["hard"] == {"pods": "10"}


def test_an_older_definition_is_upgraded_with_the_release(cluster: Cluster, tmp_path: Path):
    older = tmp_path / "chart"
    subprocess.run(["cp", "-r", str(ROOT / "charts" / "extauthz"), str(older)], check=True)
    file = older / "definitions" / "workspaceledgers.yaml"
    file.write_text(file.read_text().replace("shortNames: [wsl]", "shortNames: [old]"))
    cluster("install", "mine", str(older), "--create-namespace")

    def short_names() -> Tree:
        text = cluster.plane.kubectl("get", "crd", "workspaceledgers.extauthz.dev", "--output=json")
        return json.loads(text)["spec"]["names"]["shortNames"]

    assert short_names() == ["old"]
    cluster("upgrade", "mine", "charts/extauthz")
    assert short_names() == ["wsl"]


def test_helm_takes_over_what_kubectl_has_installed(cluster: Cluster):
    cluster.plane.kubectl("apply", f"--kustomize={ROOT / 'deploy'}")
    refused = cluster.run("install", "mine", "charts/extauthz")
    assert "invalid ownership metadata" in refused.stderr
    cluster("install", "mine", "charts/extauthz", "--take-ownership", "--set", "mode=audit")
    assert "--mode=audit" in cluster.arguments()


def test_a_part_of_somebody_elses_deployment_is_not_installed(cluster: Cluster):
    refused = cluster.run("install", "mine", "charts/extauthz", "--create-namespace", "--set", "place=keda")
    assert refused.returncode
    assert "spec.selector" in refused.stderr


def test_the_notes_of_the_hpa_in_pods_of_its_own_say_what_to_take_out(cluster: Cluster):
    said = cluster("install", "mine", "charts/extauthz", "--create-namespace", "--set", "place=hpa-controller")
    assert "rollout status deployment extauthz-hpa-controller" in said
    assert "--controllers=*,bootstrapsigner,tokencleaner,-horizontal-pod-autoscaler-controller" in said


def test_the_doctor_that_helm_test_runs_has_the_rights_that_it_needs(cluster: Cluster, tmp_path: Path):
    """What the kubelet would start: the hook's own arguments, with the rights of its own account."""
    cluster("install", "mine", "charts/extauthz", "--create-namespace")
    words = (
        "template",
        "mine",
        "charts/extauthz",
        f"--namespace={NAMESPACE}",
        "--show-only=templates/tests/doctor.yaml",
    )
    hooks = [tree for tree in yaml.safe_load_all(helm(*words)) if tree]
    *others, pod = sorted(hooks, key=lambda tree: int(tree["metadata"]["annotations"]["helm.sh/hook-weight"]))
    cluster.plane.kubectl("apply", "--filename=-", stdin=yaml.safe_dump_all(others))
    cluster.plane.kubectl("create", "--dry-run=server", "--validate=strict", "--filename=-", stdin=yaml.safe_dump(pod))
    kubeconfig = tmp_path / "kubeconfig"
    token = service_account(cluster.plane, NAMESPACE, pod["spec"]["serviceAccountName"])
    write_kubeconfig(kubeconfig, cluster.plane.url, cluster.plane.ca, {"token": token})
    (container,) = pod["spec"]["containers"]
    program, *arguments = [*container["command"], *container["args"]]
    assert program == "extauthz"
    arguments.append(f"--kubeconfig={kubeconfig}")
    eventually(lambda: cluster.plane.api.serves("WorkspaceQuota"))
    done = subprocess.run(
        [sys.executable, "-m", "extauthz.cli", *arguments, "--output=json"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    rows = json.loads(done.stdout)["checks"]
    assert [row for row in rows if row["verdict"] == "fail"] == []
    assert done.returncode == 0
    verdicts = {row["name"]: row["verdict"] for row in rows}
    assert {verdicts[each] for each in ("server version", "definitions", "rights", "namespace labels")} == {"ok"}
