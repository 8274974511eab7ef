"""``extauthz explain``: exit codes, the text of docs/explain.md, the JSON, what-if, and a gate's word."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from extauthz.cli import main
from extauthz.cli.explain_quota import sentence as of_quota
from extauthz.explain.sentence import REASONS
from extauthz.testing import workload
from tests.unit.test_cli_check_files import PUBLIC

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "internals" / "explain.md").read_text()
PAGE = (DOCS / "explain.md").read_text() + REFERENCE
EXAMPLE = (DOCS.parent / "examples" / "explain" / "state.yaml").read_text()

QUOTA = """\
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec: {namespaceSelector: {matchLabels: {workspace: acme}}, hard: {requests.cpu: "7"}, mode: Enforce}
"""

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Of the example of the page."""
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "state.yaml").write_text(EXAMPLE)
    (tmp_path / "quotas.yaml").write_text(QUOTA)
    monkeypatch.chdir(tmp_path)

    def asked(*words: str, state: str = "state.yaml") -> tuple[int, str, str]:
        code = main(["explain", *words, "--state", state])
        out, err = capsys.readouterr()
        return code, out, err

    return asked


def shown_after(command: str) -> str:
    """What the page shows below a command."""
    return re.search(rf"^```sh\n{re.escape(command)}\n```\n\n```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]


@pytest.mark.parametrize(
    "command", re.findall(r"^```sh\n(extauthz explain .*--state state.yaml.*)\n```", PAGE, re.MULTILINE)
)
def test_the_page_shows_what_the_command_prints(ask, command):
    words = command.replace(" --state state.yaml", "").split()[2:]
    _, out, _ = ask(*words)
    assert out == shown_after(command)


def test_a_workload_finds_its_hpa_or_is_told_that_there_is_none(ask):
    assert ask("deploy/web", "-n", "shop")[:2] == ask("hpa/web", "-n", "shop")[:2]
    code, _, err = ask("deploy/other", "-n", "shop")
    assert code == 2
    assert "no HPA scales deployments shop/other" in err
    assert ask("hpa/other", "-n", "shop")[0] == 2


@pytest.mark.parametrize("what", ["deploy/alone", "deployments.apps/alone"])
@pytest.mark.parametrize(
    ("cpu", "code", "says"), [("9", 0, "has 2 replicas and may have 9. Nothing scales it."), ("2", 1, "may have 2")]
)
def test_of_a_workload_that_nothing_scales_it_says_what_its_quota_allows(ask, tmp_path, what, cpu, code, says):
    """``deployments.apps/…`` is what the gate's event tells to ask."""
    alone = yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lone", "labels": {"workspace": "lone"}}},
            workload("alone", 2, namespace="lone"),
        ]
    )
    selector = {"matchLabels": {"workspace": "lone"}}
    quota = {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "lone"}}
    quota["spec"] = {"hard": {"requests.cpu": cpu}, "namespaceSelector": selector}
    (tmp_path / "alone.yaml").write_text(alone)
    (tmp_path / "lone.yaml").write_text(yaml.safe_dump(quota))
    words = (what, "-n", "lone", "--quotas", "lone.yaml")
    found, out, _ = ask(*words, state="alone.yaml")
    assert (found, says in " ".join(out.split())) == (code, True), out
    assert ("does not fit:" in out) == (code == 1)
    assert json.loads(ask(*words, "-o", "json", state="alone.yaml")[1])["held"] == bool(code)


@pytest.mark.parametrize(
    ("words", "code", "desired"),
    [
        ([], 1, 12),
        (["--at", "cpu=82"], 1, 12),
        (["--at", "cpu=83"], 0, 14),
        (["--at", "cpu=75%"], 0, 12),
        (["--controller", "horizontal-pod-autoscaler-tolerance=0.05"], 0, 13),
        (["--quotas", "quotas.yaml"], 1, 12),
        (["--quotas", "quotas.yaml", "--at", "cpu=83"], 0, 14),
        (["--quotas", "quotas.yaml", "--at", "cpu=90"], 1, 15),
    ],
)
def test_what_if(ask, words, code, desired):
    found, out, _ = ask("hpa/web", "-n", "shop", "-o", "json", *words)
    assert (found, json.loads(out)["desiredReplicas"]) == (code, desired)


def test_the_quota_has_the_last_word(ask):
    _, out, _ = ask("hpa/web", "-n", "shop", "-o", "json", "--quotas", "quotas.yaml", "--at", "cpu=90")
    found = json.loads(out)
    assert found["sentence"].endswith(
        "The quota does not allow it: 14 of the 40 replicas that it may ask for would fit."
    )
    assert found["quota"]["decision"]["verdict"] == "deny"
    assert found["quota"]["headroom"]["replicas"] == 14


