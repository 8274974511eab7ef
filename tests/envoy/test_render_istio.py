"""``extauthz render istio``: what it prints is what the repository shows, and fits together; the real Envoy takes it.

``tests/controlplane/test_istio.py`` holds it against a real istiod.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.demo.envoy import validate
from extauthz.tools.render import envoy, istio, options
from extauthz.tools.render.options import Outage, Profile
from tests.envoy.test_render import give_files, give_secrets
from tests.support.certs import Authority
from tests.support.kubelet import of_annotations

REPOSITORY = Path(__file__).parents[2]
SHOWN = sorted((REPOSITORY / "istio/knative").iterdir())


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", *words]) == 0
    return capsys.readouterr().out


def made_by(file: Path) -> list[str]:
    program, render, *words = shlex.split(file.read_text().partition("`")[2].partition("`")[0])
    assert [program, render] == ["extauthz", "render"]
    return words


def template(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    """Of the client's pods."""
    return json.loads(rendered(capsys, "istio-pod", "-o", "json", *words))["spec"]["template"]


def patches(tree: dict, where: str) -> list[dict]:
    return [each["patch"]["value"] for each in tree["spec"]["configPatches"] if each["applyTo"] == where]


def values(tree: object, key: str) -> Iterator[Any]:
    """Of this key, wherever it is."""
    if isinstance(tree, dict):
        if key in tree:
            yield tree[key]
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from values(each, key)


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.stem)
def test_what_the_repository_shows_is_what_render_prints(capsys, file: Path):
    assert file.read_text() == rendered(capsys, *made_by(file)), "run `make render`"


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("outage", Outage)
def test_chain_and_clusters_are_those_of_the_envoy_without_a_mesh(profile: Profile, outage: Outage):
    sidecar = replace(options.SIDECAR, profile=profile, on_outage=outage)
    whole = envoy.sidecar(sidecar)
    alone = whole["static_resources"]
    tree = istio.envoy_filter(options.MeshOptions(sidecar=sidecar))
    (chain,) = patches(tree, "LISTENER")[0]["filter_chains"]
    assert chain.pop("name") == "extauthz"
    assert chain.pop("filter_chain_match") == {"transport_protocol": "tls"}
    limit = chain["filters"].pop(0)["typed_config"]
    (_, monitor) = whole["overload_manager"]["resource_monitors"]
    assert int(monitor["typed_config"]["max_active_downstream_connections"]) == limit["max_connections"]
    without = alone["listeners"][0]["filter_chains"][0]
    # Envoys of sidecars may be older than the field.
    assert without["filters"][0]["typed_config"].pop("stream_flush_timeout") == "10s"
    assert chain == without
    assert patches(tree, "CLUSTER") == alone["clusters"]


@pytest.mark.parametrize(
    "words", [[], ["--gate-plain"], ["--on-outage", "allow"], ["--clamp"]], ids=["defaults", "plain", "allow", "clamp"]
)
def test_envoy_takes_the_chain_beside_one_that_passes_everything(
    capsys, authority: Authority, tmp_path: Path, words: list[str]
):
    words = [*words, f"--secrets={tmp_path}"]
    tree = json.loads(rendered(capsys, "istio", "-o", "json", *words))
    pair = authority.issue("mesh")
    for file, text in of_annotations(template(capsys, *words)):
        secret = yaml.safe_load(text)
        give_files(secret, str(pair.cert), str(pair.key), str(authority.ca), "")
        Path(file).write_text(json.dumps(secret))
    (listener,) = patches(tree, "LISTENER")
    proxy = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "passed",
        "cluster": "apiserver",
    }
    listener["filter_chains"].insert(0, {"filters": [{"name": "tcp", "typed_config": proxy}]})
    listener |= {"name": "here", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}}
    resources = {"listeners": [listener], "clusters": patches(tree, "CLUSTER")}
    config = {"node": {"id": "sidecar", "cluster": "mesh"}, "static_resources": resources}
    give_secrets(config, tmp_path)
    give_files(config, "", "", "", str(tmp_path / "access.log"))
    (tmp_path / "envoy.json").write_text(json.dumps(config))
    assert validate(tmp_path / "envoy.json") == ""


@pytest.mark.parametrize("words", [[], ["--gate-plain"], ["--cert", "/a/b/c", "--key", "/a/b/d"]],
                         ids=["defaults", "plain", "elsewhere"])  # fmt: skip
def test_the_pods_sidecar_has_every_file_that_the_filter_names(capsys, words: list[str]):
    """Files of SDS, and those that hold the certificates, which only the files of SDS name."""
    tree = json.loads(rendered(capsys, "istio", "-o", "json", *words))
    pod = template(capsys, *words)
    annotations = pod["metadata"]["annotations"]
    mounts = json.loads(annotations["sidecar.istio.io/userVolumeMount"])
    volumes = json.loads(annotations["sidecar.istio.io/userVolume"])
    assert [each["name"] for each in mounts] == [each["name"] for each in volumes]
    files = dict(of_annotations(pod))
    assert {source["path"] for source in values(tree, "path_config_source")} == files.keys()
    assert [*values(tree, "filename")] == []
    secrets = [yaml.safe_load(text) for text in files.values()]
    named = {file.rpartition("/")[0] for file in [*files, *values(secrets, "filename")]}
    assert named == {each["mountPath"] for each in mounts} | {istio.API_ACCESS}
    watched = {folder["path"] for folder in values([tree, secrets], "watched_directory")}
    assert watched == {file.rpartition("/")[0] for file in values(secrets, "filename")}


