"""Rule 10 where what pends is not on the object that is asked about. ``tests/simulate`` searches for the rest."""

from __future__ import annotations

from dataclasses import replace

from extauthz.core.model import Verdict, WorkloadRef
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, quota, scale, workload

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


def test_over_a_limit_that_was_cut_an_object_that_is_not_there_yet_is_not_raised_either():
    """A larger count that pends at another gate, from before the object was deleted, is no licence."""
    first = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 3)))
    assert first(scale("web", 5)).verdict is Verdict.ALLOW
    first.gate.observe(WEB, None)
    assert first(create(workload("web", 2))).verdict is Verdict.ALLOW
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})]))
    for ref, pending_write in first.gate.ledger.pending:
        ask.gate.ledger.adopt(ref, replace(pending_write, id=f"first-{pending_write.id}"))
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "2"})]), 0.0)
    assert ask(scale("web", 4)).reason == "exceeded-quota"
    assert ask(scale("web", 0)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "9"})]), 0.0)
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW


def test_over_a_limit_that_was_cut_what_pends_on_a_replica_set_is_no_licence_for_its_deployment():
    """Seed 710689186."""
    labels = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    sets = [workload(name, count, kind="ReplicaSet", **labels) for name, count in (("web-1", 2), ("web-2", 0))]
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 2), *sets))
    assert ask(scale("web-2", 2, resource="replicasets")).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "2"})]), 0.0)
    assert ask(scale("web", 3)).reason == "exceeded-quota", "of the four one is a surge, which is not charged"
    assert ask(scale("web", 1)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "9"})]), 0.0)
    assert ask(scale("web", 3)).verdict is Verdict.ALLOW


def test_over_a_limit_that_was_cut_what_pends_on_a_deployment_is_no_licence_for_its_replica_set():
    labels = {"labels": {"app": "web"}, "ownerReferences": owned_by("web")}
    set_of_two = workload("web-1", 2, kind="ReplicaSet", **labels)
    ask = Asker(gate([quota("acme", {"requests.cpu": "9"})], workload("web", 2), set_of_two))
    assert ask(scale("web", 4)).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", {"requests.cpu": "3"})]), 0.0)
    assert ask(scale("web-1", 4, resource="replicasets")).reason == "exceeded-quota"
    assert ask(scale("web-1", 1, resource="replicasets")).verdict is Verdict.ALLOW
