"""Quotas that change under workloads and intents: what is counted is what would be, had they been so from the start."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import pytest

from extauthz.core.ledger.accounts import Accounts
from extauthz.core.ledger.ledger import Ledger
from extauthz.core.ledger.pending_write import Event
from extauthz.core.model import Verdict
from extauthz.core.queries import Queries
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing.builders import Asker, gate, owned_by, patch, path, quota, scale, workload

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
    assert Accounts(QuotaTree.build(BEFORE)).under(QuotaTree.build(after)) is not None


@pytest.mark.parametrize("after", MORE.values(), ids=MORE)
def test_where_more_changes_everything_is(after: Sequence[WorkspaceQuota]):
    assert Accounts(QuotaTree.build(BEFORE)).under(QuotaTree.build(after)) is None