def test_where_the_quota_lowers_a_count_explain_and_check_say_so(ask, tmp_path, capsys):
    (tmp_path / "clamp.yaml").write_text(QUOTA.replace("Enforce", "Clamp"))
    _, out, _ = ask("hpa/web", "-n", "shop", "-o", "json", "--quotas", "clamp.yaml", "--at", "cpu=90")
    found = json.loads(out)
    assert found["sentence"].endswith(" The quota grants 14 of the 15 (mode Clamp).")
    assert found["held"]
    assert (
        main(
            [
                "check",
                "deploy/web",
                "-n",
                "shop",
                *["--replicas", "15", "--quotas", "clamp.yaml", "--state", "state.yaml"],
            ]
        )
        == 0
    )
    assert "asked for 15 replicas and may have 14: exceeded workspace quota: acme" in " ".join(
        capsys.readouterr().out.split()
    )


def test_where_a_write_was_refused_and_would_fit_by_now_that_is_said(ask, tmp_path):
    trees = yaml.safe_load(EXAMPLE)
    refused = {"type": "AbleToScale", "status": "False", "reason": "FailedUpdateScale", "message": "exceeded quota"}
    conditions = trees["items"][-1]["status"]["conditions"]
    trees["items"][-1]["status"]["conditions"] = [refused, *(one for one in conditions if one["type"] != "AbleToScale")]
    trees["items"][-1]["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"] = 83
    (tmp_path / "refused.yaml").write_text(yaml.safe_dump(trees))
    words = ("hpa/web", "-n", "shop", "-o", "json", "--quotas", "quotas.yaml")
    assert "The quota would allow it now." in json.loads(ask(*words, state="refused.yaml")[1])["sentence"]


@pytest.mark.parametrize("name", PUBLIC)
def test_of_a_public_kind_whose_definition_is_not_there_nothing_is_certain(ask, tmp_path, name):
    """Where its count and its pods are only the definition tells, or its scale."""
    version, kind = name.split()
    (hpa,) = [one for one in yaml.safe_load(EXAMPLE)["items"] if one["kind"] == "HorizontalPodAutoscaler"]
    hpa["spec"]["scaleTargetRef"] = {"apiVersion": version, "kind": kind, "name": "x"}
    metadata, count = {"name": "x", "namespace": "shop"}, {"replicas": 12}
    own = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": PUBLIC[name] | count, "status": count}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump_all([hpa, own]))
    _, out, _ = ask("hpa/web", "-n", "shop", "-o", "json", state="own.yaml")
    found = json.loads(out)
    assert (found["confidence"], found["steps"][0]["confidence"]) == ("likely", "likely"), found
    assert f"neither the scale of {kind} x nor its definition is among the objects" in found["steps"][0]["text"]


def test_what_it_may_ask_for_and_would_not_get_is_told_before_it_asks(ask):
    words = ("hpa/web", "-n", "shop", "-o", "json", "--quotas", "quotas.yaml")
    calm = json.loads(ask(*words, "--at", "cpu=75")[1])
    assert calm["sentence"].endswith(" 14 of the 40 replicas that it may ask for would fit.")
    assert (calm["desiredReplicas"], calm["held"], calm["quota"]["mayAskFor"]) == (12, False, 40)
    allowed = json.loads(ask(*words, "--at", "cpu=83")[1])
    assert allowed["sentence"].endswith("The quota allows it. 14 of the 40 replicas that it may ask for would fit.")


@pytest.mark.parametrize(
    ("most", "asks", "ahead"), [(4, 4, ""), (4, None, ""), (None, 9, ""), (4, 9, " 4 of the 9 replicas that it may")]
)
def test_nothing_is_told_ahead_where_all_fits(most, asks, ahead):
    quota = {"headroom": {"replicas": most}, "mayAskFor": asks, "decision": {"verdict": "deny"}, "line": None}
    assert of_quota(quota, wants_more=False).startswith(ahead)
    assert bool(of_quota(quota, wants_more=False)) == bool(ahead)
    assert of_quota(quota, wants_more=True).startswith(" The quota does not allow it")


