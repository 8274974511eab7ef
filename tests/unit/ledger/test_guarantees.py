"""``spec.guaranteed``: room that siblings never get, used or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.ledger.accounts import Difference
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Decision, Observed, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, patch, path, quota, scale, workload
from tests.unit.ledger.test_recount import finished

GPU = "requests.nvidia.com/gpu"
NANO = 10**9
NOBODY = {"none": "such"}


def root(hard: int) -> WorkspaceQuota:
    return quota("root", {GPU: str(hard)}, namespaces=NOBODY)


def child(name: str, hard: int, guaranteed: int = 0, parent: str = "root", **more: Any) -> WorkspaceQuota:
    """Over the namespace of its name."""
    promised = {"guaranteed": {GPU: str(guaranteed)}} if guaranteed else {}
    return quota(name, {GPU: str(hard)}, parent=parent, namespaces={"team": name}, **promised, **more)


def asker(quotas: Sequence[WorkspaceQuota], has: Mapping[str, int]) -> Asker:
    """In each namespace a Deployment of its name, of one GPU a pod."""
    objects = [workload(name, count, {"nvidia.com/gpu": "1"}, namespace=name) for name, count in has.items()]
    return Asker(gate(quotas, *objects, namespaces={name: {"team": name} for name in has}))


def more(ask: Asker, name: str, by: int) -> Decision:
    entry = ask.gate.ledger.get(WorkloadRef("apps", "deployments", name, name))
    return ask(scale(name, entry.top_replicas() + by, namespace=name))


FIRST = (root(8), child("a", 8, 4), child("b", 8))
SECOND = (root(10), child("above", 10, 6), child("a1", 10, 3, "above"), child("a2", 10, 3, "above"), child("b", 10))


@pytest.mark.parametrize(
    ("quotas", "has", "asked"),
    [
        (FIRST, {"a": 0, "b": 4}, [("b", 1, "kept", 4), ("a", 4, "", None), ("a", 1, "hard", 4)]),
        (FIRST, {"a": 0, "b": 6}, [("b", 1, "kept", 6), ("a", 2, "", None), ("a", 1, "hard", 2)]),
        (SECOND, {"a1": 5, "a2": 0, "b": 0}, [("b", 3, "kept", 2), ("b", 2, "", None), ("a2", 3, "", None)]),
        (SECOND, {"a1": 0, "a2": 0, "b": 4}, [("a2", 4, "kept", 3), ("a2", 3, "", None)]),
    ],
    ids=["idle", "others had it before", "two-levels", "beyond its own, below another"],
)
def test_the_worked_examples(quotas: Any, has: dict[str, int], asked: list[tuple[str, int, str, int | None]]):
    ask = asker(quotas, has)
    for name, by, why, largest in asked:
        said = more(ask, name, by)
        assert said.verdict is (Verdict.DENY if why else Verdict.ALLOW), (name, by)
        assert said.evidence.fits == largest
        assert [bool(row.kept) for row in said.evidence.shortages] == ([why == "kept"] if why else [])
        assert ask.gate.ledger.drift() == {}


def test_the_sentence_names_what_is_kept_and_nobody():
    said = more(asker(FIRST, {"a": 0, "b": 4}), "b", 1)
    assert said.sentence == (
        f'deployments.apps "b" is forbidden: exceeded workspace quota: root, requested: {GPU}=1, used: {GPU}=4, '
        f"kept for guarantees: {GPU}=4, limited: {GPU}=8; largest allowed replicas: 4"
    )


def test_what_counts_in_two_children_uses_both():
    both = quota("c", {GPU: "8"}, parent="root", namespaces={"team": "a"}, guaranteed={GPU: "2"})
    ask = asker([*FIRST, both], {"a": 0, "b": 2})
    assert more(ask, "b", 1).verdict is Verdict.DENY, "2 used, 6 kept"
    assert more(ask, "a", 2).verdict is Verdict.ALLOW
    assert more(ask, "b", 2).verdict is Verdict.ALLOW, "4 used, 2 kept"
    assert more(ask, "b", 1).evidence.fits == 4


def test_each_resource_is_kept_by_itself():
    objects = "count/deployments.apps"
    both, half = {objects: "8", GPU: "8"}, {objects: "4", GPU: "4"}
    quotas = [
        quota("root", both, namespaces=NOBODY),
        quota("a", both, parent="root", namespaces={"team": "a"}, guaranteed=half),
        quota("b", both, parent="root", namespaces={"team": "b"}),
    ]
    said = more(asker(quotas, {"a": 0, "b": 4}), "b", 1)
    assert [(row.resource, row.kept) for row in said.evidence.shortages] == [(GPU, 4 * NANO)]


def test_mode_audit_neither_gives_nor_takes():
    ask = asker([root(8), child("a", 8, 4, mode="Audit"), child("b", 8)], {"a": 0, "b": 4})
    assert more(ask, "b", 4).verdict is Verdict.ALLOW, "nothing is kept for one that audits"
    audits = quota("root", {GPU: "8"}, namespaces=NOBODY, mode="Audit")
    said = more(asker([audits, *FIRST[1:]], {"a": 0, "b": 4}), "b", 1)
    assert (said.verdict, said.evidence.audit) == (Verdict.ALLOW, ())


def test_below_one_that_audits_a_guarantee_holds_against_those_above():
    quotas = [root(8), child("mid", 8, mode="Audit"), child("a", 8, 4, "mid"), child("b", 8)]
    ask = asker(quotas, {"a": 0, "b": 4})
    assert more(ask, "b", 1).verdict is Verdict.DENY
    assert more(ask, "a", 4).verdict is Verdict.ALLOW


def test_what_was_lent_is_not_lent_again():
    """Of a guarantee that comes when the room is in use: who has it may stay, and shrink; nobody else gets it."""
    ask = asker([FIRST[0], child("a", 8), child("b", 8)], {"a": 0, "b": 6})
    ask.gate.load_quotas(QuotaTree.build(FIRST), 0.0)
    assert ask.gate.ledger.drift() == {}
    assert more(ask, "b", 1).evidence.fits == 6
    assert more(ask, "b", -2).verdict is Verdict.ALLOW
    ask.gate.observe(*observe(workload("b", 4, {"nvidia.com/gpu": "1"}, namespace="b", version="2")))
    assert more(ask, "b", 1).verdict is Verdict.DENY


def test_a_guarantee_that_is_taken_back_keeps_nothing():
    ask = asker(FIRST, {"a": 0, "b": 4})
    ask.gate.load_quotas(QuotaTree.build([FIRST[0], child("a", 8), child("b", 8)]), 0.0)
    assert more(ask, "b", 4).verdict is Verdict.ALLOW
    assert ask.gate.ledger.drift() == {}


def test_a_quota_that_does_not_bind_who_asks_keeps_nothing_from_them():
    free = quota("root", {GPU: "8"}, namespaces=NOBODY, requesters={"include": {"users": ["somebody"]}})
    ask = asker([free, *FIRST[1:]], {"a": 0, "b": 4})
    assert more(ask, "b", 1).verdict is Verdict.DENY, "whoever is not known is bound"


@pytest.mark.parametrize(
    ("to", "count", "allowed"),
    [("job", 2, True), ("job", 3, True), ("web", 1, False), ("web", 2, False), ("none", 2, False)],
    ids=["stays", "stays and grows on", "only moves", "moves and grows", "leaves and grows"],
)
def test_growth_takes_nothing_that_is_kept_for_the_quota_that_it_leaves(to, count, allowed):
    job, web = (
        quota(tier, {GPU: "8"}, parent="root", namespaces={}, workloads={"tier": tier}, guaranteed={GPU: kept})
        for tier, kept in [("job", "6"), ("web", "2")]
    )
    one = {"nvidia.com/gpu": "1"}
    there = [workload(labels={"tier": "job"}, requests=one), workload("other", 2, one, labels={"tier": "web"})]
    said = Asker(gate([quota("root", {GPU: "8"}, namespaces={}), job, web], *there))(
        patch(path(), {"metadata": {"labels": {"tier": to}}, "spec": {"replicas": count}})
    )
    assert said.verdict is (Verdict.ALLOW if allowed else Verdict.DENY)


def test_what_only_moves_is_not_refused_for_a_quota_whose_limits_cannot_be_read():
    tiers = [
        quota(tier, {GPU: "8"}, parent="root", namespaces={}, workloads={"tier": tier}, guaranteed={GPU: "2"})
        for tier in ("job", "web")
    ]
    illegible = replace(quota("all", {}, namespaces={}), illegible=True)
    there = workload(labels={"tier": "job"}, requests={"nvidia.com/gpu": "1"})
    ask = Asker(gate([quota("root", {GPU: "8"}, namespaces={}), *tiers, illegible], there))
    assert ask(patch(path(), {"metadata": {"labels": {"tier": "web"}}})).verdict is Verdict.ALLOW
    assert ask(scale("web", 2)).verdict is Verdict.UNAVAILABLE


@pytest.mark.parametrize(("count", "allowed"), [(4, True), (5, False)])
def test_what_moves_into_a_tree_takes_nothing_that_is_kept(count: int, allowed: bool):
    kept, free = (
        quota(tier, {GPU: "8"}, parent="root", namespaces={}, workloads={"tier": tier}, **promised)
        for tier, promised in [("kept", {"guaranteed": {GPU: "4"}}), ("free", {})]
    )
    there = workload("web", count, {"nvidia.com/gpu": "1"}, labels={"tier": "none"})
    said = Asker(gate([root(8), kept, free], there))(patch(path(), {"metadata": {"labels": {"tier": "free"}}}))
    assert said.verdict is (Verdict.ALLOW if allowed else Verdict.DENY)


def test_what_moves_below_one_quota_uses_what_that_is_guaranteed():
    mid = quota("mid", {GPU: "8"}, parent="root", namespaces=NOBODY, guaranteed={GPU: "4"})
    tiers = [quota(tier, {GPU: "8"}, parent="mid", namespaces={}, workloads={"tier": tier}) for tier in ("a1", "a2")]
    free = quota("free", {GPU: "8"}, parent="root", namespaces={}, workloads={"tier": "free"})
    one = {"nvidia.com/gpu": "1"}
    there = [workload("web", 4, one, labels={"tier": "a1"}), workload("other", 4, one, labels={"tier": "free"})]
    ask = Asker(gate([root(8), mid, *tiers, free], *there))
    assert ask(patch(path(), {"metadata": {"labels": {"tier": "a2"}}})).verdict is Verdict.ALLOW
    assert ask(patch(path(), {"metadata": {"labels": {"tier": "free"}}})).verdict is Verdict.DENY


@pytest.mark.parametrize(("hard", "short"), [(24, []), (23, ["root"])])
def test_the_owner_of_what_joins_it_uses_nothing_of_what_the_other_is_guaranteed(hard: int, short: list[str]):
    tiers = [
        quota(tier, {GPU: "20"}, parent="root", namespaces={}, workloads={"tier": tier}, guaranteed={GPU: "6"})
        for tier in ("web", "old", "idle")
    ]
    there = workload("web", 2, {"nvidia.com/gpu": "1"}, labels={"tier": "web"})
    alone = workload("old", 2, {"nvidia.com/gpu": "3"}, kind="ReplicaSet", labels={"app": "web", "tier": "old"})
    joins = patch(path("old", resource="replicasets"), {"metadata": {"ownerReferences": owned_by("web")}})
    said = Asker(gate([root(hard), *tiers], there, alone))(joins)
    assert [row.quota for row in said.evidence.shortages] == short


def test_objects_are_guaranteed_too():
    key = "count/deployments.apps"
    top = quota("root", {key: "3"}, namespaces=NOBODY)
    one = quota("a", {key: "3"}, parent="root", namespaces={"team": "a"}, guaranteed={key: "2"})
    ask = Asker(gate([top, one, quota("b", {key: "3"}, parent="root", namespaces={"team": "b"})],
                     workload("b", 1, namespace="b"), namespaces={"a": {"team": "a"}, "b": {"team": "b"}}))  # fmt: skip
    said = ask(create(workload("more", 1, namespace="b")))
    assert (said.verdict, said.evidence.fits) == (Verdict.DENY, None), "no count helps"
    assert ask(create(workload("more", 1, namespace="a"))).verdict is Verdict.ALLOW


def test_what_an_unknown_may_use_is_set_aside_beside_guarantees():
    ask = asker([root(8), child("a", 8, 2), child("b", 8), child("u", 3)], {"a": 0, "b": 4, "u": 0})
    ask.gate.observe(WorkloadRef("example.dev", "gadgets", "u", "gizmo"), Observed(2, None))
    said = more(ask, "b", 2)
    assert [(row.reserved, row.kept) for row in said.evidence.shortages] == [(3 * NANO, 0)], (
        "guarantees leave room for it"
    )
    assert said.evidence.fits == 5


def test_headroom_says_how_much_is_within_the_guarantee():
    asked = asker([root(8), child("a", 8, 4), child("b", 8, 1)], {"a": 3, "b": 2}).gate
    from extauthz.core.queries import Queries

    found = Queries(asked.ledger).headroom(WorkloadRef("apps", "deployments", "a", "a"))
    assert (found.replicas, found.guaranteed) == (6, 4)
    without = Queries(asker([root(8), child("a", 8)], {"a": 3}).gate.ledger)
    plain = without.headroom(WorkloadRef("apps", "deployments", "a", "a"))
    assert (plain.replicas, plain.guaranteed) == (8, None)
    all_of_it = Queries(asker([root(8), child("a", 4, 4)], {"a": 3}).gate.ledger)
    whole = all_of_it.headroom(WorkloadRef("apps", "deployments", "a", "a"))
    assert (whole.replicas, whole.guaranteed) == (4, 4)
    too_much = Queries(asker([root(3), child("a", 8, 4)], {"a": 1}).gate.ledger)
    all_there_is = too_much.headroom(WorkloadRef("apps", "deployments", "a", "a"))
    assert (all_there_is.replicas, all_there_is.guaranteed) == (3, 3)


def test_a_wrong_number_of_what_is_kept_is_found_and_repaired():
    ask = asker(FIRST, {"a": 1, "b": 4})
    usage = ask.gate.ledger.usage
    (account,) = [one for node, one in usage.accounts._accounts.items() if node.quota.name == "root"]
    account.kept[GPU] += NANO
    assert usage.drift() == {("root", f"kept {GPU}"): NANO}
    assert finished(usage.repair(1)) == (Difference("root", f"kept {GPU}", 4 * NANO, 3 * NANO),)
    assert usage.drift() == {}


# For all trees: what may be said of guarantees without looking at how they are kept.

TREES = {
    "a": "root", "b": "root", "c": "root", "a1": "a", "a2": "a", "b1": "b", "a11": "a1",
}  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[WorkspaceQuota], dict[str, int], list[tuple[str, int]]]:
    """Quotas, what workloads have, and what is asked."""
    hard = draw(st.integers(2, 12))
    quotas = [root(hard)]
    for name, parent in TREES.items():
        own = draw(st.integers(1, 12))
        quotas.append(child(name, own, draw(st.integers(0, min(own, 4))), parent))
    has = {name: draw(st.integers(0, 3)) for name in TREES}
    asked = draw(st.lists(st.tuples(st.sampled_from(sorted(TREES)), st.integers(-2, 6)), min_size=1, max_size=8))
    return quotas, has, asked


def without(quotas: Sequence[WorkspaceQuota]) -> list[WorkspaceQuota]:
    return [replace(one, guaranteed={}) for one in quotas]


def kept_of(ask: Asker) -> dict[str, int]:
    """By the definition, from used and reserved alone."""
    rows = {row.quota: row for row in ask.gate.usage()}
    nodes = {node.quota.name: node for node in ask.gate.ledger.coverage.tree.nodes}

    def kept(name: str) -> int:
        return sum(idle(one) for one, parent in TREES.items() if parent == name)

    def idle(name: str) -> int:
        row = rows[name]
        return max(0, nodes[name].quota.guaranteed.get(GPU, 0) - row.used - row.reserved, kept(name))

    return {name: kept(name) for name in rows}


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_whatever_is_asked_guarantees_only_lower_grants_and_are_kept(world: Any):
    quotas, has, asked = world
    ask = asker(quotas, has)
    for name, by in asked:
        entry = ask.gate.ledger.get(WorkloadRef("apps", "deployments", name, name))
        to = max(entry.top_replicas() + by, 0)
        plain = asker(without(quotas), dict.fromkeys(has, 0) | has)
        for ref, pending in ask.gate.ledger.pending:
            assert pending.replicas is not None
            plain.gate.ledger.adopt(ref, replace(pending))
        before = {row.quota: row for row in ask.gate.usage()}
        said = ask(scale(name, to, namespace=name))
        if said.verdict is Verdict.ALLOW:
            assert plain(scale(name, to, namespace=name), charge=False).verdict is Verdict.ALLOW, "only lower"
        elif plain(scale(name, to, namespace=name), charge=False).verdict is Verdict.ALLOW:
            node = next(one for one in ask.gate.ledger.coverage.tree.nodes if one.quota.name == name)
            own = before[name]
            taken = own.used + own.reserved + own.kept  # what it keeps for its children is theirs
            assert taken + by * NANO > node.quota.guaranteed.get(GPU, 0), "its own is never refused"
        if said.evidence.fits is not None:
            assert ask(scale(name, said.evidence.fits, namespace=name), charge=False).verdict is Verdict.ALLOW, (
                "fits is granted"
            )
            assert ask(scale(name, said.evidence.fits + 1, namespace=name), charge=False).verdict is Verdict.DENY
        assert {row.quota: row.kept for row in ask.gate.usage()} == kept_of(ask)
        assert ask.gate.ledger.drift() == {}


TIERS = ("none", "a", "b", "c")


@settings(max_examples=200, deadline=None)
@given(
    st.booleans(),
    st.tuples(*[st.integers(0, 5)] * 3),
    st.lists(
        st.tuples(
            st.sampled_from(["x", "y", "z"]),
            st.sampled_from(["", *TIERS]),
            st.integers(0, 5),
            st.sampled_from(["pends", "lands", "is refused"]),
        ),
        max_size=8,
    ),
)
def test_whichever_moves_land_what_is_kept_is_there(is_all: bool, promised: tuple[int, ...], writes: list[Any]):
    """What workloads have, with what is kept beside it, is within the limit, or no higher than before, whatever of that
    which pends lands. ``is_all``: what is in no tier is under the root, too."""
    quotas = [
        quota(tier, {GPU: "9"}, parent="root", namespaces={}, workloads={"tier": tier}, guaranteed={GPU: str(kept)})
        for tier, kept in zip(TIERS[1:], promised, strict=True)
    ]
    one = {"nvidia.com/gpu": "1"}
    there = [workload(name, 1, one, labels={"tier": "none"}) for name in "xyz"]
    ask = Asker(gate([quota("root", {GPU: "8"}, namespaces={} if is_all else NOBODY), *quotas], *there))
    landed = dict.fromkeys("xyz", ("none", 1))
    pending: dict[str, dict[str, tuple[str, int]]] = {name: {} for name in "xyz"}

    def ends(name: str) -> set[tuple[str, int]]:
        """What a workload may come to: an object lands first or not at all, a count on anything."""
        counts = [count for tier, count in pending[name].values() if not tier]
        first = {landed[name], *(one for one in pending[name].values() if one[0])}
        return first | {(tier, count) for tier, _ in first for count in counts}

    def most() -> int:
        """Of use and what is kept, whatever lands."""
        return max(
            sum(
                max(kept, sum(count for tier, count in each if tier == own))
                for own, kept in zip(TIERS, (0, *promised), strict=True)
                if is_all or own != "none"
            )
            for each in product(*map(ends, "xyz"))
        )

    for version, (name, tier, count, end) in enumerate(writes, 2):
        before = most()
        body = {"metadata": {"labels": {"tier": tier}}, "spec": {"replicas": count}}
        said = ask(patch(path(name), body) if tier else scale(name, count))
        if said.verdict is not Verdict.ALLOW:
            continue
        id_ = said.pending_write or "as it is"
        pending[name][id_] = tier, count
        assert most() <= max(8, before), (landed, pending)
        settle = partial(ask.gate.ledger.pending.settle, id_, now_s=0.0)
        if end == "lands":
            landed[name] = tier or landed[name][0], count
            pending[name] = {of: one for of, one in pending[name].items() if not one[0]}
            labels = {"tier": landed[name][0]}
            ask.gate.observe(*observe(workload(name, count, one, labels=labels, version=str(version))))
            settle(Event.ANSWERED_OK)
            settle(Event.SEEN)
        elif end == "is refused":
            settle(Event.REFUSED)
        if end != "pends" or said.pending_write is None:
            pending[name].pop(id_, None)
    assert ask.gate.ledger.drift() == {}
