"""``extauthz explain`` for Knative and KEDA: examples of internals/explain.md, exit codes, the JSON, a gate's word."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.explain.knative.sentence import REASONS

Tree = Any

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "explain.md").read_text()
FOLDER = Path(__file__).parents[2] / "examples" / "explain"
EXAMPLES = {name: (FOLDER / name).read_text() for name in ("hello.yaml", "worker.yaml")}
QUOTA = """\
apiVersion: extauthz.dev/v1alpha1
kind: WorkspaceQuota
metadata: {name: acme}
spec: {namespaceSelector: {matchLabels: {workspace: acme}}, hard: {requests.cpu: "3500m"}, mode: Enforce}
"""

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Of the examples of the page, changed or not."""
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "quotas.yaml").write_text(QUOTA)
    monkeypatch.chdir(tmp_path)

    def asked(*words: str, change: Callable[[list[Tree]], Any] | None = None) -> tuple[int, str, str]:
        for name, text in EXAMPLES.items():
            trees = yaml.safe_load(text)
            if change:
                change(trees["items"])
            (tmp_path / name).write_text(yaml.safe_dump(trees))
        state = [] if "--state" in words else ["--state", "hello.yaml", "--state", "worker.yaml"]
        code = main(["explain", *words, "-n", "shop", *state])
        out, err = capsys.readouterr()
        return code, out, err

    return asked


def of(items: list[Tree], kind: str, version: str = "") -> Tree:
    return next(
        (one for one in items if one["kind"] == kind and version in one["apiVersion"]), {"metadata": {}, "spec": {}}
    )


