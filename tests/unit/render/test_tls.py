"""``extauthz render tls``: its commands make every file, and its Secrets are those that pods ask for.

``tests/controlplane/test_rendered.py`` holds its objects against a real API server.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.tools.render import options
from tests.rendering import AUTOSCALERS, chart

Tree = Any
Place = tuple[str | None, str]
"""Namespace and name."""


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", *words]) == 0
    return capsys.readouterr().out


def objects(capsys: pytest.CaptureFixture[str], *words: str) -> list[Tree]:
    return list(yaml.safe_load_all(rendered(capsys, "tls", *words)))


def place(tree: Tree) -> Place:
    return tree["metadata"].get("namespace"), tree["metadata"]["name"]


def secrets_of_files(capsys: pytest.CaptureFixture[str], *words: str) -> set[Place]:
    (kustomization,) = objects(capsys, *words)
    return {(each["namespace"], each["name"]) for each in kustomization["secretGenerator"]}


def secrets_of_cert_manager(capsys: pytest.CaptureFixture[str], *words: str) -> set[Place]:
    made = objects(capsys, "--issuer", "cert-manager", *words)
    certificates = {(place(one)[0], one["spec"]["secretName"]) for one in made if one["kind"] == "Certificate"}
    return certificates | {place(one) for one in made if one["kind"] == "Secret"}


def mounted(trees: list[Tree]) -> set[Place]:
    """The Secrets that rendered pods mount."""
    found = set()
    for tree in trees:
        if tree["kind"] == "Deployment":
            volumes = tree["spec"]["template"]["spec"]["volumes"]
            found |= {(place(tree)[0], each["secret"]["secretName"]) for each in volumes if "secret" in each}
    return found


def test_every_file_of_the_kustomization_is_made_by_the_commands_of_its_comment(capsys, tmp_path: Path, monkeypatch):
    text = rendered(capsys, "tls", "--as", "deployment")
    kustomization = yaml.safe_load(text)
    monkeypatch.chdir(tmp_path)
    for command in re.findall(r"^#     extauthz (.*)\n", text, re.MULTILINE):
        assert main(command.split()) == 0
    named = [file.partition("=")[2] for each in kustomization["secretGenerator"] for file in each.get("files", [])]
    assert len(named) == 9
    assert [name for name in named if not (tmp_path / name).is_file()] == []


@pytest.mark.parametrize("words", [[], ["--as", "deployment"]], ids=["sidecar", "deployment"])
def test_both_issuers_make_the_same_secrets(capsys, words: list[str]):
    authorities = {("keda", "extauthz-apiserver-ca"), ("cert-manager", "extauthz-ca")}
    assert secrets_of_cert_manager(capsys, *words) - authorities == secrets_of_files(capsys, *words)


@pytest.mark.helm
@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_the_secrets_are_those_that_the_charts_pods_mount(capsys, autoscaler: str):
    texts = chart(place=autoscaler), chart("--no-hooks")
    wanted = mounted([tree for text in texts for tree in yaml.safe_load_all(text) if tree])
    assert len(wanted) == 2
    assert wanted <= secrets_of_files(capsys, "--as", "deployment", "--autoscaler", autoscaler)


def test_a_gate_beside_its_envoy_needs_no_authority_of_the_cluster(capsys):
    kinds = {tree["kind"] for tree in objects(capsys, "--issuer", "cert-manager")}
    assert kinds == {"Issuer", "Certificate", "Secret"}


def test_every_certificate_has_an_issuer_that_is_there_and_can_sign_for_it(capsys):
    trees = objects(capsys, "--issuer", "cert-manager", "--as", "deployment")
    issuers = {(tree["kind"], *place(tree)): tree["spec"] for tree in trees if "Issuer" in tree["kind"]}
    certificates = [tree for tree in trees if tree["kind"] == "Certificate"]
    authorities = {(place(one)[0], one["spec"]["secretName"]) for one in certificates if one["spec"].get("isCA")}
    assert len(certificates) == 5
    for certificate in certificates:
        told = certificate["spec"]["issuerRef"]
        where = place(certificate)[0] if told["kind"] == "Issuer" else None
        issuer = issuers[told["kind"], where, told["name"]]
        if "ca" in issuer:
            assert (where or "cert-manager", issuer["ca"]["secretName"]) in authorities
        else:
            assert certificate["spec"]["isCA"]


def test_the_kubeconfig_leads_to_envoy_with_the_pods_own_token(capsys):
    (secret,) = [tree for tree in objects(capsys, "--issuer", "cert-manager") if tree["kind"] == "Secret"]
    config = yaml.safe_load(secret["stringData"]["kubeconfig"])
    access = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:6443",
        "certificate-authority": f"{access}/ca.crt",
    }
    assert config["users"][0]["user"] == {"tokenFile": f"{access}/token"}, "no secret is in it"
    (kustomization,) = objects(capsys)
    (literal,) = kustomization["secretGenerator"][-1]["literals"]
    assert literal == f"kubeconfig={secret['stringData']['kubeconfig']}"


def test_options_land_where_they_belong(capsys):
    words = ["--name", "::1", "--name", "api.example.com", "--namespace", "here"]
    trees = objects(capsys, "--issuer", "cert-manager", "--as", "deployment", "--gate-namespace", "there", *words)
    certificates = {place(tree): tree["spec"] for tree in trees if tree["kind"] == "Certificate"}
    shown = certificates["here", "extauthz-apiserver"]
    assert (shown["duration"], shown["renewBefore"]) == ("2160h", "720h")
    assert (shown["ipAddresses"], shown["dnsNames"]) == (["::1"], ["api.example.com"])
    assert certificates["there", "extauthz-tls"]["dnsNames"] == ["extauthz.there.svc"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--name", "a b"], "is neither a DNS name nor an address"),
        (["--namespace", "a/b"], "is no name of a namespace"),
        (["--issuer", "vault"], "vault"),
    ],
)
def test_wrong_usage_is_told_apart_and_explained(capsys, words: list[str], complaint: str):
    with pytest.raises(SystemExit) as error:
        main(["render", "tls", *words])
    assert error.value.code == 64
    assert complaint in capsys.readouterr().err


def test_every_flag_says_its_default(capsys):
    with pytest.raises(SystemExit):
        main(["render", "tls", "--help"])
    flags = capsys.readouterr().out.partition("\nissuers:\n")[0].split("\n  -")[2:]
    assert len(flags) == 7
    assert [flag for flag in flags if "Default:" not in flag] == []


# ``envoy/static-pod/``: its files fit each other, Envoy's bootstrap beside them, and the page that changes them.


ROOT = Path(__file__).parents[3]
ENVOY = ROOT / "envoy"
BOOTSTRAP = (ENVOY / "static-pod" / "envoy.yaml").read_text()
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
