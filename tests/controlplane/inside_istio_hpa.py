"""Run by ``test_istio_hpa.py`` in a network namespace: the HPA as docs/istio.md lays the patch of its pod over
``deploy/hpa-controller``.

What a kubelet and Istio's injection would do is done here: the container's own command with its own arguments, the
service account's token and the authority where client-go looks for them, the two variables that every pod has, and the
sidecar on the way to the service IP. No kubeconfig leads it anywhere.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from extauthz.demo.gate import Gate
from extauthz.demo.processes import Child
from tests.controlplane.access import service_account
from tests.controlplane.api import RefusedError, Tree
from tests.controlplane.inside_istio import (
    LISTENER,
    REPOSITORY,
    SERVICE_IP,
    Mesh,
    Pod,
    main,
    network,
    render,
    running_mesh,
)
from tests.controlplane.parts import find
from tests.controlplane.plane import Plane
from tests.controlplane.workspace import autoscaler, condition, workload
from tests.support import objects
from tests.waiting import eventually

__all__ = ["network"]


def laid_over() -> list[Tree]:
    """What the page's overlay makes, the Deployment last."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        base = os.path.relpath(REPOSITORY / "deploy" / "hpa-controller", place.resolve())
        command = [sys.executable, "-m", "extauthz.cli", "render", "istio-pod", "--client", "hpa-controller"]
        (place / "pod.yaml").write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
        overlay = {"resources": [base], "patches": [{"path": "pod.yaml"}]}
        (place / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        command = [str(find("kubectl")), "kustomize", folder]
        made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted(yaml.safe_load_all(made), key=lambda tree: tree["kind"] == "Deployment")


*RIGHTS, DEPLOYMENT = laid_over()
NAMESPACE, NAME = DEPLOYMENT["metadata"]["namespace"], DEPLOYMENT["metadata"]["name"]
TEMPLATE = DEPLOYMENT["spec"]["template"]
(CONTAINER,) = TEMPLATE["spec"]["containers"]
IN_A_POD = (("KUBERNETES_SERVICE_HOST", SERVICE_IP), ("KUBERNETES_SERVICE_PORT", "443"))


@pytest.fixture(scope="module")
def mesh(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    pod = Pod(f"{NAME}-0", NAMESPACE, TEMPLATE["metadata"]["labels"])
    with running_mesh(plane, tmp_path_factory.mktemp("mesh"), pod, "hpa-controller") as mesh:
        yield mesh


@contextmanager
def running_container(mesh: Mesh) -> Iterator[Child]:
    """The rendered container, in a mount namespace that has the pod's volume (mount_namespaces(7))."""
    (access,) = CONTAINER["volumeMounts"]
    files = mesh.folder / "access"
    files.mkdir()
    (files / "token").write_text(service_account(mesh.plane, NAMESPACE, TEMPLATE["spec"]["serviceAccountName"]))
    (files / "ca.crt").write_text(mesh.plane.ca.read_text())
    (files / "namespace").write_text(NAMESPACE)
    path = Path(access["mountPath"])
    (program,), arguments = CONTAINER["command"], CONTAINER["args"]
    in_its_place = (
        f"mount -t tmpfs tmpfs /run && mkdir -p {path.parent} && cp -r {shlex.quote(str(files))} {path} && "
        f'cd / && exec env -i {" ".join(f"{name}={value}" for name, value in IN_A_POD)} "$@"'
    )
    command = ["unshare", "--mount", "sh", "-ec", in_its_place, "sh", str(find(program)), *arguments]
    child = Child(command, mesh.folder / "hpa-controller.log")
    try:
        yield child
    finally:
        child.terminate()


@contextmanager
def running_gate(mesh: Mesh, pods: int, *flags: str) -> Iterator[Gate]:
    """A real one, with a quota of so many pods for the namespace ``shop``, that knows of no earlier run."""
    mesh.plane.kubectl("apply", f"--kustomize={REPOSITORY / 'deploy'}")
    api = mesh.plane.api
    eventually(lambda: api.serves("WorkspaceQuota"))
    api.create(objects.namespace("shop", workspace="acme"))
    api.create(objects.quota("acme", {"pods": str(pods)}))
    options = [f"--kubeconfig={mesh.plane.kubeconfig}", "--allow-unknown=unclean-start", *flags]
    with Gate("kubernetes", "kubernetes", mesh.folder / "gate.log", options) as gate:
        yield gate


@pytest.fixture(scope="module")
def gate(mesh: Mesh) -> Iterator[Gate]:
    with running_gate(mesh, 2) as gate:
        yield gate


def test_its_rights_and_its_pods_are_taken_by_the_api_server(mesh: Mesh):
    text = yaml.safe_dump_all([*RIGHTS, DEPLOYMENT])
    said = mesh.plane.kubectl("apply", "--server-side", "--validate=strict", "--filename=-", stdin=text)
    assert f"deployment.apps/{NAME} serverside-applied" in said


def test_istiod_gives_the_filter_to_the_labels_that_its_pods_have(capsys, mesh: Mesh, gate: Gate):
    eventually(lambda: LISTENER in mesh.sidecar.listeners(), mesh.diagnosis)
    assert "extauthz" not in mesh.sidecar.chains(LISTENER)
    mesh.filter.write_text(render(capsys, mesh, f"--gate=127.0.0.1:{gate.port}"))
    mesh.plane.kubectl("apply", f"--filename={mesh.filter}")
    eventually(lambda: "extauthz" in mesh.sidecar.chains(LISTENER), mesh.diagnosis)
    assert mesh.sidecar.refusals() == []


def test_it_dials_the_service_ip_scales_as_it_is_let_and_asks_about_nothing_else(mesh: Mesh, gate: Gate):
    api = mesh.plane.api
    with running_container(mesh) as controller:
        for made in (workload("web", 1, {"cpu": "1"}), autoscaler("web", least=3)):
            made["metadata"]["namespace"] = "shop"
            api.create(made)

        def able() -> Tree:
            return condition(api.get("HorizontalPodAutoscaler", "web", "shop"), "AbleToScale")

        def log() -> object:
            return able(), controller.tail(), mesh.diagnosis()

        eventually(lambda: able().get("reason") == "FailedUpdateScale", log, within_s=90)
        assert api.get("Deployment", "web", "shop")["spec"]["replicas"] == 1
        as_the_pages_show(mesh)
        assert api.get("Lease", NAME, NAMESPACE)["spec"]["holderIdentity"]
        with pytest.raises(RefusedError, match="not found"):
            api.get("Lease", "kube-controller-manager", "kube-system")
        api.patch("WorkspaceQuota", "acme", None, {"spec": {"hard": {"pods": "3"}}})
        eventually(lambda: api.get("Deployment", "web", "shop")["spec"]["replicas"] == 3, log, within_s=90)
        eventually(lambda: gate.metric('extauthz_answers_total{event="answered-ok"}') >= 1)
    said = mesh.folder / "sidecar.log"
    eventually(lambda: '"status":200' in said.read_text(), said.read_text, within_s=30)
    asked = [json.loads(line) for line in said.read_text().splitlines() if line.startswith("{")]
    assert {(each["method"], each["path"]) for each in asked} == {
        ("PUT", "/apis/apps/v1/namespaces/shop/deployments/web/scale")
    }
    assert "forbidden: user" not in (mesh.folder / "hpa-controller.log").read_text().lower()


def as_the_pages_show(mesh: Mesh) -> None:
    """The docs have what the HPA's condition says, from here."""
    pages = "".join((REPOSITORY / "docs" / name).read_text() for name in ("istio.md", "verify.md"))
    shown = re.findall(r"^\$ kubectl (-n shop get .*)\n(.*)\n```$", pages, re.MULTILINE)
    assert len(shown) == 2
    for command, printed in shown:
        assert mesh.plane.kubectl(*shlex.split(command)).strip() == printed


def test_the_doctor_finds_it_well(capsys, mesh: Mesh, gate: Gate):
    """With the way, the trust and the token of the HPA's own pod."""
    access = mesh.folder / "access"
    given = {
        "admin": "http://" + (mesh.folder / "sidecar-admin").read_text(),
        "url": f"https://{SERVICE_IP}",
        "ca": access / "ca.crt",
        "token-file": access / "token",
        "kubeconfig": mesh.plane.kubeconfig,
        "profile": "scale",
        "canary": "shop/web",
    }
    assert main(["doctor", *(f"--{name}={value}" for name, value in given.items())]) == 0
    told = ROW.findall(capsys.readouterr().out)
    assert ("canary", "ok") in told
    assert told == ROWS


ROWS = [
    ("accepted", "ok"),
    ("chain", "ok"),
    ("listener", "ok"),
    ("order", "ok"),
    ("failure mode", "ok"),
    ("request body", "ok"),
    ("headers", "ok"),
    ("path rules", "ok"),
    ("watches", "ok"),
    ("growth timeouts", "ok"),
    ("trust", "ok"),
    ("certificate", "warn"),
    ("token", "ok"),
    ("canary", "ok"),
    ("gate reachable", "ok"),
    ("gate timeout", "ok"),
    ("server version", "ok"),
    ("definitions", "ok"),
    ("rights", "ok"),
    ("namespace labels", "ok"),
    ("webhook", "skipped"),
    ("appliers", "ok"),
    ("serving pods", "ok"),
]
"""What it says of a mesh where all is well: no webhook, certificates of two days."""
ROW = re.compile(r"^(\w[\w ]*\w) +(ok|warn|fail|skipped)  ", re.MULTILINE)
"""Name and verdict of a line of its output."""
