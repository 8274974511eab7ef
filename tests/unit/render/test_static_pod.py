"""``envoy/static-pod/``: its files fit each other, Envoy's bootstrap beside them, and the page that changes them."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.render import options

ROOT = Path(__file__).parents[3]
ENVOY = ROOT / "envoy"
BOOTSTRAP = (ENVOY / "kube-controller-manager.yaml").read_text()
PAGE = (ROOT / "docs" / "kube-controller-manager.md").read_text()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Any:
    """The files as the page's sed leaves them, for another folder, address and authority."""
    places = {"DIR": "/opt/gate", "LISTEN": "127.0.0.2:8443", "APISERVER_CA": "/opt/ca.crt"}
    (script,) = re.findall(r'^cat > "\$DIR/here.sed" (<<EOF.*?^EOF\n)', PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "here.sed"
    subprocess.run(["bash", "-euc", f"cat > {file} {script}"], env=places, check=True)

    def read(name: str) -> Any:
        command = ["sed", "-f", str(file), str(ENVOY / "static-pod" / f"{name}.yaml")]
        return yaml.safe_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    return read


def part(name: str) -> Any:
    return yaml.safe_load((ENVOY / "static-pod" / f"{name}.yaml").read_text())


def test_the_pod_has_every_file_that_envoy_reads(capsys):
    spec = part("pod")["spec"]
    (container,) = spec["containers"]
    mounted = tuple(each["mountPath"] for each in container["volumeMounts"])
    words, parts = shlex.split(BOOTSTRAP.partition("`")[2].partition("`")[0])[1:], BOOTSTRAP
    for name in options.PARTS:
        assert main([*words, "--part", name]) == 0
        parts += capsys.readouterr().out
    read = [*re.findall(r"(?:filename|path): (/etc/.*)$", parts, re.MULTILINE), container["args"][1]]
    assert len([path for path in read if path.endswith((".crt", ".key"))]) == 6
    # A mounted file's folder is there too, and watched in vain (docs/kube-controller-manager.md).
    read = [path for path in read if not any(file.startswith(f"{path}/") for file in mounted)]
    assert [path for path in read if not path.startswith(mounted)] == []
    assert [each["hostPath"]["path"] for each in spec["volumes"]] == [*mounted]


def test_kube_controller_manager_dials_where_envoy_listens_and_its_probe_looks():
    (listener,) = yaml.safe_load(BOOTSTRAP)["static_resources"]["listeners"]
    address = listener["address"]["socket_address"]
    (cluster,) = part("kubeconfig")["clusters"]
    assert cluster["cluster"]["server"] == f"https://{address['address']}:{address['port_value']}"
    probe = part("pod")["spec"]["containers"][0]["readinessProbe"]["tcpSocket"]
    assert probe == {"host": address["address"], "port": address["port_value"]}


def test_all_files_are_in_the_folder_that_is_mounted():
    manager = part("kubeadm")["controllerManager"]
    (argument,), (volume,) = manager["extraArgs"], manager["extraVolumes"]
    tree = part("kubeconfig")
    files = [argument["value"], tree["users"][0]["user"]["tokenFile"]]
    files += [tree["clusters"][0]["cluster"]["certificate-authority"]]
    files += part("pod")["spec"]["containers"][0]["args"][1:]
    assert {file.rpartition("/")[0] for file in files} == {volume["mountPath"]} == {volume["hostPath"]}


def test_the_page_changes_every_place(elsewhere: Any):
    pod = elsewhere("pod")["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["tcpSocket"] == {"host": "127.0.0.2", "port": 8443}
    assert container["args"] == ["-c", "/opt/gate/envoy.yaml"]
    assert [each["hostPath"]["path"] for each in pod["volumes"]] == ["/opt/gate", "/opt/ca.crt"]
    assert elsewhere("kubeconfig")["clusters"][0]["cluster"]["server"] == "https://127.0.0.2:8443"
    for name in ("pod", "kubeconfig", "kubeadm"):
        assert "/etc/kubernetes" not in str(elsewhere(name))
