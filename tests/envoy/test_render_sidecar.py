"""The chart beside an autoscaler: what stands in the pod fits together, and the real Envoy takes its part.

``tests/controlplane/test_rendered.py`` lays it over Deployments in a real API server.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.demo.envoy import validate
from extauthz.tools.render import envoy
from extauthz.tools.render.istio import API_ACCESS
from extauthz.tools.render.options import Endpoint, Outage, Profile, SidecarOptions
from tests import rendering
from tests.envoy.test_render import give_files, give_secrets, looked_for
from tests.envoy.test_render_istio import values
from tests.rendering import AUTOSCALERS
from tests.support.certs import Authority

pytestmark = pytest.mark.helm

PAGE = (rendering.ROOT / "docs" / "internals" / "envoy.md").read_text()

Tree = Any


def objects(place: str = "keda", *words: str, namespace: str = "here") -> list[Tree]:
    """What the chart makes."""
    text = rendering.chart(*words, place=place, namespace=namespace)
    return [tree for tree in yaml.safe_load_all(text) if tree]


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


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_envoy_takes_the_bootstrap_of_each_autoscaler(authority: Authority, tmp_path: Path, autoscaler: str):
    pair = authority.issue("beside")
    for name, tree in configuration(objects(autoscaler)).items():
        give_files(tree, str(pair.cert), str(pair.key), str(authority.ca), str(tmp_path / "access.log"))
        give_secrets(tree, tmp_path)
        (tmp_path / name).write_text(yaml.safe_dump(tree))
    assert validate(tmp_path / "envoy.yaml") == ""


def test_the_bootstrap_is_the_one_of_render_envoy_for_this_place():
    for place, profile in (("knative", Profile.AUTOSCALER), ("hpa-controller", Profile.SCALE)):
        options = SidecarOptions(
            gate=Endpoint("", 0, "/run/extauthz/gate.sock"), profile=profile, exempt_namespaces=("elsewhere",)
        )
        assert bootstrap(objects(place, namespace="elsewhere")) == envoy.sidecar(options)


def test_another_bootstrap_takes_its_place(capsys, tmp_path: Path):
    """As docs/internals/envoy.md shows it."""
    (command,) = re.findall(r"^extauthz (render envoy [^>`]*) > envoy.yaml$", PAGE, re.MULTILINE)
    assert main(shlex.split(command.replace("\\\n", ""))) == 0
    (tmp_path / "envoy.yaml").write_text(capsys.readouterr().out)
    tree = bootstrap(objects("keda", f"--set-file=envoy.bootstrap={tmp_path / 'envoy.yaml'}", namespace="elsewhere"))
    options = SidecarOptions(
        gate=Endpoint("", 0, "/run/extauthz/gate.sock"),
        profile=Profile.AUTOSCALER,
        on_outage=Outage.ALLOW,
        exempt_namespaces=("elsewhere",),
    )
    assert tree == envoy.sidecar(options)


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_envoy_has_every_file_that_its_bootstrap_names(autoscaler: str):
    trees = objects(autoscaler)
    mounted = {each["mountPath"] for each in containers(trees)["extauthz-envoy"]["volumeMounts"]}
    files = configuration(trees)
    named = {file.rpartition("/")[0] for file in values(list(files.values()), "filename")}
    assert mounted == named | {"/etc/extauthz/envoy", "/run/extauthz"}
    assert {f"/etc/extauthz/envoy/{name}" for name in files if name != "envoy.yaml"} == {*looked_for(bootstrap(trees))}


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_every_mounted_volume_is_there_and_every_volume_is_mounted(autoscaler: str):
    trees = objects(autoscaler)
    mounted = {each["name"] for container in containers(trees).values() for each in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod(trees)["volumes"]}


def test_gate_and_envoy_meet_at_a_socket_that_nobody_else_has():
    made = containers(objects())
    assert "--grpc=unix:/run/extauthz/gate.sock" in made["extauthz-gate"]["args"]
    having = {
        name
        for name, container in made.items()
        if "extauthz-socket" in [each["name"] for each in container["volumeMounts"]]
    }
    assert having == {"extauthz-gate", "extauthz-envoy"}
    users = {made[name]["securityContext"]["runAsUser"] for name in having}
    assert len(users) == 1, "the socket's mode is for its user and group"


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_the_autoscaler_is_led_to_envoy_and_trusts_only_it(autoscaler: str):
    trees = objects(autoscaler)
    container = containers(trees)[AUTOSCALERS[autoscaler].container]
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


def test_envoy_starts_first_and_a_gate_that_does_not_start_holds_up_nobody():
    spec = pod(objects())
    (envoy_itself,) = spec["initContainers"]
    assert (envoy_itself["name"], envoy_itself["restartPolicy"]) == ("extauthz-envoy", "Always")
    (gate,) = [each for each in spec["containers"] if each["name"] == "extauthz-gate"]
    assert not {"readinessProbe", "startupProbe"} & set(gate)


def test_another_bootstrap_is_another_pod():
    def note(*words: str) -> Tree:
        return deployment(objects("keda", *words))["spec"]["template"]["metadata"]["annotations"]

    assert note() == note()
    assert note() != note("--set", "envoy.bootstrap=another")


@pytest.mark.parametrize("autoscaler", AUTOSCALERS)
def test_the_account_of_the_pod_gets_the_gates_rights(autoscaler: str):
    trees = objects(autoscaler, namespace="elsewhere")
    bound = {
        (tree["roleRef"]["name"], subject["namespace"], subject["name"])
        for tree in trees
        if tree["kind"] == "ClusterRoleBinding"
        for subject in tree["subjects"]
    }
    account = AUTOSCALERS[autoscaler].account
    assert bound >= {("extauthz", "elsewhere", account), ("extauthz-scaled-kinds", "elsewhere", account)}


def test_options_land_where_they_belong():
    words = ["image.repository=g", "image.tag=v1", "envoy.image=e:1", "hpaController.image=m:1"]
    words += ["replicas=3", "tls.secret=mine", "mode=audit"]
    trees = objects("hpa-controller", "--set", ",".join(words))
    images = {name: each["image"] for name, each in containers(trees).items()}
    assert images == {"extauthz-envoy": "e:1", "extauthz-gate": "g:v1", "hpa-controller": "m:1"}
    assert deployment(trees)["spec"]["replicas"] == 3
    assert "--mode=audit" in containers(trees)["extauthz-gate"]["args"]
    assert "extauthz-apiserver" not in str(trees)
