"""Who writes the count of a workload beside its HPA."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extauthz.tools.doctor import appliers
from extauthz.tools.doctor.appliers import Scaled
from extauthz.tools.doctor.table import Verdict

Tree = Any


def deployment(name: str = "web", kind: str = "Deployment", **metadata: Tree) -> Tree:
    return {"kind": kind, "metadata": {"namespace": "shop", "name": name, **metadata}}


def hpa(name: str = "web", kind: str = "Deployment", namespace: str = "shop") -> Tree:
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"scaleTargetRef": {"kind": kind, "name": name}},
    }


def owned(manager: str, operation: str = "Apply", field: str = "f:replicas") -> Tree:
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {field: {}}}}


def last_applied(text: str) -> Tree:
    return {"annotations": {appliers.LAST_APPLIED: text}}


CASES = {
    "flux": ({"managedFields": [owned("kustomize-controller")]}, ["kustomize-controller"]),
    "the-hpa": ({"managedFields": [owned("kube-controller-manager", "Update")]}, []),
    "another-field": ({"managedFields": [owned("argocd-controller", field="f:template")]}, []),
    "kubectl": (last_applied(json.dumps({"spec": {"replicas": 2}})), ["a client-side apply"]),
    "without-a-count": (last_applied(json.dumps({"spec": {"template": {}}})), []),
    "no-json": (last_applied("{"), []),
    "odd": (last_applied('{"spec": 3}'), []),
    "nothing": ({}, []),
    "no-fields": ({"managedFields": [{"manager": "x", "operation": "Apply"}]}, []),
}


@pytest.mark.parametrize(("metadata", "who"), CASES.values(), ids=CASES)
def test_who_applies_the_count(metadata: Tree, who: list[str]):
    assert appliers.appliers(deployment(**metadata)) == who


def test_only_the_workload_that_an_hpa_targets_is_looked_at():
    both = [deployment(), deployment("db", "StatefulSet"), deployment("other")]
    asked = [hpa(), hpa("db", "StatefulSet"), hpa(namespace="elsewhere"), hpa("roll", "Rollout")]
    assert [(each.workload["metadata"]["name"], each.hpa) for each in appliers.paired(asked, both)] == [
        ("web", "web"),
        ("db", "db"),
    ]


def test_an_applier_beside_an_hpa_is_a_warning_that_names_both_and_the_cure():
    applied = deployment(managedFields=[owned("argocd-controller")])
    told = appliers.row([Scaled(applied, "web"), Scaled(deployment("db"), "db")])
    assert (told.verdict, told.found) == (
        Verdict.WARN,
        "spec.replicas: argocd-controller and hpa/web both write shop/web",
    )
    assert "docs/gitops.md" in told.cure


def test_without_one_it_is_ok_and_many_are_counted():
    assert appliers.row([Scaled(deployment(), "web")]).verdict is Verdict.OK
    many = [Scaled(deployment(str(n), managedFields=[owned("flux")]), str(n)) for n in range(7)]
    assert appliers.row(many).found.endswith("hpa/4 both write shop/4 and 2 more")
