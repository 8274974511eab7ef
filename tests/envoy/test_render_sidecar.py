"""``extauthz render kubernetes --as sidecar``: what stands in the pod fits together, and the real Envoy takes its part.

``tests/controlplane/test_rendered.py`` lays it over Deployments in a real API server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.render import beside, envoy
from extauthz.render.options import Endpoint, Outage, Profile, SidecarOptions
from extauthz.render.pods import API_ACCESS
from extauthz.testing.certs import Authority
from extauthz.testing.envoy import validate
from tests.envoy.test_render import give_files, give_secrets, looked_for
from tests.envoy.test_render_istio import values

Tree = Any


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", "kubernetes", "--as", "sidecar", *words]) == 0
    return capsys.readouterr().out


def objects(capsys: pytest.CaptureFixture[str], *words: str) -> list[Tree]:
    return list(yaml.safe_load_all(rendered(capsys, *words)))


def deployment(trees: list[Tree]) -> Tree:
    (only,) = [tree for tree in trees if tree["kind"] == "Deployment"]
    return only


def configuration(trees: list[Tree]) -> dict[str, Tree]:
    """Envoy's files."""
    (only,) = [tree for tree in trees if tree["kind"] == "ConfigMap"]
    return {name: yaml.safe_load(text) for name, text in only["data"].items()}


def bootstrap(trees: list[Tree]) -> Tree:
    return configuration(trees)["envoy.yaml"]


def pod(trees: list[Tree]) -> Tree:
    return deployment(trees)["spec"]["template"]["spec"]


def containers(trees: list[Tree]) -> dict[str, Tree]:
    return {each["name"]: each for kind in ("initContainers", "containers") for each in pod(trees)[kind]}


@pytest.mark.parametrize("autoscaler", beside.AUTOSCALERS)
def test_envoy_takes_the_bootstrap_of_each_autoscaler(capsys, authority: Authority, tmp_path: Path, autoscaler: str):
    pair = authority.issue("beside")
    for name, tree in configuration(objects(capsys, "--autoscaler", autoscaler)).items():
        give_files(tree, str(pair.cert), str(pair.key), str(authority.ca), str(tmp_path / "access.log"))
        give_secrets(tree, tmp_path)
        (tmp_path / name).write_text(yaml.safe_dump(tree))
    assert validate(tmp_path / "envoy.yaml") == ""


def test_the_bootstrap_is_the_one_of_render_envoy_for_this_place(capsys):
    tree = bootstrap(objects(capsys, "--autoscaler", "knative", "--on-outage", "allow", "--write-timeout", "7"))
    options = SidecarOptions(
        gate=Endpoint("", 0, "/run/extauthz/gate.sock"),
        profile=Profile.AUTOSCALER,
        on_outage=Outage.ALLOW,
        write_timeout_s=7.0,
        exempt_namespaces=("knative-serving",),
    )
    assert tree == envoy.to_tree(envoy.sidecar(options))


@pytest.mark.parametrize("autoscaler", beside.AUTOSCALERS)
def test_envoy_has_every_file_that_its_bootstrap_names(capsys, autoscaler: str):
    trees = objects(capsys, "--autoscaler", autoscaler)
    mounted = {each["mountPath"] for each in containers(trees)["extauthz-envoy"]["volumeMounts"]}
    files = configuration(trees)
    named = {file.rpartition("/")[0] for file in values(list(files.values()), "filename")}
    assert mounted == named | {"/etc/extauthz/envoy", "/run/extauthz"}
    assert {f"/etc/extauthz/envoy/{name}" for name in files if name != "envoy.yaml"} == {*looked_for(bootstrap(trees))}


@pytest.mark.parametrize("autoscaler", beside.AUTOSCALERS)
def test_every_mounted_volume_is_there_and_every_volume_is_mounted(capsys, autoscaler: str):
    trees = objects(capsys, "--autoscaler", autoscaler)
    mounted = {each["name"] for container in containers(trees).values() for each in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod(trees)["volumes"]}


def test_gate_and_envoy_meet_at_a_socket_that_nobody_else_has(capsys):
    made = containers(objects(capsys))
    assert "--grpc=unix:/run/extauthz/gate.sock" in made["extauthz-gate"]["args"]
    having = {
        name
        for name, container in made.items()
        if "extauthz-socket" in [each["name"] for each in container["volumeMounts"]]
    }
    assert having == {"extauthz-gate", "extauthz-envoy"}
    users = {made[name]["securityContext"]["runAsUser"] for name in having}
    assert len(users) == 1, "the socket's mode is for its user and group"