@pytest.mark.parametrize("client", options.CLIENTS)
def test_filter_and_pod_are_about_the_same_client(capsys, client: str):
    words = ["--client", client, "--namespace", "elsewhere"]
    tree = yaml.safe_load(rendered(capsys, "istio", *words))
    pod = yaml.safe_load(rendered(capsys, "istio-pod", *words))
    assert tree["metadata"]["namespace"] == pod["metadata"]["namespace"] == "elsewhere"
    assert tree["metadata"]["name"].removeprefix("extauthz-") == pod["metadata"]["name"].removeprefix("extauthz-")


def test_the_hpa_is_asked_about_scales_alone_and_its_pods_are_those_that_the_filter_selects(capsys):
    tree = yaml.safe_load(rendered(capsys, "istio", "--client", "hpa-controller"))
    scale_alone = istio.envoy_filter(
        options.MeshOptions(options.CLIENTS["hpa-controller"], sidecar=replace(options.SIDECAR, profile=Profile.SCALE))
    )
    assert tree == json.loads(json.dumps(scale_alone))
    *_, deployment = yaml.safe_load_all((REPOSITORY / "deploy/hpa-controller/hpa-controller.yaml").read_text())
    patch = yaml.safe_load(rendered(capsys, "istio-pod", "--client", "hpa-controller"))
    assert {key: patch["metadata"][key] for key in ("name", "namespace")}.items() <= deployment["metadata"].items()
    pod, patched = (each["spec"]["template"] for each in (deployment, patch))
    assert tree["spec"]["workloadSelector"]["labels"].items() <= pod["metadata"]["labels"].items()
    assert [each["name"] for each in patched["spec"]["containers"]] == [
        each["name"] for each in pod["spec"]["containers"]
    ]
    assert deployment["metadata"]["namespace"] != "kube-system", "Istio injects nothing there"


def test_the_service_ip_names_the_listener_and_is_where_the_api_server_is(capsys):
    tree = yaml.safe_load(rendered(capsys, "istio", "--service-ip", "10.43.0.1"))
    (match,) = [each["match"] for each in tree["spec"]["configPatches"] if each["applyTo"] == "LISTENER"]
    assert match == {"context": "SIDECAR_OUTBOUND", "listener": {"name": "10.43.0.1_443"}}
    assert "address: 10.43.0.1\n" in rendered(capsys, "istio", "--service-ip", "10.43.0.1")


def test_plain_text_to_the_gate_only_when_told_to(capsys):
    def gate(*words: str) -> dict:
        tree = yaml.safe_load(rendered(capsys, "istio", *words))
        return next(each for each in patches(tree, "CLUSTER") if each["name"] == "extauthz")

    context = gate()["transport_socket"]["typed_config"]["common_tls_context"]
    assert [each["name"] for each in context["tls_certificate_sds_secret_configs"]] == ["gate-client"]
    assert "transport_socket" not in gate("--gate-plain")
    names = [file.rpartition("/")[2] for file, _ in of_annotations(template(capsys, "--gate-plain"))]
    assert names == ["serving.yaml", "apiserver-ca.yaml"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--gate-plain", "--gate-ca", "/ca"], "exclude each other"),
        (["--gate-cert", "/c"], "go together"),
        (["--gate-plain", "--gate-cert", "/c", "--gate-key", "/k"], "needs --gate-ca"),
    ],
)
@pytest.mark.parametrize("what", ["istio", "istio-pod"])
def test_flags_that_contradict_each_other_are_told(capsys, what: str, words: list[str], complaint: str):
    assert main(["render", what, *words]) == 64
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"extauthz render {what}: ")
    assert complaint in told.err


@pytest.mark.parametrize("words", [["--service-ip", "kubernetes.default"], ["--namespace", "a/b"], ["--client", "hpa"]])
def test_wrong_usage_is_told(capsys, words: list[str]):
    with pytest.raises(SystemExit) as error:
        main(["render", "istio", *words])
    assert error.value.code == 64
    assert words[1] in capsys.readouterr().err


@pytest.mark.parametrize("what", ["istio", "istio-pod"])
def test_every_flag_says_its_default(capsys, what: str):
    with pytest.raises(SystemExit):
        main(["render", what, "--help"])
    flags = capsys.readouterr().out.partition("\nprofiles:\n")[0].split("\n  -")[2:]
    assert len(flags) > 18
    assert [flag for flag in flags if "Default:" not in flag] == []
