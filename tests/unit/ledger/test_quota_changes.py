"""Quotas that change under workloads and intents: what is counted is what would be, had they been so from the start."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import pytest

from extauthz.core.ledger.coverage import changed as changed_trees
from extauthz.core.ledger.entry import Event
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.model import Verdict
from extauthz.core.objects.workloads import observe
from extauthz.core.queries import Queries
from extauthz.core.quota.problems import standing
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.tell.observe.quota_status import Facts, status_of
from extauthz.testing import Asker, gate, owned_by, patch, path, pod, put_scale, quota, scale, workload

CORP = quota("corp", {"requests.cpu": "50", "pods": "50"}, namespaces=None)
ACME = quota("acme", {"requests.cpu": "10"}, namespaces={}, parent="corp")
PAID = quota("paid", {"pods": "10"}, namespaces={}, workloads={"tier": "paid"})
BEFORE = (CORP, ACME, PAID)


def limited(which: WorkspaceQuota, hard: dict[str, str]) -> WorkspaceQuota:
    return replace(which, hard=quota("any", hard).hard)


LIMITS_ALONE = {
    "a raised limit": (CORP, limited(ACME, {"requests.cpu": "20"}), PAID),
    "a cut below what is used": (CORP, limited(ACME, {"requests.cpu": "1"}), PAID),
    "limits of several, told in another order": (
        limited(PAID, {"pods": "20"}),
        limited(ACME, {"requests.cpu": "20"}),
        CORP,
    ),
}
MORE = {
    "another key": (CORP, limited(ACME, {"requests.cpu": "20", "pods": "9"}), PAID),
    "a key less": (limited(CORP, {"pods": "50"}), ACME, PAID),
    "other namespaces": (CORP, quota("acme", {"requests.cpu": "10"}, parent="corp"), PAID),
    "no namespaces": (CORP, replace(ACME, namespace_selector=None), PAID),
    "other workloads": (CORP, ACME, replace(PAID, workload_selector=None)),
    "another parent": (CORP, ACME, replace(PAID, parent="acme")),
    "no parent": (CORP, replace(ACME, parent=None), PAID),
    "another mode": (CORP, quota("acme", {"requests.cpu": "10"}, namespaces={}, parent="corp", mode="Audit"), PAID),
    "another name": (CORP, ACME, replace(PAID, name="dear")),
    "one more": (*BEFORE, quota("more", {"pods": "4"}, namespaces={})),
    "one less": (CORP, ACME),
}


OBJECTS = (
    workload("web", 3),
    workload("api", 2, labels={"tier": "paid"}),
    workload("idle", 1),
    workload("idle-0", 1, kind="ReplicaSet", ownerReferences=owned_by("idle")),
)


def busy(quotas: Sequence[WorkspaceQuota]) -> Ledger:
    """One workload grows, and one may come to be covered by fewer quotas."""
    ask = Asker(gate(quotas, *OBJECTS))
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW
    assert ask(patch(path("api"), {"metadata": {"labels": {"tier": "free"}}})).verdict is Verdict.ALLOW
    return ask.gate.ledger


def books(ledger: Ledger) -> list[tuple[object, ...]]:
    assert ledger.drift() == {}
    return [(one.node.quota, *one[1:]) for one in Queries(ledger).quotas()]


@pytest.mark.parametrize("after", [*LIMITS_ALONE.values(), *MORE.values()], ids=[*LIMITS_ALONE, *MORE])
def test_everything_is_counted_as_if_the_quotas_had_always_been_so(after: Sequence[WorkspaceQuota]):
    changed, new = busy(BEFORE), gate(after, *OBJECTS).ledger
    for ref, pending_write in changed.pending:
        new.adopt(ref, copy(pending_write))
    changed.usage.set_tree(QuotaTree.build(after))
    assert books(changed) == books(new)
    for ledger in (changed, new):
        for _, pending_write in list(ledger.pending):
            ledger.pending.settle(pending_write.id, Event.REFUSED, 1.0)
    assert books(changed) == books(new), "what is kept of positions under the old quotas is not taken off the new ones"


@pytest.mark.parametrize("after", LIMITS_ALONE.values(), ids=LIMITS_ALONE)
def test_where_limits_alone_change_nothing_is_counted_anew(after: Sequence[WorkspaceQuota]):
    assert not changed_trees(QuotaTree.build(BEFORE), QuotaTree.build(after))


@pytest.mark.parametrize("after", MORE.values(), ids=MORE)
def test_where_more_changes_the_trees_of_it_are(after: Sequence[WorkspaceQuota]):
    assert changed_trees(QuotaTree.build(BEFORE), QuotaTree.build(after))


OBJECT = {"metadata": {"name": "acme", "uid": "u", "generation": 2}}


@pytest.fixture
def cut() -> Asker:
    """8 CPU in use, 2 more allowed, and a limit that goes from 10 to 4."""
    asking = Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 8), workload("api", 0)))
    assert asking(scale("web", 10)).verdict is Verdict.ALLOW
    limit(asking, "4")
    return asking


def limit(asking: Asker, cpu: str) -> None:
    asking.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": cpu, "pods": "50"})]), 1.0)


def within_hard(asking: Asker) -> tuple[str, str]:
    facts = Facts(standing(OBJECT, 2), rows=tuple(asking.gate.usage()))
    found = {one["type"]: one for one in status_of(facts, "2026-01-01T00:00:00Z")["conditions"]}
    return found["WithinHard"]["reason"], found["WithinHard"]["message"]


@pytest.mark.parametrize("replicas", [0, 1, 7, 8])
def test_less_and_as_much_pass_still_over_the_limit_or_not(cut: Asker, replicas: int):
    assert cut(scale("web", replicas)).verdict is Verdict.ALLOW
    assert cut(put_scale("web", replicas, version="1")).verdict is Verdict.ALLOW


@pytest.mark.parametrize("replicas", [9, 10])
def test_what_was_allowed_before_the_cut_is_no_licence_to_grow_back(cut: Asker, replicas: int):
    assert cut(scale("web", replicas)).verdict is Verdict.DENY


def test_a_cheaper_template_passes_and_a_dearer_one_does_not(cut: Asker):
    def template(cpu: str):
        return patch(path("web"), {"spec": {"template": pod({"cpu": cpu})}}, "merge")

    cheaper = cut(template("500m"))
    assert cheaper.verdict is Verdict.ALLOW
    cut.gate.ledger.pending.settle(cheaper.id, Event.REFUSED, 2.0)
    assert cut(template("2")).verdict is Verdict.DENY


def test_a_condition_says_so_and_that_shrinking_passes_until_it_is_over(cut: Asker):
    reason, message = within_hard(cut)
    assert reason == "OverLimit"
    assert message == "requests.cpu: used 8, hard 4; nothing that needs more of it may grow, shrinking may always"
    cut.gate.observe(*observe(workload("web", 4, version="2")))
    assert within_hard(cut)[0] == "WithinHard"


def test_a_limit_of_nothing_is_a_limit():
    asking = Asker(gate([quota("acme", {"requests.cpu": "10"})], workload("web", 3)))
    limit(asking, "0")
    assert asking(scale("web", 4)).verdict is Verdict.DENY
    assert [asking(scale("web", count)).verdict for count in (3, 2, 0)] == [Verdict.ALLOW] * 3
    assert within_hard(asking)[0] == "OverLimit"