COMMANDS = re.findall(r"^```sh\n(extauthz explain .*--state (?:hello|worker).yaml.*)\n```", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_shows_what_the_command_prints(ask, command):
    _, out, _ = ask(*[word for word in command.split()[2:] if word not in ("-n", "shop")])
    shown = re.search(rf"^```sh\n{re.escape(command)}\n```\n\n```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert out == shown[1]


def test_both_examples_are_on_the_page():
    assert {word for command in COMMANDS for word in command.split() if word.endswith(".yaml")} == set(EXAMPLES)


@pytest.mark.parametrize(
    ("words", "code", "desired"),
    [
        (["kpa/hello-00001"], 1, 3),
        (["podautoscaler/hello-00001", "--at", "concurrency=250"], 1, 3),
        (["kpa/hello-00001", "--at", "concurrency=130"], 0, 2),
        (["kpa/hello-00001", "--at", "stable=130"], 0, 2),
        (["kpa/hello-00001", "--at", "stable=0", "--at", "panic=450"], 1, 3),
        (["kpa/hello-00001", "--at", "concurrency=1", "--at", "panic=450"], 1, 3),
        (["kpa/hello-00001", "--at", "panic=210", "--at", "panic-mode=1"], 0, 3),
        (["deploy/hello-00001-deployment", "--at", "concurrency=10", "--at", "panic-mode=0"], 0, 1),
        (["scaledobject/worker"], 0, 6),
        (["so/worker", "--at", "s0-kafka-orders=70"], 0, 9),
        (["deploy/worker", "--at", "s0-kafka-orders=70"], 0, 9),
        (["hpa/keda-hpa-worker", "--at", "s0-kafka-orders=70"], 0, 9),
    ],
)
def test_what_if(ask, words, code, desired):
    found, out, err = ask(*words, "-o", "json")
    assert (found, json.loads(out or err)["desiredReplicas"]) == (code, desired)


def test_a_service_is_all_its_revisions(ask):
    code, out, _ = ask("ksvc/hello", "-o", "json")
    found = json.loads(out)
    assert (code, found["held"]) == (1, True)
    assert [(one["revision"], one["role"], one["kpa"]) for one in found["revisions"]] == [
        ("hello-00001", "100 % of the traffic", "hello-00001")
    ]
    assert "ksvc/hello has 1 revision that matters now." in ask("ksvc/hello")[1]

    def newer(items: list[Tree]) -> None:
        if status := of(items, "Service", "serving").get("status"):
            status["latestCreatedRevisionName"] = "hello-00002"

    code, _, err = ask("ksvc/hello", change=newer)
    assert code == 2
    assert "there is no kpa/hello-00002 in namespace shop" in err


def test_what_a_service_says_itself_comes_before_its_revisions(ask):
    failed = {
        "type": "Ready",
        "status": "False",
        "reason": "RevisionFailed",
        "message": "Initial scale was never achieved",
    }

    def said(items: list[Tree]) -> None:
        if (service := of(items, "Service", "serving")).get("status"):
            service["status"]["conditions"] = [failed]

    text = "Ready is False, when it last looked: RevisionFailed: Initial scale was never achieved."
    found = json.loads(ask("ksvc/hello", "-o", "json", change=said)[1])
    assert found["sentence"].startswith(f"ksvc/hello: {text} hello-00001")
    assert text in " ".join(ask("ksvc/hello", change=said)[1].partition("hello-00001")[0].split())


def test_a_workload_of_keda_is_explained_by_keda_before_its_hpa(ask):
    found = json.loads(ask("deploy/worker", "-o", "json")[1])
    assert (found["scaledObject"], found["hpa"]) == ("worker", "keda-hpa-worker")


def test_the_service_of_the_core_that_has_the_same_name_is_another_one(ask):
    def both(items: list[Tree]) -> None:
        core = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hello", "namespace": "shop"}}
        items.insert(0, core | {"spec": {"type": "ExternalName"}})

    assert ask("ksvc/hello", change=both)[0] == 1


def test_a_service_without_a_revision_says_why(ask):
    ready = {"type": "Ready", "status": "False", "reason": "RevisionMissing", "message": "no such image"}
    code, _, err = ask(
        "ksvc/hello", change=lambda items: of(items, "Service", "serving").update(status={"conditions": [ready]})
    )
    assert code == 2
    assert "ksvc/hello has no revision yet (RevisionMissing: no such image)" in err


def annotate(kind: str, **notes: str) -> Callable[[list[Tree]], None]:
    names = {name.replace("__", "/").replace("_", "-"): value for name, value in notes.items()}
    return lambda items: of(items, kind)["metadata"].setdefault("annotations", {}).update(names)


def test_the_quota_has_the_last_word(ask):
    wider = annotate("PodAutoscaler", **{"autoscaling.knative.dev__max_scale": "20"})
    words = ("kpa/hello-00001", "--at", "concurrency=550", "--quotas", "quotas.yaml")
    state = ("--state", "hello.yaml")
    code, out, _ = ask(*words, *state, "-o", "json", change=wider)
    found = json.loads(out)
    assert (code, found["desiredReplicas"], found["quota"]["asked"]) == (1, 8, 8)
    assert found["sentence"].endswith(
        "The quota does not allow it: 7 of the 20 replicas that it may ask for would fit."
    )
    assert "what the quota says to 8 replicas" in ask(*words, *state, change=wider)[1]
    assert json.loads(ask(*words, "--at", "stable=450", *state, "-o", "json", change=wider)[1])["held"] is True
    words = ("kpa/hello-00001", "--at", "concurrency=450", "--quotas", "quotas.yaml")
    assert ask(*words, *state, change=wider)[0] == 0


def test_the_quota_is_asked_for_what_keda_wants(ask):
    def starved(items: list[Tree]) -> None:
        if of(items, "ScaledObject")["metadata"]:
            of(items, "Deployment")["spec"]["replicas"] = 0
            of(items, "ScaledObject")["spec"]["minReplicaCount"] = 9

    words = ("scaledobject/worker", "--state", "worker.yaml", "--state", "hello.yaml", "--quotas", "quotas.yaml")
    code, out, _ = ask(*words, "-o", "json", change=starved)
    found = json.loads(out)
    assert (code, found["desiredReplicas"], found["quota"]["asked"], found["hpa"]) == (1, 9, 9, None)
    assert "The quota does not allow it: 4 of the 20 replicas that it may ask for would fit." in found["sentence"]


def test_a_pause_is_told_first(ask):
    code, out, _ = ask("scaledobject/worker", change=annotate("ScaledObject", **{"autoscaling.keda.sh__paused": ""}))
    assert code == 1
    assert out.startswith("scaledobject/worker stays at 6 replicas: it is paused (annotation")


@pytest.mark.parametrize("what", ["kpa/x", "ksvc/x", "scaledobject/x", "hpa/x"])
def test_what_is_not_there_is_named_with_what_to_run(ask, what):
    code, _, err = ask(what)
    assert code == 2
    assert f"there is no {what} in namespace shop" in err
    assert "kubectl get" in err


def test_an_hpa_of_keda_that_is_missing_is_named(ask):
    code, _, err = ask(
        "scaledobject/worker", change=lambda items: of(items, "HorizontalPodAutoscaler")["metadata"].update(name="o")
    )
    assert code == 2
    assert "KEDA leaves scaledobject/worker to the HPA that it makes, but there is no hpa/keda-hpa-worker" in err


def test_a_podautoscaler_of_the_class_hpa_is_explained_by_its_hpa(ask):
    of_hpa = annotate("PodAutoscaler", **{"autoscaling.knative.dev__class": "hpa.autoscaling.knative.dev"})
    code, _, err = ask("kpa/hello-00001", change=of_hpa)
    assert code == 2
    assert "is of the class hpa, for which Knative makes an HPA, but there is no hpa/hello-00001" in err

    def with_hpa(items: list[Tree]) -> None:
        of_hpa(items)
        hpa = of(items, "HorizontalPodAutoscaler")
        hpa["metadata"]["name"] = "hello-00001"

    found = json.loads(ask("kpa/hello-00001", "-o", "json", change=with_hpa)[1])
    assert (found["kpa"], found["hpa"]) == ("hello-00001", "hello-00001")
    other = annotate("PodAutoscaler", **{"autoscaling.knative.dev__class": "mine.example.dev"})
    assert "is of the class mine.example.dev" in ask("kpa/hello-00001", change=other)[2]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--at", "cpu=3"], "kpa/hello-00001 has concurrency (both windows), stable, panic, panic-mode"),
        (["--at", "concurrency=much"], "write for example concurrency=150"),
        (["--at", "panic-mode=2"], "write for example"),
        (["--at", "panic-mode=1"], "say also concurrency=N"),
        (["--controller", "sync-period=5s"], "--controller is for HPAs; kpa/hello-00001 knows nothing of it"),
    ],
)
def test_wrong_usage(ask, words, why):
    code, _, err = ask("kpa/hello-00001", *words)
    assert code == 64
    assert why in err


def test_every_outcome_of_knative_is_on_the_page():
    table = PAGE.partition("## Knative")[2].partition("\n## ")[0].partition("Outcomes:\n")[2]
    rows = [re.findall(r"`([\w-]+)`", row.partition(": ")[0]) for row in re.findall(r"^- (.*)$", table, re.MULTILINE)]
    assert {name for row in rows for name in row} == {*REASONS, "scales-up", "scales-down", "refused"}
