"""``extauthz render tls``: its commands make certificates that hold, and its Secrets are those that pods ask for.

``tests/controlplane/test_rendered.py`` holds its objects against a real API server.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
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


def made(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> Path:
    """``certificates/``, by the commands in the comment, as they stand."""
    comment = rendered(capsys, "tls", *words)
    commands = "".join(re.findall(r"^#     (.*\n)", comment, re.MULTILINE))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "certificates"


def verify(certificates: Path, name: str, *claims: str) -> bool:
    command = ["openssl", "verify", "-CAfile", str(certificates / "ca.crt"), *claims, str(certificates / f"{name}.crt")]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def test_the_commands_of_the_comment_make_what_each_side_accepts(capsys, tmp_path: Path):
    certificates = made(capsys, tmp_path, "--as", "deployment", "--name", "10.96.0.1")
    assert verify(certificates, "apiserver", "-purpose", "sslserver", "-verify_ip", "10.96.0.1")
    assert not verify(certificates, "apiserver", "-verify_ip", "127.0.0.1"), "only the names that were asked for"
    assert verify(certificates, "gate", "-purpose", "sslserver", "-verify_hostname", "extauthz.extauthz-system.svc")
    assert verify(certificates, "envoy", "-purpose", "sslclient")
    assert not verify(certificates, "envoy", "-purpose", "sslserver"), "a client may not pose as the gate"


def test_a_second_run_issues_anew_from_the_same_authority(capsys, tmp_path: Path):
    certificates = made(capsys, tmp_path)
    before = {name: (certificates / name).read_bytes() for name in ("ca.crt", "apiserver.crt")}
    made(capsys, tmp_path, "--days", "30")
    after = {name: (certificates / name).read_bytes() for name in ("ca.crt", "apiserver.crt")}
    assert after["ca.crt"] == before["ca.crt"]
    assert after["apiserver.crt"] != before["apiserver.crt"]
    assert verify(certificates, "apiserver", "-verify_ip", "127.0.0.1")


def test_every_file_of_the_kustomization_is_made_by_the_commands(capsys, tmp_path: Path):
    (kustomization,) = objects(capsys, "--as", "deployment")
    made(capsys, tmp_path, "--as", "deployment")
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
    trees = objects(capsys, "--issuer", "cert-manager", "--as", "deployment", "--authority-namespace", "cm")
    issuers = {(tree["kind"], *place(tree)): tree["spec"] for tree in trees if "Issuer" in tree["kind"]}
    certificates = [tree for tree in trees if tree["kind"] == "Certificate"]
    authorities = {(place(one)[0], one["spec"]["secretName"]) for one in certificates if one["spec"].get("isCA")}
    assert len(certificates) == 5
    for certificate in certificates:
        told = certificate["spec"]["issuerRef"]
        where = place(certificate)[0] if told["kind"] == "Issuer" else None
        issuer = issuers[told["kind"], where, told["name"]]
        if "ca" in issuer:
            assert (where or "cm", issuer["ca"]["secretName"]) in authorities
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
    words = [
        "--days",
        "30",
        "--name",
        "::1",
        "--name",
        "api.example.com",
        "--tls-secret",
        "mine",
        "--namespace",
        "here",
    ]
    trees = objects(capsys, "--issuer", "cert-manager", "--as", "deployment", "--gate-namespace", "there", *words)
    shown = next(tree for tree in trees if place(tree) == ("here", "mine") and tree["kind"] == "Certificate")["spec"]
    assert (shown["duration"], shown["renewBefore"]) == ("720h", "240h")
    assert (shown["ipAddresses"], shown["dnsNames"]) == (["::1"], ["api.example.com"])
    gate = next(tree for tree in trees if place(tree) == ("there", "extauthz-tls"))["spec"]
    assert gate["dnsNames"] == ["extauthz.there.svc"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--name", "a b"], "is neither a DNS name nor an address"),
        (["--days", "0"], "is no number of days from 1 to 825"),
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
    assert len(flags) == 11
    assert [flag for flag in flags if "Default:" not in flag] == []
