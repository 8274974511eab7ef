"""``extauthz render webhook``: what is printed, and what is refused. A real API server judges the rules elsewhere
(``tests/controlplane/test_webhook_rules.py``)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.cli import main
from extauthz.testing.certs import Authority


def rendered(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["render", "webhook", *words]) == 0
    (webhook,) = yaml.safe_load(capsys.readouterr().out)["webhooks"]
    return webhook


def test_by_default_it_leads_to_the_service_and_spares_what_the_gate_needs(capsys):
    webhook = rendered(capsys)
    service = {"name": "extauthz", "namespace": "extauthz-system", "port": 443, "path": "/validate"}
    assert webhook["clientConfig"] == {"service": service}
    (spared,) = webhook["namespaceSelector"]["matchExpressions"]
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
        ("argoproj.io", "rollouts/scale"),
    }


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


def test_with_clamp_the_count_is_asked_about_before_and_passes_where_nobody_answers(capsys):
    assert main(["render", "webhook", "--clamp", "--custom", "rollouts.argoproj.io"]) == 0
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
    assert [rule["resources"] for rule in lowers["rules"]] == [rule["resources"] for rule in decides["rules"]]
    assert {tuple(rule["operations"]) for rule in lowers["rules"]} == {("UPDATE",)}
    assert [one["name"] for one in lowers["matchConditions"]] == [
        "not-by-a-controller",
        "not-by-the-garbage-collector",
        "asks-for-more-replicas",
    ]


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("--ca", "/no/such/file"), "--ca: /no/such/file: No such file or directory"),
        (("--ca", "pyproject.toml"), "--ca: pyproject.toml holds no certificate in PEM"),
        (("--service", "gate"), "'gate' is no Service; write for example extauthz.extauthz-system:443"),
        (("--url", "http://gate"), "'http://gate': an API server asks https://HOST:PORT alone"),
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
