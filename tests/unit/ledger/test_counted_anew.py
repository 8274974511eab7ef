"""Everything is counted anew in slices: old sums are shown meanwhile, no growth is granted, and in the end all is what
a count at once would give, whatever has happened between two slices."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from extauthz.core.ledger import usage as usage_module
from extauthz.core.ledger.accounts import NOWHERE
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Fetch, NeedsFetch, Observed, Verdict, WorkloadRef
from extauthz.core.objects.workloads import observe
from extauthz.core.queries import Queries
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import Asker, create, gate, owned_by, patch, path, quota, scale, workload
from tests.unit.ledger.test_families import claim as claim_of

HARD = {"requests.cpu": "100", "pods": "100"}
NAMES = [f"w{number}" for number in range(12)]


def tree(*more: Any) -> QuotaTree:
    return QuotaTree.build([quota("acme", HARD), *more])


MORE = quota("lower", HARD, parent="acme", namespaces={"workspace": "acme"}, workloads={"tier": "low"})
KEEPS = quota(
    "lower", HARD, parent="acme", namespaces={"workspace": "acme"}, workloads={"tier": "low"}, guaranteed={"pods": "5"}
)


def asker() -> Asker:
    """A gate whose counts wait for ``count``."""
    seen = [workload(name, 2, labels={"app": name, "tier": "low"}) for name in NAMES]
    ask = Asker(gate([quota("acme", HARD)], *seen))
    ask.gate.ledger.usage.on_count = lambda: None
    return ask


def rows(ask: Asker) -> dict[str, int]:
    return {f"{row.quota} {row.resource}": (row.used + row.reserved) // 10**9 for row in ask.gate.usage()}


def finish(ask: Asker) -> None:
    while ask.gate.ledger.usage.count(1):
        pass


CHANGES: dict[str, Callable[[Asker], object]] = {
    "quota": lambda ask: ask.gate.load_quotas(tree(MORE), 0.0),
    "guarantee": lambda ask: ask.gate.load_quotas(tree(KEEPS), 0.0),
    "runtime-class": lambda ask: ask.gate.observe_runtime_class("kata", {"requests.cpu": 10**9}),
    "storage-class": lambda ask: ask.gate.observe_default_storage_class("fast"),
    "device-class": lambda ask: ask.gate.observe_device_class("gpu", "nvidia.com/gpu"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_old_sums_are_shown_and_growth_waits_until_all_is_counted(change: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(usage_module, "AT_ONCE", 0)
    ask = asker()
    before = rows(ask)
    CHANGES[change](ask)
    usage = ask.gate.ledger.usage
    assert usage.is_counting
    assert {key: value for key, value in rows(ask).items() if key in before} == before
    refused = ask(scale("w0", 3))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "unsynced")
    assert refused.todo == NeedsFetch(Fetch.COUNT, refused.ref)
    assert ask(scale("w0", 1)).verdict is Verdict.ALLOW, "what grows nothing never waits"
    finish(ask)
    assert not usage.is_counting
    assert ask(scale("w0", 3)).verdict is Verdict.ALLOW
    assert not ask.gate.ledger.drift()


def events(draw: random.Random, ask: Asker, step: int) -> None:
    """Something that happens between two slices."""
    name, version = draw.choice(NAMES), str(step + 10)
    usage = ask.gate.ledger.usage
    match draw.randrange(9):
        case 0:
            ask(scale(name, draw.randrange(4)))
        case 1:
            ask.gate.observe(*observe(workload(name, draw.randrange(5), labels={"app": name}, version=version)))
        case 2:
            ref, _ = observe(workload(name))
            ask.gate.observe(ref, None, version=version)
        case 3:
            made = workload(f"{name}-1", 3, kind="ReplicaSet", labels={"app": name}, ownerReferences=owned_by(name))
            ask.gate.observe(*observe(made))
        case 4:
            ask(patch(path(name), {"metadata": {"labels": {"tier": draw.choice(("low", "high"))}}}))
        case 5:
            for _, pending in list(ask.gate.ledger.pending)[:1]:
                ask.gate.ledger.pending.settle(pending.id, Event.NOT_FORWARDED, 0.0)
        case 6:
            labels = draw.choice(({"workspace": "acme"}, {"workspace": "none"}))
            ask.gate.observe_namespace("team-a", labels)
        case 7:
            draw.choice(list(CHANGES.values()))(ask)
        case _:
            usage.count(draw.randrange(1, 5))


@pytest.mark.parametrize("at_once", [0, 64])
@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_between_two_slices_the_end_is_what_a_count_at_once_gives(
    seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(usage_module, "AT_ONCE", at_once)
    draw, ask = random.Random(seed), asker()
    for step in range(80):
        events(draw, ask, step)
    finish(ask)
    usage = ask.gate.ledger.usage
    kept = list(ask.gate.usage())
    assert not ask.gate.ledger.drift()
    usage.on_count = None
    usage.count_anew()
    assert list(ask.gate.usage()) == kept


def test_what_joins_a_family_is_weighed_while_all_is_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(usage_module, "AT_ONCE", 0)
    ask = Asker(gate([quota("acme", HARD)], workload("web", 2)))
    ask.gate.ledger.usage.on_count = lambda: None
    ask.gate.observe_default_storage_class("fast")
    joins = create(workload("web-2", 2, {"cpu": "3"}, kind="ReplicaSet", ownerReferences=owned_by("web")))
    assert ask(joins).reason == "unsynced"
    finish(ask)
    assert ask(joins).verdict is Verdict.ALLOW


@pytest.mark.parametrize("seed", range(20))
def test_what_is_granted_during_a_count_is_never_over_and_growth_goes_on_after_it(seed: int):
    """A quota that nobody cuts is never over, whatever is counted anew meanwhile, and is full in the end."""
    hard = {"pods": "30", "requests.cpu": "90"}
    spaces = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "other"}}
    two = [quota("acme", hard), quota("other", hard, namespaces={"workspace": "other"})]
    low = quota("low", hard, parent="acme", namespaces={"workspace": "acme"}, workloads={"tier": "low"})
    seen = [workload(name, 1, labels={"tier": "low"}, namespace=space) for space in spaces for name in NAMES]
    draw, ask = random.Random(seed), Asker(gate(two, *seen, namespaces=spaces))
    usage = ask.gate.ledger.usage
    usage.on_count = lambda: None
    for step in range(120):
        match draw.randrange(8):
            case 0:
                ask.gate.load_quotas(QuotaTree.build(draw.choice((two, [*two, low]))), 0.0)
            case 1:
                ask.gate.observe_default_storage_class(f"class-{step}")
            case 2:
                ask.gate.observe_namespace("team-b", {"workspace": "other", "step": str(step)})
            case 3:
                usage.count(draw.randrange(1, 9))
            case _:
                ask(scale(draw.choice(NAMES), draw.randrange(1, 9), namespace=draw.choice((*spaces,))))
        assert all(row.used + row.reserved <= row.hard for row in usage._recount().rows())
    finish(ask)
    for name in NAMES * 9:
        for space in spaces:
            ref, _ = observe(workload(name, namespace=space))
            entry = ask.gate.ledger.get(ref)
            ask(scale(name, entry.top_replicas() + 1, namespace=space))
    assert {row.quota: row.used + row.reserved == row.hard for row in usage.rows() if row.resource == "pods"} == {
        node.quota.name: True for node in ask.gate.ledger.coverage.tree.nodes
    }


def test_only_the_trees_that_have_changed_are_counted_and_all_others_grow_meanwhile():
    many = [workload(f"w{number}", 1, namespace=space) for space in NAMESPACES for number in range(20)]
    ask = Asker(gate([quota("acme", HARD), OTHER], *many, namespaces=NAMESPACES))
    usage = ask.gate.ledger.usage
    usage.on_count = lambda: None
    ask.gate.load_quotas(QuotaTree.build([quota("acme", HARD), OTHER, MORE]), 0.0)
    assert ask(scale("w0", 2)).reason == "unsynced"
    assert ask(scale("w0", 2, namespace="team-b")).verdict is Verdict.ALLOW
    ask.gate.load_quotas(QuotaTree.build([quota("acme", HARD), OTHER]), 0.0)
    assert ask(scale("w0", 3, namespace="team-b")).verdict is Verdict.ALLOW, "another change of the same tree"
    finish(ask)
    assert ask(scale("w0", 2)).verdict is Verdict.ALLOW
    assert not ask.gate.ledger.drift()


def test_a_namespace_under_other_quotas_is_counted_in_slices_and_under_the_same_ones_not_at_all():
    many = [workload(f"w{number}", 1, namespace=space) for space in NAMESPACES for number in range(20)]
    ask = Asker(gate([quota("acme", HARD), OTHER], *many, namespaces=NAMESPACES))
    usage = ask.gate.ledger.usage
    usage.on_count = lambda: None
    ask.gate.observe_namespace("team-b", {"workspace": "other", "tier": "gold"})
    assert not usage.is_counting
    ask.gate.observe_namespace("team-b", {"workspace": "acme"})
    assert ask(scale("w0", 2)).reason == "unsynced"
    ask.gate.observe_namespace("team-b", {"workspace": "other"})
    ask.gate.observe_namespace("team-b", {"workspace": "acme"})
    finish(ask)
    assert (rows(ask)["acme pods"], rows(ask)["other pods"]) == (40, 0)
    assert not ask.gate.ledger.drift()


OTHER = quota("other", HARD, namespaces={"workspace": "other"})
NAMESPACES = {"team-a": {"workspace": "acme"}, "team-b": {"workspace": "other"}}


def test_one_more_quota_concerns_nobody_but_those_whom_it_covers():
    """So a new workspace stops nobody's growth, however much all have."""
    many = [workload(f"w{number}", 1) for number in range(usage_module.AT_ONCE + 1)]
    few = workload("few", 2, namespace="team-b")
    ask = Asker(gate([quota("acme", HARD)], *many, few, namespaces=NAMESPACES))
    usage = ask.gate.ledger.usage
    usage.on_count = lambda: None
    ask(scale("few", 3, namespace="team-b"))
    before = rows(ask)
    for quotas in ([OTHER], [], [OTHER, quota("new", HARD)]):
        ask.gate.load_quotas(tree(*quotas), 0.0)
        assert not usage.is_counting
        assert {key: value for key, value in rows(ask).items() if key in before} == before
        assert rows(ask).get("other pods") == (3 if quotas else None)
        assert not ask.gate.ledger.drift()
    assert ask(scale("w0", 2)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "more",
    [
        quota("low", {"limits.cpu": "9"}, namespaces={"workspace": "acme"}),
        quota("low", HARD, namespaces={"workspace": "acme"}, workloads={"tier": "low"}),
    ],
)
def test_what_concerns_many_is_counted_in_slices(more: Any):
    """By what pods must say from now on, or because it covers many."""
    many = [workload(f"w{number}", 1) for number in range(usage_module.AT_ONCE + 1)]
    ask = Asker(gate([quota("acme", HARD)], *many))
    usage = ask.gate.ledger.usage
    usage.on_count = lambda: None
    ask.gate.load_quotas(tree(more), 0.0)
    assert usage.is_counting
    finish(ask)
    assert rows(ask)["acme pods"] == len(many)


