"""``extauthz render webhook``: what is printed, and what is refused. A real API server judges the rules elsewhere
(``tests/controlplane/test_webhook_rules.py``)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from tests.support.certs import Authority


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["render", "webhook", "--no-clamp", *words]) == 0
    (webhook,) = yaml.safe_load(capsys.readouterr().out)["webhooks"]
    return webhook


def test_by_default_it_leads_to_the_service_and_spares_what_the_gate_needs(capsys):
    webhook = rendered(capsys)
    service = {"name": "extauthz", "namespace": "extauthz-system", "port": 443, "path": "/validate"}
    assert webhook["clientConfig"] == {"service": service}
    spared, let_through = webhook["namespaceSelector"]["matchExpressions"]
    assert let_through == {"key": "extauthz.dev/break-glass", "operator": "DoesNotExist"}
    assert spared["values"] == ["kube-system", "extauthz-system"]
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Fail", 2, "NoneOnDryRun")


def test_every_kind_that_envoy_asks_about_is_in_the_rules_with_its_scale(capsys):
    asked = {
        (group, resource)
        for rule in rendered(capsys, "--custom", "rollouts.argoproj.io")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert asked == {
        *(
            ("apps", f"{plural}{sub}")
            for plural in ("deployments", "statefulsets", "replicasets")
            for sub in ("", "/scale")
        ),
        ("", "replicationcontrollers"),
        ("", "replicationcontrollers/scale"),
        ("", "pods/resize"),
        ("batch", "jobs"),
        ("apps", "statefulsets/status"),
        ("apps", "replicasets/status"),
        ("", "replicationcontrollers/status"),
        ("extauthz.dev", "workspaceledgers"),
        ("argoproj.io", "rollouts"),
        ("argoproj.io", "rollouts/scale"),
    }


def test_new_pods_are_asked_about_on_request_and_only_where_labels_say(capsys):
    rules = rendered(capsys, "--namespace-selector", "workspace", "--webhook-pods")["rules"]
    assert rules[-1] == {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
        "operations": ["CREATE"],
        "scope": "Namespaced",
    }
    assert main(["render", "webhook", "--webhook-pods"]) == 64
    assert "--webhook-pods needs --namespace-selector, such as workspace: while" in capsys.readouterr().err
    assert main(["render", "webhook", "--namespace-selector", "workspace", "--webhook-pods"]) == 0
    _, mutating = yaml.safe_load_all(capsys.readouterr().out)
    assert "pods" not in [resource for rule in mutating["webhooks"][0]["rules"] for resource in rule["resources"]]


def test_the_authority_the_place_and_namespaces_are_as_told(capsys, tmp_path: Path):
    ca = Authority(tmp_path).ca
    webhook = rendered(capsys, "--ca", str(ca), "--service", "gate.infra:8443", "--except-namespace", "monitoring")
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == ca.read_bytes()
    assert webhook["clientConfig"]["service"] == {
        "name": "gate",
        "namespace": "infra",
        "port": 8443,
        "path": "/validate",
    }
    assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "infra", "monitoring"]
    assert rendered(capsys, "--url", "https://10.0.0.1:9443")["clientConfig"] == {
        "url": "https://10.0.0.1:9443/validate"
    }


def test_by_default_the_count_is_asked_about_before_and_passes_where_nobody_answers(capsys):
    assert main(["render", "webhook", "--custom", "rollouts.argoproj.io"]) == 0
    validating, mutating = yaml.safe_load_all(capsys.readouterr().out)
    assert [one["kind"] for one in (validating, mutating)] == [
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    ]
    (decides,), (lowers,) = validating["webhooks"], mutating["webhooks"]
    assert lowers["clientConfig"]["service"]["path"] == "/mutate"
    assert (lowers["failurePolicy"], lowers["reinvocationPolicy"]) == ("Ignore", "IfNeeded")
    assert lowers["sideEffects"] == "NoneOnDryRun"
    assert lowers["namespaceSelector"] == decides["namespaceSelector"]
    resources = [rule["resources"] for rule in decides["rules"]]
    for others in (
        ["workspaceledgers"],
        ["pods/resize"],
        ["jobs"],
        ["statefulsets/status", "replicasets/status"],
        ["replicationcontrollers/status"],
    ):
        resources.remove(others)  # here is no count that could be lowered
    assert [rule["resources"] for rule in lowers["rules"]] == resources
    assert {tuple(rule["operations"]) for rule in lowers["rules"]} == {("UPDATE",)}
    assert [one["name"] for one in lowers["matchConditions"]] == [
        "not-by-a-controller",
        "not-by-the-garbage-collector",
        "asks-for-more-replicas",
    ]


def test_it_asks_only_about_what_it_is_told_to(capsys):
    scope = ("--namespace-selector", "workspace,tier in (b,a),zone=1", "--object-selector", "!legacy,by!=hand")
    assert main(["render", "webhook", *scope, "--match-condition", "not-by-ci=request.userInfo.username!='ci'"]) == 0
    for configuration in yaml.safe_load_all(capsys.readouterr().out):
        (webhook,) = configuration["webhooks"]
        assert webhook["namespaceSelector"] == {
            "matchLabels": {"zone": "1"},
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-system", "extauthz-system"],
                },
                {"key": "extauthz.dev/break-glass", "operator": "DoesNotExist"},
                {"key": "workspace", "operator": "Exists"},
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
            ],
        }
        assert webhook["objectSelector"] == {
            "matchExpressions": [
                {"key": "legacy", "operator": "DoesNotExist"},
                {"key": "by", "operator": "NotIn", "values": ["hand"]},
            ]
        }
        assert webhook["matchConditions"][-1] == {"name": "not-by-ci", "expression": "request.userInfo.username!='ci'"}


ALL_LABELS = "object.?metadata.?labels != oldObject.?metadata.?labels"
OWNED_CHANGES_LABELS = (
    "oldObject.?metadata.?ownerReferences.hasValue() && oldObject.?metadata.?labels != object.?metadata.?labels"
)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), ALL_LABELS),
        (("--workload-labels", "tier"), "object.?metadata.?labels[?'tier'] != oldObject.?metadata.?labels[?'tier']"),
        (("--workload-labels", ""), OWNED_CHANGES_LABELS),
    ],
    ids=["any", "one", "none"],
)
def test_of_labels_those_are_compared_that_a_workload_may_be_selected_by(words, asked: str, capsys):
    (may_grow,) = [
        one["expression"] for one in rendered(capsys, *words)["matchConditions"] if one["name"] == "may-grow"
    ]
    assert f" || {asked} || " in may_grow
    assert (ALL_LABELS in may_grow) == (not words)
    assert (OWNED_CHANGES_LABELS in may_grow) == bool(words), "its owner may let go of it"


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("--ca", "/no/such/file"), "--ca: /no/such/file: No such file or directory"),
        (("--ca", "pyproject.toml"), "--ca: pyproject.toml holds no certificate in PEM"),
        (("--service", "gate"), "'gate' is no Service; write for example extauthz.extauthz-system:443"),
        (("--url", "http://gate"), "'http://gate' is not https://HOST:PORT, and an API server asks nothing else"),
        (("--namespace-selector", "a=b=c"), "'a=b=c' selects no labels; write for example workspace, or tier=paid"),
        (
            ("--object-selector", "tier=paid"),
            "'tier=paid': a Scale has no labels, so that no autoscaler would be asked",
        ),
        (("--match-condition", "true"), "'true' is no condition; write for example not-by-ci=request.userInfo"),
        (("--match-condition", "may-grow=true"), "'may-grow' is the name of a condition that is always there"),
        (("--workload-labels", "a b"), "'a b' is no list of keys of labels; write for example tier,example.com/team"),
        (("--custom", "rollouts"), "'rollouts' names no custom resource; write for example rollouts.argoproj.io"),
    ],
)
def test_what_is_wrong_names_the_cure(words, cure, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    try:
        code = main(["render", "webhook", *words])
    except SystemExit as end:
        code = end.code
    assert code == 64
    assert cure in capsys.readouterr().err
