"""``examples/overlays``: each builds on ``deploy/``, alone and with the others; a real API server takes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.kubectl import Kubectl
from tests.controlplane.plane import Plane
from tests.rendering import chart

pytestmark = pytest.mark.controlplane

Tree = Any
ROOT = Path(__file__).parents[2]
OVERLAYS = ROOT / "examples/overlays"
COMPONENTS = sorted(file.parent.name for file in OVERLAYS.glob("*/*.yaml") if "kind: Component" in file.read_text())


@pytest.fixture
def kubectl(plane: Plane) -> Kubectl:
    """A dry run makes no namespace that objects could be tried in."""
    plane.kubectl.run("create", "namespace", "extauthz-system")
    return plane.kubectl


def built(kubectl: Kubectl, folder: Path, *components: str) -> list[Tree]:
    """What an overlay of ``deploy/`` with these components makes."""
    tree = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(ROOT / "deploy", folder)],
        "components": [os.path.relpath(OVERLAYS / name, folder) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(tree))
    return [*yaml.safe_load_all(kubectl("kustomize", str(folder)))]


def take(kubectl: Kubectl, objects: list[Tree]) -> None:
    """In a dry run of the API server, with every field known."""
    command = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-")
    assert len(kubectl(*command, stdin=yaml.safe_dump_all(objects)).splitlines()) == len(objects)


def one(objects: list[Tree], kind: str) -> Tree:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def test_the_page_tells_of_each():
    page = (OVERLAYS / "README.md").read_text()
    folders = {file.parent.name for file in OVERLAYS.glob("*/kustomization.yaml")}
    assert folders == {*COMPONENTS, "mine"}
    assert [name for name in folders if f"]({name}/kustomization.yaml)" not in page] == []


@pytest.mark.parametrize("components", [(), *((name,) for name in COMPONENTS), COMPONENTS],
                         ids=["none", *COMPONENTS, "all"])  # fmt: skip
def test_the_api_server_takes_deploy_with(kubectl: Kubectl, tmp_path: Path, components: tuple[str, ...]):
    plain, made = built(kubectl, tmp_path), built(kubectl, tmp_path, *components)
    take(kubectl, made)
    changed = [after["kind"] for before, after in zip(plain, made, strict=True) if before != after]
    assert bool(changed) == bool(components), "a component that changes nothing"


def test_mine_is_built_as_it_stands(kubectl: Kubectl):
    made = [*yaml.safe_load_all(kubectl("kustomize", str(OVERLAYS / "mine")))]
    take(kubectl, made)
    spec = one(made, "Deployment")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/platform/extauthz:")
    assert spec["replicas"] == 5
    assert spec["template"]["spec"]["imagePullSecrets"]


@pytest.mark.helm
def test_audit_is_what_the_chart_makes_of_it(kubectl: Kubectl, tmp_path: Path):
    rendered = yaml.safe_load(chart("--set", "mode=audit", "--show-only=templates/deployment.yaml"))
    assert one(built(kubectl, tmp_path, "audit"), "Deployment")["spec"] == rendered["spec"]


def test_nodes_are_let_to_the_grpc_port_and_nowhere_else(kubectl: Kubectl, tmp_path: Path):
    ask, look = one(built(kubectl, tmp_path, "control-plane-nodes"), "NetworkPolicy")["spec"]["ingress"]
    assert [each["port"] for each in ask["ports"]] == ["grpc"]
    assert [each["ipBlock"]["cidr"] for each in ask["from"] if "ipBlock" in each] == ["192.0.2.0/28"]
    assert all("ipBlock" not in each for each in look["from"])