def test_while_all_is_counted_nothing_is_repaired():
    ask = asker()
    ask.gate.observe_default_storage_class("fast")
    with pytest.raises(StopIteration) as ended:
        next(ask.gate.ledger.usage.repair(1))
    assert ended.value.value is None
    assert ask.gate.ledger.drift() == {}, "it finishes the count first"
    assert not ask.gate.ledger.usage.count(1)


class Raising:
    """A witness that fails."""

    def moved(self, *_: object) -> None:
        raise LookupError


def test_what_a_move_has_left_half_done_is_mended():
    ask = asker()
    ask.gate.observe_default_storage_class("fast")
    usage = ask.gate.ledger.usage
    usage.count(2)
    usage.witness = cast("Any", Raising())
    for name in NAMES:
        ref, _ = observe(workload(name))
        entry = ask.gate.ledger.get(ref)
        assert entry is not None
        with pytest.raises(LookupError):
            usage.shift(ref, usage.position(entry), NOWHERE)
        usage.mend(usage.position(entry), NOWHERE)
    usage.witness = None
    finish(ask)
    assert not ask.gate.ledger.drift()


@pytest.mark.parametrize("at_once", [0, 64], ids=["in-slices", "carried"])
def test_what_has_no_known_cost_stays_unknown(at_once: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(usage_module, "AT_ONCE", at_once)
    ask = Asker(gate([quota("acme", HARD)], workload("few", 2, namespace="team-b"), namespaces=NAMESPACES))
    usage, queries = ask.gate.ledger.usage, Queries(ask.gate.ledger)
    usage.on_count = lambda: None
    ask.gate.observe(WorkloadRef("apps", "deployments", "team-a", "odd"), Observed(1, None))
    told: list[str] = []
    usage.witness = Told(told)
    ask.gate.load_quotas(tree(OTHER), 0.0)
    assert usage.is_counting == (not at_once)
    assert {one.node.quota.name: one.unpriced for one in queries.quotas()} == {"acme": 1, "other": 0}
    finish(ask)
    assert told[-1:] == ["counted anew"] or at_once
    assert {one.node.quota.name: one.unpriced for one in queries.quotas()} == {"acme": 1, "other": 0}


class Told:
    """A witness."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def moved(self, *_: object) -> None:
        self._told.append("moved")

    def labelled(self, *_: object) -> None:
        self._told.append("labelled")

    def limited(self, *_: object) -> None:
        self._told.append("limited")

    def counted_anew(self) -> None:
        self._told.append("counted anew")


def test_where_a_claim_is_found_that_counts_elsewhere_all_is_counted():
    """What a StatefulSet that is to be made finds costs it in one tree what counts in none of another."""
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "3"}}}}
    db = workload("db", 1, kind="StatefulSet", labels={"tier": "low"})
    db["spec"]["volumeClaimTemplates"] = [claim]
    hard = {"requests.storage": "50"}
    two = [quota("acme", hard, workloads={"tier": "low"}), quota("all", hard, namespaces={"workspace": "acme"})]
    ask = Asker(gate(two))
    ask.gate.observe(*claim_of("data-db-0", "7"))
    assert ask(create(db)).verdict is Verdict.ALLOW
    for quotas in (two[:1], two, two[1:], two):
        ask.gate.load_quotas(QuotaTree.build(quotas), 0.0)
        assert not ask.gate.ledger.drift()