@pytest.mark.parametrize("autoscaler", beside.AUTOSCALERS)
def test_the_autoscaler_is_led_to_envoy_and_trusts_only_it(capsys, autoscaler: str):
    trees = objects(capsys, "--autoscaler", autoscaler)
    container = containers(trees)[beside.AUTOSCALERS[autoscaler].container]
    listen = bootstrap(trees)["static_resources"]["listeners"][0]["address"]["socket_address"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables == {
        "KUBERNETES_SERVICE_HOST": listen["address"],
        "KUBERNETES_SERVICE_PORT": str(listen["port_value"]),
    }
    (mount,) = container["volumeMounts"]
    (volume,) = [each for each in pod(trees)["volumes"] if each["name"] == mount["name"]]
    (trusted,) = [each["secret"] for each in volume["projected"]["sources"] if "secret" in each]
    assert mount["mountPath"] == API_ACCESS
    assert trusted == {"name": "extauthz-apiserver", "items": [{"key": "ca.crt", "path": "ca.crt"}]}, "and no key"


def test_envoy_starts_first_and_a_gate_that_does_not_start_holds_up_nobody(capsys):
    spec = pod(objects(capsys))
    (envoy_itself,) = spec["initContainers"]
    assert (envoy_itself["name"], envoy_itself["restartPolicy"]) == ("extauthz-envoy", "Always")
    (gate,) = [each for each in spec["containers"] if each["name"] == "extauthz-gate"]
    assert not {"readinessProbe", "startupProbe"} & set(gate)


def test_another_bootstrap_is_another_pod(capsys):
    def note(*words: str) -> Tree:
        return deployment(objects(capsys, *words))["spec"]["template"]["metadata"]["annotations"]

    assert note() == note()
    assert note() != note("--write-timeout", "7")


@pytest.mark.parametrize("autoscaler", beside.AUTOSCALERS)
def test_the_account_of_the_pod_gets_the_gates_rights(capsys, autoscaler: str):
    trees = objects(capsys, "--autoscaler", autoscaler, "--part", "account", "--namespace", "elsewhere")
    bound = {
        (tree["roleRef"]["name"], subject["namespace"], subject["name"])
        for tree in trees
        if tree["kind"] == "ClusterRoleBinding"
        for subject in tree["subjects"]
    }
    account = beside.AUTOSCALERS[autoscaler].account
    assert bound >= {("extauthz", "elsewhere", account), ("extauthz-scaled-kinds", "elsewhere", account)}


def test_options_land_where_they_belong(capsys):
    words = ["--autoscaler", "hpa-controller", "--image", "g:1", "--envoy-image", "e:1", "--manager-image", "m:1"]
    words += ["--replicas", "3", "--tls-secret", "mine", "--mode", "audit", "--profile", "writes"]
    trees = objects(capsys, *words)
    images = {name: each["image"] for name, each in containers(trees).items()}
    assert images == {"extauthz-envoy": "e:1", "extauthz-gate": "g:1", "hpa-controller": "m:1"}
    assert deployment(trees)["spec"]["replicas"] == 3
    assert "--mode=audit" in containers(trees)["extauthz-gate"]["args"]
    assert "extauthz-apiserver" not in rendered(capsys, *words)
    routes = envoy.to_yaml(envoy.sidecar(SidecarOptions(exempt_namespaces=("kube-system",))))
    assert bootstrap(trees)["static_resources"]["listeners"] == yaml.safe_load(routes)["static_resources"]["listeners"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--part", "pdb"], "--as sidecar has no --part pdb, but crd, "),
        (["--traffic", "any"], "--traffic is for --as deployment: add that, or leave --traffic out"),
        (["--replicas", "2"], "--replicas is the Deployment's own of keda: leave it out"),
        (["--ledger", "memory"], "a rollout of the autoscaler runs two: leave it out"),
        (["--ledger", "memory", "--autoscaler", "hpa-controller"], "a rollout of the autoscaler runs two"),
        (["--as", "deployment", "--on-outage", "allow"], "--on-outage is for --as sidecar: add that, or leave"),
        (["--as", "deployment", "--part", "pod"], "--as deployment has no --part pod, but namespace, "),
    ],
)
def test_flags_that_contradict_each_other_are_told_with_the_cure(capsys, words: list[str], complaint: str):
    assert main(["render", "kubernetes", "--as", "sidecar", *words]) == 64
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("extauthz render kubernetes: ")
    assert complaint in told.err
