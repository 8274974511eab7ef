"""How many workloads every quota covers."""

from __future__ import annotations

import pytest

from extauthz.core.decision.gate import Gate
from extauthz.core.model import Observed, Verdict, WorkloadRef
from extauthz.core.queries import Queries
from extauthz.testing import Asker, gate, owned_by, patch, path, quota, scale, workload

ACME = quota("acme", {"pods": "10"}, parent="corp")
CORP = quota("corp", {"requests.cpu": "10"}, namespaces={"no": "where"})
CREW = workload("web-1", 1, kind="ReplicaSet", labels={"app": "web"}, ownerReferences=owned_by("web"))
WEB = quota("web", {"pods": "5"}, namespaces={"workspace": "acme"}, workloads={"app": "web"})


def covered(asked: Gate) -> dict[str, int]:
    return {one.node.quota.name: one.workloads for one in Queries(asked.ledger).quotas()}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ((), {"acme": 0, "corp": 0, "web": 0}),
        ((workload("web"), workload("api")), {"acme": 2, "corp": 2, "web": 1}),
        ((workload("web", 0),), {"acme": 1, "corp": 1, "web": 1}),
        ((workload("web"), CREW), {"acme": 1, "corp": 1, "web": 1}),
        ((workload("web", namespace="elsewhere"),), {"acme": 0, "corp": 0, "web": 0}),
    ],
    ids=["nothing", "some by label", "without replicas", "with its ReplicaSet", "in another namespace"],
)  # fmt: skip
def test_a_quota_covers_what_it_selects_and_what_its_children_cover(objects, expected):
    assert covered(gate([ACME, CORP, WEB], *objects)) == expected


def test_workloads_of_unknown_cost_are_counted_apart():
    asked = gate([ACME, CORP], workload("web"))
    gadget = WorkloadRef("example.dev", "gadgets", "team-a", "gizmo")
    asked.observe(gadget, Observed(2, None))
    assert {one.node.quota.name: (one.workloads, one.unpriced) for one in Queries(asked.ledger).quotas()} == {
        "acme": (2, 1),
        "corp": (2, 1),
    }
    asked.observe(gadget, None)
    assert {one.unpriced for one in Queries(asked.ledger).quotas()} == {0}


def test_a_namespace_that_is_relabelled_brings_what_quotas_select_by_label_under_another_quota():
    crowd = quota("crowd", {"pods": "5"}, namespaces={"workspace": "other"}, workloads={"app": "web"})
    asked = gate([WEB, crowd], workload("web", 2))
    assert covered(asked) == {"crowd": 0, "web": 1}
    asked.observe_namespace("team-a", {"workspace": "other"})
    assert covered(asked) == {"crowd": 1, "web": 0}


def test_a_relabel_takes_nothing_anew_of_what_a_pending_count_has_reserved():
    cpus = quota("cpus", {"requests.cpu": "4"}, namespaces={"workspace": "acme"})
    night = quota("night", {"requests.cpu": "9"}, namespaces={"workspace": "acme"}, workloads={"night": "yes"})
    ask = Asker(gate([cpus, night], workload()))
    assert ask(scale(replicas=4)).verdict is Verdict.ALLOW
    relabel = {"metadata": {"labels": {"night": "yes"}}, "spec": {"replicas": 4}}
    assert ask(patch(path(), relabel)).verdict is Verdict.ALLOW, "its 4 are reserved already"
