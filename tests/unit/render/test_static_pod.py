"""``extauthz render static-pod``: what it prints is what the repository shows, and fits Envoy's bootstrap beside it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.render import secrets, static_pod

ENVOY = Path(__file__).parents[3] / "envoy"
SHOWN = sorted((ENVOY / "static-pod").glob("*.yaml"))
BOOTSTRAP = (ENVOY / "kube-controller-manager.yaml").read_text()


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", "static-pod", *words]) == 0
    return capsys.readouterr().out


def part(capsys: pytest.CaptureFixture[str], name: str, *words: str) -> Any:
    return yaml.safe_load(rendered(capsys, "--part", name, *words))


def test_the_repository_shows_each_part():
    assert {file.stem for file in SHOWN} == {*static_pod.PARTS}


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.stem)
def test_what_the_repository_shows_is_what_render_prints(capsys, file: Path):
    program, render, what, *words = shlex.split(file.read_text().partition("`")[2].partition("`")[0])
    assert [program, render, what] == ["extauthz", "render", "static-pod"]
    assert file.read_text() == rendered(capsys, *words), "run `make render`"


def test_the_pod_has_every_file_that_envoy_reads(capsys):
    spec = part(capsys, "pod")["spec"]
    (container,) = spec["containers"]
    mounted = tuple(each["mountPath"] for each in container["volumeMounts"])
    words, parts = shlex.split(BOOTSTRAP.partition("`")[2].partition("`")[0])[1:], BOOTSTRAP
    for name in secrets.NAMES:
        assert main([*words, "--part", name]) == 0
        parts += capsys.readouterr().out
    read = [*re.findall(r"(?:filename|path): (/etc/.*)$", parts, re.MULTILINE), container["args"][1]]
    assert len([path for path in read if path.endswith((".crt", ".key"))]) == 6
    # A mounted file's folder is there too, and watched in vain (docs/kube-controller-manager.md).
    read = [path for path in read if not any(file.startswith(f"{path}/") for file in mounted)]
    assert [path for path in read if not path.startswith(mounted)] == []
    assert [each["hostPath"]["path"] for each in spec["volumes"]] == [*mounted]


@pytest.mark.parametrize("listen", ["127.0.0.1:7443", "[::1]:8443"])
def test_kube_controller_manager_dials_where_envoy_listens_and_its_probe_looks(capsys, listen: str):
    (cluster,) = part(capsys, "kubeconfig", "--listen", listen)["clusters"]
    assert cluster["cluster"]["server"] == f"https://{listen}"
    probe = part(capsys, "pod", "--listen", listen)["spec"]["containers"][0]["readinessProbe"]["tcpSocket"]
    assert [probe["host"], str(probe["port"])] == listen.replace("[", "").replace("]", "").rsplit(":", 1)


def test_without_words_it_listens_where_the_bootstrap_that_is_shown_does(capsys):
    (listener,) = yaml.safe_load(BOOTSTRAP)["static_resources"]["listeners"]
    address = listener["address"]["socket_address"]
    (cluster,) = part(capsys, "kubeconfig")["clusters"]
    assert cluster["cluster"]["server"] == f"https://{address['address']}:{address['port_value']}"


def test_all_files_are_in_the_folder_that_is_mounted(capsys):
    words = ("--folder", "/opt/gate/")
    manager = part(capsys, "kubeadm", *words)["controllerManager"]
    (argument,), (volume,) = manager["extraArgs"], manager["extraVolumes"]
    tree = part(capsys, "kubeconfig", *words)
    files = [argument["value"], tree["users"][0]["user"]["tokenFile"]]
    files += [tree["clusters"][0]["cluster"]["certificate-authority"]]
    files += part(capsys, "pod", *words)["spec"]["containers"][0]["args"][1:]
    assert volume["mountPath"] == volume["hostPath"] == "/opt/gate"
    assert [file.rpartition("/")[0] for file in files] == ["/opt/gate"] * 4


def test_yaml_and_json_are_the_same(capsys):
    assert part(capsys, "pod") == json.loads(rendered(capsys, "-o", "json"))


def test_a_socket_that_nobody_could_dial_is_told(capsys):
    assert main(["render", "static-pod", "--listen", "unix:/run/envoy.sock"]) == 64
    assert "--listen must be host:port" in capsys.readouterr().err


def test_every_flag_says_its_default(capsys):
    with pytest.raises(SystemExit):
        main(["render", "static-pod", "--help"])
    flags = capsys.readouterr().out.partition("\nparts,")[0].split("\n  -")[2:]
    assert len(flags) > 6
    assert [flag for flag in flags if "Default:" not in flag] == []
