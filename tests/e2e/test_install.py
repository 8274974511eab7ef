"""docs/envoy.md: its commands, run as they stand, end with a gate that holds a workload back and says so."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from extauthz.demo.gate import SERVE, Gate
from extauthz.demo.processes import Child
from tests.controlplane.access import service_account
from tests.controlplane.parts import find
from tests.controlplane.plane import Plane, running_plane, write_kubeconfig
from tests.servers.running import ask, scale
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "envoy.md").read_text()
CERTIFICATES, INSTALL, QUOTA, LOOK, WORKLOAD, CUSTOM = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
NAMESPACE = "extauthz-system"
WITHIN_S = 120
WINDOW_S = 5
"""W. This API server answers in milliseconds; with the default the new ledger would hold growth for two minutes."""


class Administrator:
    """Who follows the page, in a folder that has ``deploy/`` in it."""

    def __init__(self, folder: Path, plane: Plane) -> None:
        self.folder, self.plane = folder, plane
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        (folder / "bin").mkdir()
        (folder / "bin" / "kubectl").symlink_to(find("kubectl"))
        (folder / "bin" / "extauthz").symlink_to(Path(sys.executable).with_name("extauthz"))

    def run(self, step: str) -> str:
        """One block of the page. What it prints."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "HOME": str(self.folder), "KUBECONFIG": str(self.plane.kubeconfig)}
        command = ["bash", "-euo", "pipefail", "-c", step]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
        return done.stdout

    def gate(self) -> Gate:
        """What the kubelet would start: the Deployment's own arguments, its Secret, its service account."""
        pod = self.plane.api.get("Deployment", "extauthz", NAMESPACE)["spec"]["template"]["spec"]
        mounted = self.mounted(pod["volumes"][0]["secret"]["secretName"])
        kubeconfig = self.folder / "gate.kubeconfig"
        token = service_account(self.plane, NAMESPACE, pod["serviceAccountName"])
        write_kubeconfig(kubeconfig, self.plane.url, self.plane.ca, {"token": token})
        flags = [f"--kubeconfig={kubeconfig}", f"--window-s={WINDOW_S}"]
        for argument in pod["containers"][0]["args"]:
            if argument.startswith(("--grpc", "--http", "--quotas", "--state")):
                continue
            flags.append(argument.replace("/etc/extauthz/tls", str(mounted)))
        return Gate("kubernetes", "kubernetes", self.folder / "gate.log", flags)

    def mounted(self, secret: str) -> Path:
        """A Secret as a volume of files."""
        folder = self.folder / "mounted"
        folder.mkdir()
        tree = self.plane.api.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{secret}")
        for name, data in tree["data"].items():
            (folder / name).write_bytes(base64.b64decode(data))
        return folder

    def asks(self, gate: Gate, replicas: int) -> Any:
        """What an Envoy with the page's client certificate is told about ``shop/web``."""
        made = self.folder / "certificates"
        credentials = grpc.ssl_channel_credentials(
            (made / "ca.crt").read_bytes(), (made / "envoy.key").read_bytes(), (made / "envoy.crt").read_bytes()
        )
        options = [("grpc.ssl_target_name_override", f"extauthz.{NAMESPACE}.svc")]
        with grpc.secure_channel(f"127.0.0.1:{gate.port}", credentials, options) as channel:
            return ask(channel, scale(replicas))


@pytest.fixture
def administrator(tmp_path: Path) -> Iterator[Administrator]:
    with running_plane() as plane:
        yield Administrator(tmp_path, plane)


def test_the_page_works_as_it_stands(administrator: Administrator):
    administrator.run(CERTIFICATES)
    administrator.run(INSTALL)
    with administrator.gate() as gate:
        administrator.run(QUOTA)
        shown = administrator.run(LOOK).splitlines()[-2:]
        assert [line.split()[:-2] for line in shown] == [line.split()[:-2] for line in table_of_the_page()]
        administrator.run(WORKLOAD)
        shows_what_is_used(administrator)
        eventually(lambda: administrator.asks(gate, 4).ok_response is not None)
        eventually(lambda: "Enforce" in administrator.run("kubectl get wsq acme"))
        refusal = eventually(lambda: administrator.asks(gate, 8).denied_response)
        assert "exceeded workspace quota: acme" in refusal.body
        tells_the_owner(administrator)
        administrator.run(CUSTOM)


def table_of_the_page() -> list[str]:
    (table,) = re.findall(r"^```\n(NAME.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    return table.splitlines()


def shows_what_is_used(administrator: Administrator) -> None:
    def used() -> Any:
        return administrator.plane.api.get("WorkspaceQuota", "acme")["status"]["summary"]

    eventually(lambda: used() == {"cpu": "500m/2", "memory": "128Mi/4Gi", "pods": "1/10"}, used)


def tells_the_owner(administrator: Administrator) -> None:
    """On the HPA and on the Deployment, in what ``kubectl describe`` shows."""
    for kind in ("hpa", "deployment"):
        describe = f"kubectl -n shop describe {kind} web"
        eventually(lambda describe=describe: "WorkspaceQuotaExceeded" in administrator.run(describe))


def test_a_gate_without_its_rights_says_in_its_log_which_it_lacks(plane: Plane, tmp_path: Path):
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, plane.url, plane.ca, {"token": service_account(plane, "default", "nobody")})
    live = ["--quotas=kubernetes", "--state=kubernetes", f"--kubeconfig={kubeconfig}"]
    gate = Child([*SERVE, *live, "--grpc=127.0.0.1:0", "--http=127.0.0.1:0"], tmp_path / "log")
    lacks = [f'cannot list resource \\"{resource}\\"' for resource in ("workspacequotas", "namespaces")]
    try:
        gate.until(lambda: all(text in gate.log.read_text() for text in lacks) or None)
    finally:
        gate.terminate()


def test_the_overlay_of_the_page_names_another_image(tmp_path: Path):
    (overlay,) = re.findall(r"```yaml\n(# my-gate/kustomization.yaml\n.*?)```", PAGE, re.DOTALL)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "my-gate").mkdir()
    (tmp_path / "my-gate" / "kustomization.yaml").write_text(overlay)
    command = [str(find("kubectl")), "kustomize", str(tmp_path / "my-gate")]
    built = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=True).stdout
    (deployment,) = [one for one in yaml.safe_load_all(built) if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/platform/extauthz:0.1.0"
