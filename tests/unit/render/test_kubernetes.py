"""``extauthz render kubernetes``: ``deploy/`` is what it prints, and each option changes what it says.

``tests/controlplane/test_deploy.py`` and ``test_rendered.py`` hold it against a real API server.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.render import gate, kubernetes
from extauthz.service import settings

DEPLOY = Path(__file__).parents[3] / "deploy"
SHOWN = sorted(file for file in DEPLOY.glob("*.yaml") if file.name != "kustomization.yaml")

Tree = Any


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["render", "kubernetes", *words]) == 0
    return capsys.readouterr().out


def objects(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Tree]:
    """By kind and name."""
    trees = yaml.safe_load_all(rendered(capsys, *words))
    return {f"{tree['kind']}/{tree['metadata']['name']}": tree for tree in trees}


def container(deployment: Tree) -> Tree:
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return only


def test_each_part_is_a_file_of_deploy():
    assert {file.stem for file in SHOWN} == set(kubernetes.PARTS)
    for file in SHOWN:
        assert file.read_text().startswith(f"# Made by `extauthz render kubernetes --part {file.stem}`;")


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.stem)
def test_what_deploy_has_is_what_render_prints(capsys, file: Path):
    program, render, what, *words = shlex.split(file.read_text().partition("`")[2].partition("`")[0])
    assert [program, render, what] == ["extauthz", "render", "kubernetes"]
    assert file.read_text() == rendered(capsys, *words), (
        "run `make render`; a CustomResourceDefinition is edited in extauthz/render/crds/"
    )


def test_without_a_part_all_are_printed_in_the_order_of_installation(capsys):
    everything = list(yaml.safe_load_all(rendered(capsys)))
    assert everything == [
        tree for part in kubernetes.PARTS for tree in yaml.safe_load_all((DEPLOY / f"{part}.yaml").read_text())
    ]
    assert everything[0]["kind"] == "Namespace"


def test_yaml_and_json_are_the_same_objects(capsys):
    assert json.loads(rendered(capsys, "-o", "json"))["items"] == list(yaml.safe_load_all(rendered(capsys)))
    assert json.loads(rendered(capsys, "-o", "json", "--part", "pdb"))["kind"] == "PodDisruptionBudget"


def test_the_namespace_is_everywhere(capsys):
    text = rendered(
        capsys,
        "--namespace",
        "elsewhere",
        *(word for part in kubernetes.PARTS if "crd" not in part for word in ("--part", part)),
    )
    assert "extauthz-system" not in text.partition("\n")[2]
    for tree in yaml.safe_load_all(text):
        assert tree["kind"].startswith(("Namespace", "ClusterRole")) or tree["metadata"]["namespace"] == "elsewhere"
        assert {subject["namespace"] for subject in tree.get("subjects", [])} <= {"elsewhere"}


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--mode", "audit"], {"--mode=audit"}),
        (["--log-level", "debug"], {"--log-level=debug"}),
        (["--ledger", "memory", "--replicas", "1"], {"--ledger=memory"}),
    ],
    ids=["mode", "log-level", "ledger"],
)
def test_an_option_of_the_gate_is_a_flag_of_its_container(capsys, words: list[str], flags: set[str]):
    before = set(container(objects(capsys)["Deployment/extauthz"])["args"])
    after = set(container(objects(capsys, *words)["Deployment/extauthz"])["args"])
    assert after - before == flags


def test_the_choices_are_those_of_the_gate_itself():
    assert set(gate.LOG_LEVELS) == set(settings.Level)
    for kind, field in ((gate.Mode, "mode"), (gate.Ledger, "ledger")):
        for choice in kind:
            assert getattr(settings.Settings(**{field: str(choice)}), field) == choice


def test_image_replicas_secret_and_traffic_land_where_they_belong(capsys):
    words = [
        "--image",
        "registry.example.com/gate:2",
        "--replicas",
        "5",
        "--tls-secret",
        "mine",
        "--traffic",
        "PreferSameZone",
    ]
    made = objects(capsys, *words)
    deployment = made["Deployment/extauthz"]
    assert container(deployment)["image"] == "registry.example.com/gate:2"
    assert deployment["spec"]["replicas"] == 5
    assert deployment["spec"]["template"]["spec"]["volumes"] == [{"name": "tls", "secret": {"secretName": "mine"}}]
    assert made["Service/extauthz"]["spec"]["trafficDistribution"] == "PreferSameZone"
    assert "trafficDistribution" not in objects(capsys, "--traffic", "any")["Service/extauthz"]["spec"]


def test_a_gate_with_a_ledger_of_its_own_is_never_run_twice(capsys):
    spec = objects(capsys, "--ledger", "memory", "--replicas", "1")["Deployment/extauthz"]["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    assert main(["render", "kubernetes", "--ledger", "memory"]) == 64
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        "extauthz render kubernetes: --ledger memory is for a single gate: add --replicas 1, or leave --ledger out\n",
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--replicas", "0"], "no number of gates"),
        (["--namespace", "a/b"], "is no name"),
        (["--tls-secret", "A"], "is no name"),
        (["--image", "a b"], "is no image"),
        (["--mode", "off"], "off"),
        (["--part", "ingress"], "ingress"),
    ],
)
def test_wrong_usage_is_told_apart_and_explained(capsys, words: list[str], complaint: str):
    with pytest.raises(SystemExit) as error:
        main(["render", "kubernetes", *words])
    assert error.value.code == 64
    assert complaint in capsys.readouterr().err


def test_every_flag_says_its_default(capsys):
    with pytest.raises(SystemExit):
        main(["render", "kubernetes", "--help"])
    flags = capsys.readouterr().out.partition("\nforms and their parts")[0].split("\n  -")[2:]
    assert len(flags) == 22
    assert [flag for flag in flags if "Default:" not in flag] == []