def test_the_json_has_every_field_of_the_page(ask):
    _, out, _ = ask("hpa/web", "-n", "shop", "-o", "json")
    found = json.loads(out)
    table = REFERENCE.partition("## Fields of the JSON")[2].partition("\n## ")[0]
    assert set(re.findall(r"^- `(\w+)`: ", table, re.MULTILINE)) == set(found)
    assert [step["confidence"] for step in found["steps"]] == ["certain"] * 3


def test_every_outcome_is_on_the_page():
    table = REFERENCE.partition("## Outcomes")[2].partition("\n## ")[0]
    others = {"scales-up", "scales-down", "above-max", "below-min", "tolerance", "failed", "refused"}
    assert set(re.findall(r"^- `([\w-]+)`: ", table, re.MULTILINE)) == {*REASONS, *others}


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--at", "memory=5"], 64, "the HPA has no metric 'memory'; it has cpu"),
        (["--at", "cpu=much"], 64, "write for example cpu=83"),
        (["--controller", "tolerant=0.1"], 64, "--controller tolerant=0.1: there are tolerance, cpu-init"),
        (["--controller", "tolerance=much"], 64, "write a number"),
        (["--kubeconfig", "x"], 64, "two places"),
    ],
)
def test_wrong_usage(ask, words, code, why):
    found, _, err = ask("hpa/web", "-n", "shop", *words)
    assert found == code
    assert why in err


def test_an_object_of_another_form_is_a_wrong_file(ask, tmp_path):
    trees = yaml.safe_load(EXAMPLE)
    trees["items"][-1]["spec"]["metrics"][0].pop("resource")
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(trees))
    code, _, err = ask("hpa/web", "-n", "shop", state="bad.yaml")
    assert code == 65
    assert "not as kubectl prints it" in err


def test_metrics_of_containers_are_told_apart(ask, tmp_path):
    trees = yaml.safe_load(EXAMPLE)
    hpa = trees["items"][-1]

    def metric(container: str, percent: int) -> None:
        spec = {"name": "cpu", "container": container}
        target, current = {"type": "Utilization", "averageUtilization": 75}, {"averageUtilization": percent}
        kind = {"type": "ContainerResource"}
        hpa["spec"]["metrics"].append(kind | {"containerResource": spec | {"target": target}})
        hpa["status"]["currentMetrics"].append(kind | {"containerResource": spec | {"current": current}})

    hpa["spec"]["metrics"], hpa["status"]["currentMetrics"] = [], []
    metric("app", 81)
    metric("side", 20)
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(trees))
    _, out, _ = ask("hpa/web", "-n", "shop", state="two.yaml")
    assert "app/cpu is 81 %" in out
    assert "side/cpu at 83 % (it is 20 %)" in out
    _, out, _ = ask("hpa/web", "-n", "shop", "--at", "side/cpu=90", state="two.yaml")
    assert "side/cpu is 90 %" in out
    assert "app/cpu is 81 %" in out
    _, out, _ = ask("hpa/web", "-n", "shop", "--at", "cpu=90", state="two.yaml")
    assert "ContainerResource side/cpu is 90 %" in out
    assert "ContainerResource app/cpu is 90 %" in out


def test_an_hpa_of_the_old_version_is_no_answer(ask, tmp_path):
    """Its metrics are in annotations and in a field of their own: read as a new one it would look at the default."""
    trees = yaml.safe_load(EXAMPLE)
    trees["items"][-1]["apiVersion"] = "autoscaling/v1"
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(trees))
    code, _, err = ask("hpa/web", "-n", "shop", state="old.yaml")
    assert code == 2
    assert "kubectl get hpa.v2.autoscaling web -n shop -o yaml" in err


def test_an_hpa_that_has_not_looked_yet_says_what_helps(ask, tmp_path):
    trees = yaml.safe_load(EXAMPLE)
    del trees["items"][-1]["status"]
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(trees))
    code, _, err = ask("hpa/web", "-n", "shop", state="new.yaml")
    assert code == 2
    assert "neither among the objects nor in the HPA's status; add podmetrics (kubectl get podmetrics" in err


def test_flags_of_the_controller_are_read_from_its_pod(ask, tmp_path):
    trees = yaml.safe_load(EXAMPLE)
    command = ["kube-controller-manager", "--leader-elect=true", "--horizontal-pod-autoscaler-tolerance=0.05"]
    metadata = {"name": "kcm", "namespace": "kube-system", "labels": {"component": "kube-controller-manager"}}
    container = {"name": "kube-controller-manager", "command": command}
    trees["items"].append(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    )
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(trees))
    assert ask("hpa/web", "-n", "shop", "--at", "cpu=81", state="more.yaml")[0] == 0
