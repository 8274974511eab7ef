"""docs/istio.md: its commands, run as they stand, leave pods in the mesh with all that they and the filter name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic.warnings import PydanticDeprecatedSince212

from tests.controlplane.api import Tree
from tests.controlplane.fixtures import deployment
from tests.controlplane.parts import find
from tests.controlplane.plane import Plane, running_plane

with warnings.catch_warnings():
    # envoy-data-plane declares its validators in a way that pydantic 3 will no longer take.
    warnings.simplefilter("ignore", PydanticDeprecatedSince212)
    from tests.controlplane.istio import install

pytestmark = pytest.mark.controlplane("istiod")

DOCS = Path(__file__).resolve().parents[2] / "docs"
WITHIN_S = 120


def commands(page: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


CERTIFICATES = commands("envoy.md")[0]
*STEPS, TAKE_OUT = commands("istio.md")


@pytest.fixture
def cluster() -> Iterator[Plane]:
    """With Istio's definitions, Knative's autoscaler, and what a controller gives to each namespace."""
    with running_plane() as plane:
        install(plane)
        plane.kubectl("create", "namespace", "knative-serving")
        plane.kubectl(
            "-n", "knative-serving", "create", "configmap", "kube-root-ca.crt", f"--from-file=ca.crt={plane.ca}"
        )
        spec = {"containers": [{"name": "autoscaler", "image": "theirs"}]}
        metadata = {"name": "autoscaler", "namespace": "knative-serving"}
        plane.api.create(deployment("autoscaler", 1, spec) | {"metadata": metadata})
        yield plane


def follow(plane: Plane, folder: Path, *steps: str) -> None:
    """In one shell, as a person would."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, program in (("kubectl", find("kubectl")), ("extauthz", Path(sys.executable).parent / "extauthz")):
        (programs / name).unlink(missing_ok=True)
        (programs / name).symlink_to(program)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "KUBECONFIG": str(plane.kubeconfig)}
    command = ["bash", "-euo", "pipefail", "-c", "\n".join(steps)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def wanted(template: Tree) -> set[tuple[str, str]]:
    """Secrets and ConfigMaps that a pod waits for, its sidecar's among them."""
    told = json.loads(template["metadata"]["annotations"]["sidecar.istio.io/userVolume"])
    projected = [
        each["configMap"] for each in template["spec"]["volumes"][0]["projected"]["sources"] if "configMap" in each
    ]
    secrets = {("Secret", each["secret"]["secretName"]) for each in told if "secret" in each}
    return secrets | {("ConfigMap", projected[0]["name"])}


def test_the_page_works_as_it_stands(cluster: Plane, tmp_path: Path):
    shutil.copytree(DOCS.parent / "deploy", tmp_path / "deploy")
    follow(cluster, tmp_path, CERTIFICATES, *STEPS)
    for namespace, name in (("knative-serving", "autoscaler"), ("extauthz-hpa", "extauthz-hpa-controller")):
        template = cluster.api.get("Deployment", name, namespace)["spec"]["template"]
        there = {
            (kind, each["metadata"]["name"])
            for kind in ("Secret", "ConfigMap")
            for each in cluster.api.list(kind, namespace)
        }
        assert wanted(template) <= there
    assert filters(cluster) == {"extauthz-autoscaler": "10.0.0.1_443", "extauthz-hpa-controller": "10.0.0.1_443"}
    shown = subprocess.run(
        ["openssl", "x509", "-in", str(tmp_path / "certificates" / "apiserver.crt"), "-noout", "-checkip", "10.0.0.1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "does match certificate" in shown.stdout
    follow(cluster, tmp_path, TAKE_OUT)
    assert [*filters(cluster)] == ["extauthz-hpa-controller"]


def filters(plane: Plane) -> dict[str, str]:
    """Each EnvoyFilter, and the listener that it is for."""
    found = json.loads(plane.kubectl("get", "envoyfilters", "--all-namespaces", "--output=json"))["items"]
    return {each["metadata"]["name"]: each["spec"]["configPatches"][-1]["match"]["listener"]["name"] for each in found}
