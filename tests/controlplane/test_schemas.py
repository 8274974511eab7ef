"""What the chart makes under every kind of option, and all files that are applied as they stand: kubeconform finds no
field in them that the API server does not know."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import rendering
from tests.controlplane import schemas
from tests.controlplane.parts import find
from tests.controlplane.plane import Plane
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("helm", "kubeconform")

ROOT = rendering.ROOT
OF_OTHERS = "PrometheusRule,ServiceMonitor,Kustomization,Component,Config,CustomResourceDefinition"
"""Kinds of which this API server has no schema. Definitions are applied to it elsewhere (``test_crd.py``)."""
FILES = sorted(
    file
    for folder in ("deploy", "examples/overlays", "envoy/static-pod")
    for file in (ROOT / folder).rglob("*.yaml")
    if "\nkind: " in f"\n{file.read_text()}" and "apiVersion: kubeadm" not in file.read_text()
)
OPTIONS = {
    "defaults": [],
    "webhook": ["webhook.enabled=true", "webhook.certificates=self-signed", "webhook.clamp=true"],
    "webhook alone": ["webhook.enabled=true", "webhook.certificates=self-signed", "grpc.enabled=false"],
    "api": ["api.enabled=true"],
    "watched": ["prometheusRule.enabled=true", "dashboard.enabled=true", "serviceMonitor.enabled=true"],
    "one gate": ["ledger=memory", "replicas=1"],
}
"""Beside an autoscaler the chart makes parts of objects, which a schema finds wanting."""


@pytest.fixture(scope="module")
def location(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the schemas of an API server that has our definitions."""
    for name in ("crd.yaml", "ledger-crd.yaml"):
        plane.kubectl("apply", "--server-side", f"--filename={ROOT / 'deploy' / name}")
    folder = tmp_path_factory.mktemp("schemas")

    def known() -> str | None:
        told = schemas.write(plane, folder)
        return told if (folder / "extauthz.dev-workspacequota-v1alpha1.json").exists() else None

    return eventually(known)


def conforms(location: str, *files: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(find("kubeconform")), "-strict", "-summary", f"-skip={OF_OTHERS}", f"-schema-location={location}"]
    return subprocess.run(
        [*command, *map(str, files)], input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("values", OPTIONS.values(), ids=OPTIONS.keys())
def test_what_the_chart_makes_conforms(location: str, values: list[str]):
    flags = [word for value in values for word in ("--set", value)]
    made = rendering.helm("template", "extauthz", "charts/extauthz", "--namespace", "extauthz-system", *flags)
    done = conforms(location, stdin=made)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Errors: 0" in done.stdout


def test_the_files_that_are_applied_as_they_stand_conform(location: str):
    assert len(FILES) > 5
    done = conforms(location, *FILES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("replicas: 3", "replica: 3"), ("replicas: 3", "replicas: three"), ("      containers:", "      container:")],
    ids=["unknown field", "wrong type", "unknown list"],
)
def test_what_does_not_conform_is_found(location: str, right: str, wrong: str):
    made = rendering.helm("template", "extauthz", "charts/extauthz", "--namespace", "extauthz-system")
    assert right in made
    done = conforms(location, stdin=made.replace(right, wrong, 1))
    assert "Invalid: 1, Errors: 0" in done.stdout
