"""What the doctor says of a cluster: version, definitions, rights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extauthz.core.quota.spec import API_VERSION, KIND, WorkspaceQuota, parse
from extauthz.inputs.kube.connection import ApiError
from extauthz.inputs.kube.reviews import Target
from extauthz.tools.doctor import chart, cluster, table, webhook
from extauthz.tools.doctor.cluster import APPLY, RIGHTS
from extauthz.tools.doctor.examine import Examination, Options
from extauthz.tools.doctor.table import Row, Verdict
from tests.support.kubecalls import ScriptedApi

DEPLOY = Path(__file__).parents[3] / "deploy"
MINOR = {"major": "1", "gitVersion": "v1"}


def definition(name: str, *served: str, established: str = "True"):
    versions = [{"name": each, "served": True} for each in served]
    status = {"conditions": [{"type": "Established", "status": established}]}
    return {"metadata": {"name": name}, "spec": {"versions": versions}, "status": status}


THERE = {name: definition(name, table.VERSION) for name in table.DEFINITIONS}


def test_the_rights_are_those_that_deploy_grants():
    documents = yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text())
    (role,) = [each for each in documents if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "extauthz"]
    granted = {
        Target(group, resource, verb=verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == set(RIGHTS)


def test_the_definitions_are_those_that_deploy_installs():
    for file, name in zip(("crd.yaml", "ledger-crd.yaml"), table.DEFINITIONS, strict=True):
        tree = yaml.safe_load((DEPLOY / file).read_text())
        assert tree["metadata"]["name"] == name
        assert [each["name"] for each in tree["spec"]["versions"] if each["served"]] == [table.VERSION]


@pytest.mark.parametrize(
    ("minor", "verdict"),
    [("36", "ok"), ("30+", "ok"), ("29", "fail"), ("", "warn")],
    ids=["new", "plus", "old", "none"],
)
def test_a_server_older_than_what_the_docs_say_fails(minor: str, verdict: str):
    assert cluster.version(MINOR | {"minor": minor}).verdict == verdict


def test_definitions_of_this_version_that_are_established_are_well():
    assert cluster.definitions_row(THERE).verdict is Verdict.OK


WRONG = {
    "missing": ({}, "workspaceledgers.extauthz.dev is not there"),
    "of-another-version": ({"workspaceledgers.extauthz.dev": definition("x", "v9")}, "is served as v9, not v1alpha1"),
    "not-established": (
        {"workspaceledgers.extauthz.dev": definition("x", "v1alpha1", established="False")},
        "is not established",
    ),
}


@pytest.mark.parametrize(("other", "sentence"), WRONG.values(), ids=WRONG)
def test_a_definition_that_is_not_ours_or_not_in_force_fails(other, sentence: str):
    row = cluster.definitions_row({"workspacequotas.extauthz.dev": THERE["workspacequotas.extauthz.dev"]} | other)
    assert row.verdict is Verdict.FAIL
    assert sentence in row.found


@pytest.mark.parametrize("missing", RIGHTS, ids=str)
def test_each_right_that_is_missing_is_named(missing: Target):
    row = cluster.rights_row("it", {right: right != missing for right in RIGHTS}, whole=True)
    assert row.verdict is Verdict.FAIL
    assert str(missing) in row.found


def test_rights_of_the_one_who_asks_are_not_taken_for_the_gates():
    everything = dict.fromkeys(RIGHTS, True)
    assert cluster.rights_row("the account", everything, whole=True).verdict is Verdict.OK
    assert cluster.rights_row("the user", everything, whole=False).verdict is Verdict.WARN


def quota(name: str, **selector: str) -> WorkspaceQuota:
    spec: Any = {"hard": {"pods": "1"}} | ({"namespaceSelector": {"matchLabels": selector}} if selector else {})
    return parse({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec})


LABELS = {"shop": {"workspace": "acme"}, "lab": {"workspace": "acmee"}, "team": {"workspace": "a", "team": "a"}}


@pytest.mark.parametrize(
    ("quotas", "strays"),
    [
        pytest.param([quota("acme")], "lab (workspace=acmee), team (workspace=a)", id="by-its-name"),
        pytest.param([quota("acme"), quota("by-team", team="a")], "lab (workspace=acmee)", id="another-covers-it"),
        pytest.param([quota("by-team", team="a")], "", id="nobody-looks-at-that-label"),
        pytest.param([], "", id="no-quotas"),
    ],
)
def test_a_label_that_no_quota_covers_is_a_warning(quotas, strays: str):
    row = cluster.labels_row(quotas, LABELS)
    assert row.verdict is (Verdict.WARN if strays else Verdict.OK)
    assert strays in row.found


async def test_all_pages_of_quotas_and_namespaces_are_read(monkeypatch: pytest.MonkeyPatch):
    """A namespace whose quota is on the next page is covered."""

    class Paged:
        async def call(self, method: str, path: str, *, query: Any, **_: Any) -> Any:
            at = int(dict(query).get("continue", 0))
            items = [{"metadata": {"name": f"n{at}", "labels": {"workspace": f"w{at}"}}, "spec": {"hard": {}}}]
            return {"items": items, "metadata": {"continue": str(at + 1)} if at < 2 else {}}

    assert list(await cluster.namespaces(Paged())) == ["n0", "n1", "n2"]


HELM = {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {cluster.RELEASE: "quota-gate"}}


@pytest.mark.parametrize(("metadata", "found"), [(HELM, "quota-gate"), ({}, None), (None, None)])
async def test_a_release_of_the_chart_is_known_by_what_helm_writes(metadata, found: str | None):
    api = ScriptedApi(["/apis/apps/v1/namespaces/gates/deployments"])
    if metadata is not None:
        api.put("/apis/apps/v1/namespaces/gates/deployments/extauthz", {"metadata": {"name": "extauthz", **metadata}})
    assert await cluster.release(api, "gates") == found


def test_a_gate_that_the_chart_installed_is_cured_by_values_of_its_release():
    rows = [table.fail("webhook clamp", "no", webhook.LOWER), table.fail("rights", "no", APPLY), table.ok("a", "b")]
    upgrade = "helm upgrade quota-gate charts/extauthz -n gates --reuse-values"
    assert [row.cure for row in chart.cured(rows, "quota-gate", "gates")] == [
        f"{upgrade} --set webhook.clamp=true",
        upgrade,
        "",
    ]


def test_each_value_of_a_cure_is_one_of_the_chart():
    values = yaml.safe_load((DEPLOY.parent / "charts/extauthz/values.yaml").read_text())
    named = re.findall(r"(?<=[ ,'])([a-z]+)\.([a-zA-Z]+)=", " ".join(chart._VALUES.values()))
    assert named
    assert [name for room, name in named if name not in values[room]] == []


async def test_of_no_cluster_nothing_is_said():
    rows = await Examination(Options(), None, None, None, None).rows()
    assert {row.verdict for row in rows} == {Verdict.SKIPPED}
    assert [row.cure for row in rows if row.name in cluster.NAMES] == ["--kubeconfig"] * 4


async def test_what_an_owner_may_not_see_is_skipped_and_no_fault_of_the_cluster():
    async def look(_: object) -> Row:
        raise ApiError(403, "Forbidden", "deployments is forbidden")

    async def silent(_: object) -> Row:
        raise ApiError(500, "InternalError", "etcd is away")

    one = Examination(Options(), None, ScriptedApi(), None, None)
    (hidden,), (broken,) = await one._asked(["webhook"], look), await one._asked(["webhook"], silent)
    assert (hidden.verdict, broken.verdict) == (Verdict.SKIPPED, Verdict.FAIL)
    nothing = dict.fromkeys(RIGHTS, False)
    assert cluster.rights_row("the user", nothing, whole=False).verdict is Verdict.SKIPPED
    assert cluster.rights_row("the account", nothing, whole=True).verdict is Verdict.FAIL
