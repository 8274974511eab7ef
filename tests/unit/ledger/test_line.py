"""``spec.sharing.turns: Share``: whose turn it is where the room does not do for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extauthz.core.intake.counts import read
from extauthz.core.ledger.line import MAX_IN_ALL, MAX_IN_CHILD, MAX_IN_TREE
from extauthz.core.model import Lower, Place, Refusal, Request, Requester, Turn, Verdict
from extauthz.core.policies import Enlisted, Policies, TwoOrdersError
from extauthz.core.quota.spec import WorkspaceQuota
from extauthz.core.quota.tree import QuotaTree
from extauthz.testing import create, gate, path, put_scale, quota, scale, workload
from tests.unit.ledger.houses import GPU, NANO, House, Ranked, child, full, root


def test_what_the_first_needs_is_kept_for_it():
    house = full()
    assert house.wants("b", 5).refusal is Refusal.WAITING_FOR_ROOM
    assert house.line() == ["b"]
    house.passes(1)
    house.has("c", 3)
    refused = house.wants("c", 4)
    assert (refused.verdict, refused.reason, refused.refusal) == (
        Verdict.DENY, "not-its-turn", Refusal.WAITING_FOR_TURN,
    )  # fmt: skip
    assert refused.sentence == (
        'deployments.apps "c" is forbidden: 2nd in line for workspace quota root; largest allowed replicas: 3; '
        "ask again in about 30 s"
    )
    assert house.line() == ["b", "c"]
    house.has("c", 1)
    granted = house.wants("b", 5)
    assert (granted.verdict, house.line()) == (Verdict.ALLOW, ["c"])


def test_without_turns_who_asks_first_gets_it():
    house = full(turn_s=None)
    house.wants("b", 5)
    house.has("c", 3)
    assert house.wants("c", 4).verdict is Verdict.ALLOW
    assert house.line() == []


def test_who_has_a_smaller_share_is_not_held():
    house = full()
    house.wants("c", 8)
    house.has("c", 3)
    assert house.wants("b", 3).verdict is Verdict.ALLOW


def test_the_largest_count_that_is_named_leaves_what_is_kept():
    house = full()
    house.wants("b", 2)
    house.has("c", 2)  # three are free, one of them is kept
    refused = house.wants("c", 9)
    assert (refused.reason, refused.evidence.fits) == ("exceeded-quota", 4)
    assert house.wants("c", 4).verdict is Verdict.ALLOW


def order_of(*quotas: WorkspaceQuota, has: dict[str, int], wants: dict[str, int]) -> list[str]:
    house = House([root(10), *quotas], has)
    for name, replicas in wants.items():
        house.passes(1)
        house.wants(name, replicas)
    return house.line()


@pytest.mark.parametrize(
    ("weights", "has", "wants", "order"),
    [
        ({"a": 1, "b": 1}, {"a": 4, "b": 6}, {"b": 9, "a": 9}, ["a", "b"]),
        ({"a": 1, "b": 2}, {"a": 4, "b": 6}, {"a": 9, "b": 9}, ["b", "a"]),
        ({"a": 1, "b": 1}, {"a": 5, "b": 5}, {"b": 9, "a": 9}, ["b", "a"]),
        ({"a": 1, "b": 1}, {"a": 4, "b": 6, "b-new": 0}, {"a": 9, "b-new": 1}, ["b-new", "a"]),
        ({"a": 1, "b": 1}, {"a": 3, "a-other": 1, "b": 6}, {"a-other": 9, "b": 9, "a": 9}, ["a-other", "a", "b"]),
    ],
    ids=["share", "weight", "time", "at-zero", "one-child"],
)
def test_the_order(weights: dict[str, int], has: dict[str, int], wants: dict[str, int], order: list[str]):
    quotas = [child(name, weight=weight) for name, weight in weights.items()]
    assert order_of(*quotas, has=has, wants=wants) == order


def ranked(house: House, **ranks: Any) -> list[tuple[str, str]]:
    """The policy and step of each call that failed, from now on."""
    failed: list[tuple[str, str]] = []
    house.gate.enlist(Policies([Enlisted("ranked", Ranked(ranks))], lambda *what: failed.append(what)))
    return failed


@pytest.mark.parametrize(
    ("ranks", "line"),
    [
        ({}, ["b", "a", "c"]),
        ({"c": -1}, ["c", "b", "a"]),
        ({"b": 1_000, "a": 1_000, "c": -1_000}, ["c", "b", "a"]),
        ({"b": 2, "c": 1}, ["a", "c", "b"]),
    ],
)
def test_a_rank_comes_before_the_share(ranks: dict[str, int], line: list[str]):
    house = full()
    failed = ranked(house, **ranks)
    for name, wanted in (("a", 5), ("b", 2), ("c", 6)):
        house.wants(name, wanted)
    assert (house.line(), failed) == (line, [])


def test_who_comes_first_by_its_rank_has_what_it_needs_kept():
    house = full()
    house.wants("b", 2)
    ranked(house, c=-1, a=-2)
    house.has("c", 4)
    assert house.wants("c", 5, question=True).verdict is Verdict.ALLOW, "it comes before b"
    house.wants("c", 6)
    assert house.wants("b", 2).reason == "not-its-turn"
    assert house.wants("a", 5).verdict is Verdict.ALLOW


def test_a_rank_is_no_way_to_be_first_for_ever():
    house = full()
    ranked(house, c=-1_000)
    house.wants("c", 6)
    house.wants("b", 2)
    for _ in range(32):
        house.passes(10)
        house.wants("c", 6)
        house.wants("b", 2)
    assert house.line() == ["b", "c"]


@pytest.mark.parametrize("rank", [RuntimeError("odd"), "first", 1.0, True, 1_001, -1_001, None])
def test_a_rank_that_is_none_is_nought_and_counted(rank: Any):
    house = full()
    failed = ranked(house, a=rank)
    for name, wanted in (("b", 2), ("a", 5)):
        assert house.wants(name, wanted).verdict is Verdict.DENY
    assert house.line() == ["b", "a"]
    assert set(failed) == {("ranked", "rank")}


def test_one_policy_gives_ranks_and_none_that_only_audits():
    both = [Enlisted("one", Ranked({"c": -1})), Enlisted("other", Ranked({"a": -1}))]
    with pytest.raises(TwoOrdersError, match=r"^one, other: each gives ranks, and a line has one order; keep one"):
        Policies(both)
    house = full()
    house.gate.enlist(Policies([both[0], both[1]._replace(audits=True)]))
    for name, wanted in (("a", 5), ("b", 2), ("c", 6)):
        house.wants(name, wanted)
    assert house.line() == ["c", "b", "a"]


def test_a_changed_rank_is_news():
    house = full()
    ranked(house, b=1)
    house.wants("b", 2)
    said = house.gate.ledger.turns.sent()
    ranked(house, b=2)
    house.wants("b", 2)
    assert house.gate.ledger.turns.sent() != said


def test_a_child_without_that_limit_has_the_share_of_the_root():
    open_child = quota("b", {"pods": "99"}, parent="root", namespaces={"team": "b"})
    assert order_of(child("a", 100), open_child, has={"a": 6, "b": 4}, wants={"b": 9, "a": 9}) == ["a", "b"]
    assert order_of(child("a", 0), open_child, has={"a": 6, "b": 4}, wants={"b": 9}) == ["b"]


def test_what_counts_in_the_root_alone_has_its_share():
    house = House([quota("root", {GPU: "4"}, namespaces={}, turn_s=60), child("a")], {"a": 2, "z": 2})
    house.wants("z", 3)
    house.wants("a", 3)
    assert house.line() == ["a", "z"]


def test_growth_within_a_guarantee_is_not_held():
    house = House([root(10), child("a", guaranteed={GPU: "6"}), child("b")], {"a": 3, "b": 4})
    house.wants("b", 5)
    house.has("a", 5)
    assert house.wants("b", 5).refusal is Refusal.WAITING_FOR_ROOM
    assert house.wants("a", 6).verdict is Verdict.ALLOW
    assert house.line() == ["b"]
    house.has("a", 3)
    house.has("b", 3)
    house.passes(1)
    assert house.wants("a", 7).reason == "not-its-turn"


def test_what_is_within_its_own_guarantee_is_not_kept_twice():
    house = House([root(10), child("a", guaranteed={GPU: "4"}), child("b"), child("c")], {"a": 2, "b": 4, "c": 4})
    house.wants("a", 5)  # three more, two of them its own
    house.has("c", 1)
    house.has("b", 3)  # four are free; two are kept for the guarantee and one for a's turn
    assert house.wants("b", 4).verdict is Verdict.ALLOW
    assert house.wants("b", 5).reason == "not-its-turn"


def test_who_is_held_by_two_quotas_reads_the_first_of_them_and_the_last_of_its_places():
    quotas = [root(9), child("m", 4), child("a", parent="m"), child("b", parent="m"), child("c"), child("d")]
    house = House(quotas, {"a": 1, "b": 2, "c": 0, "d": 5})
    house.wants("a", 3)
    house.wants("c", 2)
    house.has("d", 4)
    found = house.wants("b", 3)
    assert found.reason == "not-its-turn"
    assert found.evidence.turn == Turn("root", 3, 30.0), "a waits for both, c for the root alone"


def test_the_largest_count_may_be_far_below_what_fits():
    house = full()
    house.wants("b", 5)
    house.has("c", 0)
    house.has("a", 3)
    assert house.wants("c", 9).evidence.fits == 6, "c is at zero, and comes first"
    house.has("c", 1)
    house.has("a", 4)
    assert house.wants("a", 11).evidence.fits == 4, "four are free, and b needs four"
    house.has("a", 1)
    house.has("c", 2)
    assert house.wants("c", 11).evidence.fits == 4, "six are free"


@pytest.mark.parametrize("turn_s", [300, None])
def test_where_a_limit_was_cut_what_is_there_may_stay(turn_s: int | None):
    house = full(turn_s)
    house.gate.load_quotas(QuotaTree.build([root(8, turn_s), child("a"), child("b"), child("c")]), 0.0)
    assert house.wants("c", 6).evidence.fits == 5


def test_who_waits_for_its_own_quota_holds_nobody_elsewhere():
    house = House([root(10), child("a", 2), child("b")], {"a": 2, "b": 5})
    house.gate.ledger.turns.tick(0.0)
    assert house.wants("a", 3).refusal is Refusal.EXCEEDS_HARD
    assert house.line() == []
    house = House([root(10), child("a", 3), child("b")], {"a": 2, "a-other": 1, "b": 5})
    assert house.wants("a", 3).refusal is Refusal.WAITING_FOR_ROOM
    assert (house.line("a"), house.line("b"), house.line()) == (["a"], [], ["a"])
    assert house.wants("b", 7).verdict is Verdict.ALLOW


def test_who_is_held_in_another_quota_stands_for_that_too():
    """It waited for one quota, and then for two: so it comes first in both, or in none."""
    house = House([root(12), child("a", 6), child("b")], {"a": 5, "a-other": 1, "b": 3})
    house.wants("a", 6)
    house.has("b", 4)
    house.wants("b", 10)  # six more; it has the smaller share
    house.has("a-other", 0)
    assert house.wants("a", 6).reason == "not-its-turn"
    assert [(one.ref.name, one.needs.keys()) for one in house.shown()] == [("b", {"root"}), ("a", {"a", "root"})]


def test_turns_hold_only_whom_the_quota_binds():
    only_b = {"include": {"users": ["b"]}}
    house = House([root(10, requesters=only_b), child("a"), child("b")], {"a": 4, "b": 5})
    asked = house.ask(scale("b", 8, namespace="b"), by=Requester("b"))
    house.gate.answered(asked, 0.0)
    assert house.line() == ["b"]
    assert house.ask(scale("a", 5, namespace="a"), by=Requester("a"), charge=False).verdict is Verdict.ALLOW
    house.has("a", 5)
    assert house.line() == ["b"]


def test_a_workload_of_two_trees_is_held_in_each_by_its_own_line():
    """Both cover a and b. The second has room for all."""
    other = quota("second", {GPU: "20"}, namespaces={}, turn_s=60)
    house = House([root(10), child("a"), child("b"), other], {"a": 5, "b": 4})
    house.wants("b", 9)
    assert (house.line(), house.line("second")) == (["b"], [])
    house.has("a", 3)
    house.has("b", 9)
    house.passes(1)
    house.gate.load_quotas(
        QuotaTree.build([root(13), child("a"), child("b"), quota("second", {GPU: "14"}, namespaces={}, turn_s=60)]), 1.0
    )
    assert house.wants("a", 6).reason == "exceeded-quota"
    assert set(house.line("second")) == {"a"}
    assert house.wants("b", 10).refusal is not None
    assert (house.line("second"), "b" in house.line()) == (["a"], True)


def test_a_resource_that_only_a_grandchild_limits_has_no_share():
    above = [
        quota("root", {"pods": "99"}, namespaces={"none": "such"}, turn_s=60),
        quota("a", {"pods": "99"}, parent="root", namespaces={"none": "such"}),
    ]
    house = House([*above, quota("low", {GPU: "4"}, parent="a", namespaces={"team": "a"})], {"a": 2, "a-other": 2})
    house.wants("a", 3)
    house.wants("a-other", 3)
    assert house.line("low") == ["a", "a-other"]


# What becomes of a place.


def granted_elsewhere(house: House, name: str, replicas: int) -> None:
    house.gate.ledger.turns.granted(House.ref(name), replicas)


@pytest.mark.parametrize(
    ("then", "line"),
    [
        pytest.param(lambda house: house.wants("b", 1), ["b"], id="the-same-count-says-nothing"),
        pytest.param(lambda house: house.wants("b", 0), [], id="it-wants-less"),
        pytest.param(lambda house: house.wants("b", 11), [], id="it-can-never-fit"),
        pytest.param(lambda house: house.gate.observe(House.ref("b"), None), [], id="it-is-gone"),
        pytest.param(lambda house: house.passes(60), ["b"], id="it-is-silent-for-a-minute"),
        pytest.param(lambda house: house.passes(61), [], id="it-is-silent-for-longer"),
        pytest.param(lambda house: granted_elsewhere(house, "b", 4), ["b"], id="another-gate-grants-less"),
        pytest.param(lambda house: granted_elsewhere(house, "b", 5), [], id="another-gate-grants-it"),
        pytest.param(lambda house: granted_elsewhere(house, "c", 9), ["b"], id="another-gate-grants-somebody-else"),
    ],
)
def test_a_place_ends_with_what_it_waits_for(then: Callable[[House], object], line: list[str]):
    house = full()
    house.wants("b", 5)
    then(house)
    house.passes(0)
    assert house.line() == line


@pytest.mark.parametrize(("has", "wants"), [(2, 1), (0, 0)])
def test_it_leaves_when_it_wants_less_than_it_has_or_none(has: int, wants: int):
    house = House([root(4), child("a"), child("b")], {"a": 4, "b": has})
    house.wants("b", has + 1)
    assert house.line() == ["b"]
    house.wants("b", wants)
    assert house.line() == []


def test_what_one_of_its_quotas_can_never_hold_does_not_wait_for_the_others():
    house = House([root(8), child("a"), child("c", 6)], {"a": 3, "c": 5})
    assert house.wants("c", 7).verdict is Verdict.DENY
    assert house.line() == []


def test_questions_and_creates_take_no_place():
    house = full()
    house.wants("b", 5, question=True)
    plain = scale("b", 5, namespace="b")
    dry = plain._replace(target=plain.target + "?dryRun=All")
    house.gate.answered(house.ask(dry), 0.0)
    made = house.ask(create(workload("new", 3, {"nvidia.com/gpu": "1"}, namespace="b")))
    house.gate.answered(made, 0.0)
    assert (made.refusal, house.line()) == (Refusal.WAITING_FOR_ROOM, [])


def test_a_gate_that_audits_has_no_line():
    house = full()
    found = house.wants("b", 5, question=True)
    house.gate.answered(found._replace(verdict=Verdict.ALLOW, would=Verdict.DENY), 0.0)
    assert house.line() == []


@pytest.mark.parametrize("has_room", [True, False])
@pytest.mark.parametrize(("every_s", "waits_s"), [(2, 4), (15, 30), (45, 90)], ids=["KPA", "HPA", "slow"])
def test_who_is_silent_for_two_intervals_leaves(every_s: int, waits_s: int, has_room: bool):
    house = full()
    for _ in range(3):
        house.wants("b", 5)
        house.passes(every_s)
    house.wants("b", 5)
    if has_room:
        house.has("c", 1)
    house.wants("b", 1)  # the same count: no ask
    house.passes(waits_s)
    assert house.line() == ["b"]
    house.passes(1)
    assert house.line() == []


def test_an_ask_that_comes_twice_at_once_is_one():
    house = full()
    for _ in range(3):
        house.wants("b", 5)
        house.passes(0.5)
        house.wants("b", 5)
        house.passes(14.5)
    assert house.shown()[0].again_s == 15.0


def test_who_was_first_for_its_turn_goes_to_the_end():
    house = full(turn_s=60)
    for _ in range(5):
        house.wants("b", 9)
        house.wants("c", 6)
        house.passes(15)
        assert house.line() == ["b", "c"]
    house.passes(1)
    assert house.line() == ["c", "b"]
    house.wants("a", 9)
    assert house.line() == ["c", "b", "a"], "who comes then is behind it"


def test_a_turn_begins_anew_when_somebody_else_was_first():
    house = full(turn_s=60)
    asks = ["c", "c", "c", "bc", "bc", "c", "c", "c", "c", "c"]  # b comes before c while it asks
    for names in asks:
        for name in names:
            house.wants(name, 9)
        house.passes(15)
    assert house.gate.ledger.turns.lines["root"].waiters[House.ref("c")].laps == 0
    assert house.line() == ["c"]


def test_a_changed_wish_is_what_is_kept():
    house = full()
    house.wants("b", 9)
    house.wants("b", 2)
    house.has("c", 3)
    assert house.wants("c", 4).verdict is Verdict.ALLOW


def test_in_mode_clamp_one_replica_is_waited_for():
    quotas = [root(10, mode="Clamp"), child("a"), child("b"), child("c")]
    house = House(quotas, {"a": 4, "b": 1, "c": 5})
    refused = house.wants("b", 9)
    assert (refused.refusal, house.shown()[0].needs) == (Refusal.WAITING_FOR_ROOM, {"root": {GPU: NANO}})
    never = house.wants("b", 40)
    assert (never.refusal, house.line()) == (Refusal.WAITING_FOR_ROOM, ["b"])
    house.has("c", 4)
    assert house.wants("c", 5).reason == "not-its-turn"
    house.has("c", 3)
    assert house.wants("c", 4).verdict is Verdict.ALLOW


def lowered(house: House, name: str, replicas: int) -> tuple[int, str] | None:
    """To what a count is lowered, and the sentence; ``None``: it is left as it is."""
    found = house.gate.clamp(read(put_scale(name, replicas, "2", namespace=name)), "x", 0.0)
    return (found.todo.to, found.sentence) if found is not None and isinstance(found.todo, Lower) else None


def test_where_there_is_room_for_all_of_it_a_count_is_lowered_to_what_the_line_leaves():
    house = House([root(10, mode="Clamp"), child("a"), child("b"), child("c")], {"a": 4, "b": 1, "c": 5})
    house.wants("b", 9)
    house.has("c", 2)
    assert house.wants("c", 5, question=True).reason == "not-its-turn"
    in_line = "2nd in line for workspace quota root"
    assert lowered(house, "c", 5) == (4, f'deployments.apps "c" asked for 5 replicas and may have 4: {in_line}')
    house.has("c", 4)
    assert lowered(house, "c", 5) is None, "nothing is left to it"


def test_where_one_quota_refuses_for_all_of_it_all_of_it_is_waited_for():
    house = House([root(12), child("a"), child("c", 8, mode="Clamp")], {"a": 4, "c": 5, "c-2": 3})
    house.wants("c", 8)
    assert [one.needs for one in house.shown()] == [{"root": {GPU: 3 * NANO}, "c": {GPU: 3 * NANO}}]


def test_a_rank_counts_where_a_count_is_lowered():
    house = House([root(10, mode="Clamp"), child("a"), child("b"), child("c")], {"a": 4, "b": 1, "c": 5})
    house.wants("b", 9)
    house.has("c", 2)
    ranked(house, c=-1)
    assert lowered(house, "c", 5) is None, "all of it is granted"
    assert lowered(house, "c", 6) == (5, ANY)
    ranked(house, c=1)
    assert lowered(house, "c", 5) == (4, ANY)


@pytest.mark.parametrize(
    ("mode", "own", "asked", "count"),
    [
        pytest.param("Clamp", 7, 7, 6, id="all-clamp-and-there-is-room"),
        pytest.param("Clamp", 6, 7, 6, id="all-clamp"),
        pytest.param("Enforce", 7, 5, None, id="it-is-kept-where-counts-are-refused"),
        pytest.param("Enforce", 4, 5, None, id="so-it-is-where-another-has-no-room"),
        pytest.param("Enforce", 3, 4, 3, id="enough-is-left"),
    ],
)
def test_every_quota_that_keeps_for_others_must_clamp(mode: str, own: int, asked: int, count: int | None):
    """The root has five more. In mode Clamp it keeps one of them for b, else three."""
    quotas = [root(12, mode=mode), child("a"), child("b"), child("c", own, mode="Clamp")]
    house = House(quotas, {"a": 4, "b": 1, "c": 5})
    house.wants("b", 4)
    house.has("c", 2)
    found = lowered(house, "c", asked)
    assert (found and found[0]) == count


# Bounds.


def test_a_line_is_bounded_by_child_by_tree_and_in_all():
    names = [f"{team}-{number}" for team in "abcdefghijklmnopq" for number in range(MAX_IN_CHILD + 1)]
    house = House([root(len(names)), *map(child, "abcdefghijklmnopq")], dict.fromkeys(names, 1))
    for name in names:
        house.wants(name, 2)
    found = house.line()
    assert len(found) == MAX_IN_TREE == 256
    assert sum(one.startswith("a-") for one in found) == MAX_IN_CHILD == 16
    assert house.wants("q-16", 2).refusal is Refusal.WAITING_FOR_ROOM
    assert MAX_IN_ALL == 1024


# Quotas change.


def test_a_line_stays_as_long_as_its_tree_has_turns():
    house = full()
    house.wants("b", 5)
    quotas = [root(11), child("a"), child("b"), child("c")]
    house.gate.load_quotas(QuotaTree.build(quotas), 1.0)
    assert house.line() == ["b"]
    house.gate.load_quotas(QuotaTree.build([root(10, None), *quotas[1:]]), 2.0)
    assert house.line() == []
    house.gate.load_quotas(QuotaTree.build(quotas), 3.0)
    assert house.line() == []
    house.gate.ledger.turns.stand(House.ref("b"), place("other"), 3.0)
    assert house.line() == []


def place(tree: str):
    return Place(tree, ("b",), {tree: {GPU: NANO}}, False, 2, 0)


# Other gates.


def test_another_gate_takes_a_line_with_the_times_of_all():
    house, other = full(), full()
    house.wants("c", 9)
    house.passes(10)
    house.wants("b", 5)
    told(house, other)
    other.passes(10)
    assert [(one.ref.name, one.waits_s) for one in other.shown()] == [("b", 0.0), ("c", 10.0)]


def test_a_line_that_comes_before_the_quotas_waits_for_them():
    house, other = full(), gate([])
    house.wants("b", 5)
    other.ledger.turns.taken(house.gate.ledger.turns.texts(), 0.0)
    other.load_quotas(house.gate.ledger.coverage.tree, 0.0)
    assert [one.ref.name for one in other.ledger.turns.waiting("root", 0.0)] == ["b"]


@pytest.mark.parametrize(
    "places", [{"x": "[]"}, {"root/apps/deployments/b/b": "[1]"}, {"root/apps/deployments/b/b": "nothing"}]
)
def test_a_line_that_no_gate_wrote_is_refused(places: dict[str, str]):
    with pytest.raises(ValueError, match="not as gates write it"):
        full().gate.ledger.turns.taken(places, 0.0)


def told(one: House, other: House) -> None:
    """One gate writes the object, and another sees it."""
    texts, sent = one.gate.ledger.turns.texts(), one.gate.ledger.turns.sent()
    one.gate.ledger.turns.taken(texts, one.ask.now_s, sent)
    other.gate.ledger.turns.taken(texts, other.ask.now_s)


def in_line_at_both(turn_s: int = 300, wants: int = 5) -> tuple[House, House]:
    """b waits at the first gate, and the second one has heard of it."""
    one, other = full(turn_s), full(turn_s)
    one.wants("b", wants)
    told(one, other)
    return one, other


def test_how_many_wait_is_known_of_each_quota_at_once():
    house = House([root(9), child("a"), child("b"), child("c", 5)], {"a": 4, "b": 0, "c": 5})
    turns, nodes = house.gate.ledger.turns, {node.quota.name: node for node in house.gate.ledger.coverage.tree.nodes}
    house.wants("b", 1)
    house.has("c-2", 0)
    house.wants("c-2", 1)
    house.has("c-3", 0)
    house.wants("c-3", 1)
    assert [turns.number(nodes[name]) for name in ("c", "a", "root")] == [2, 0, 3]
    assert turns.waiting("root", -5.0)[0].waits_s == 0.0


def test_to_go_to_the_end_is_news():
    one, _ = in_line_at_both(wants=9)
    one.gate.ledger.turns.tick(1.0)
    for _ in range(31):
        one.wants("b", 9)
        one.passes(10)
    assert one.gate.ledger.turns.lines["root"].waiters[one.ref("b")].laps == 1
    one.gate.ledger.turns.taken(one.gate.ledger.turns.texts(), one.ask.now_s)
    assert one.gate.ledger.turns.has_news, "it was not written yet"


def test_the_time_of_the_last_ask_is_said_again_after_five_minutes_by_the_gate_that_is_asked():
    one, other = in_line_at_both(turn_s=3600)
    for _ in range(29):
        one.passes(10)
        one.wants("b", 5)
        other.passes(10)
    assert (one.gate.ledger.turns.has_news, other.gate.ledger.turns.has_news) == (False, False)
    for house in (one, other):
        house.passes(10)
        house.passes(1)
    assert (one.gate.ledger.turns.has_news, other.gate.ledger.turns.has_news) == (True, False)


def test_a_place_that_came_from_another_gate_may_end_here():
    _, other = in_line_at_both()
    other.gate.ledger.turns.leave(other.ref("b"))
    assert other.gate.ledger.turns.has_news


def test_a_place_that_is_told_anew_is_taken_anew():
    one, other = in_line_at_both()
    other.gate.ledger.turns.untold()
    other.gate.ledger.turns.leave(other.ref("b"))
    told(one, other)
    assert other.line() == ["b"]


def test_a_place_that_ends_while_it_is_written_does_not_come_back():
    one, other = full(), full()
    one.wants("b", 5)
    texts, sent = one.gate.ledger.turns.texts(), one.gate.ledger.turns.sent()
    one.wants("b", 0)
    one.gate.ledger.turns.taken(texts, one.ask.now_s, sent)
    assert (one.line(), one.gate.ledger.turns.has_news) == ([], True)
    other.gate.ledger.turns.taken(texts, other.ask.now_s)
    told(one, other)
    assert (one.line(), other.line(), one.gate.ledger.turns.has_news) == ([], [], False)


def test_gates_agree_who_went_to_the_end():
    one, other = full(turn_s=60), full(turn_s=60)
    one.wants("b", 9)
    one.wants("c", 9)
    told(one, other)
    for house in (one, other):
        house.passes(0)
    for _ in range(5):
        one.wants("b", 9)
        one.wants("c", 9)
        one.passes(15)
    told(one, other)
    other.ask.now_s = 75.0
    assert one.line() == other.line() == ["c", "b"]
    other.wants("b", 8)
    told(one, other)
    assert other.shown()[1].replicas == 8


def test_who_went_to_the_end_here_stays_there_whatever_others_say_of_before():
    one, other = in_line_at_both(wants=9)
    waiter = other.gate.ledger.turns.lines["root"].waiters[House.ref("b")]
    waiter.to_the_end(5)
    one.wants("b", 8)
    told(one, other)
    assert (waiter.laps, waiter.since_ms) == (1, 5)


def test_what_asks_another_gate_is_not_silent():
    one, other = full(3600), full(3600)
    for _ in range(61):
        one.wants("b", 5)
        one.passes(15)
        other.passes(15)
        if one.gate.ledger.turns.has_news:
            told(one, other)
    assert other.line() == ["b"]
    other.passes(601)
    assert other.line() == []


def test_what_still_asks_here_stays_though_another_gate_takes_it_for_silent():
    one, other = full(), full()
    for house in (one, other):
        house.wants("b", 5)
    told(one, other)
    told(other, one)
    for _ in range(5):
        one.passes(15)
        other.passes(15)
        one.wants("b", 5)
    assert other.line() == []
    told(other, one)
    assert (one.line(), one.gate.ledger.turns.has_news) == (["b"], True)
    told(one, other)
    assert other.line() == ["b"]


def dearer(house: House, gpus: int) -> None:
    """An object of b with two replicas, of so many GPUs each, is put to it and answered."""
    made = workload("b", 2, {"nvidia.com/gpu": str(gpus)}, namespace="b")
    asked = Request("PUT", path("b", namespace="b"), {"content-type": "application/json"}, json.dumps(made).encode())
    house.gate.answered(house.ask(asked), house.ask.now_s)


@pytest.mark.parametrize(
    ("ends", "line"),
    [
        pytest.param(lambda house: house.wants("b", 2), ["b"], id="a-count-is-granted"),
        pytest.param(lambda house: house.wants("b", 0), ["b"], id="a-count-asks-for-less"),
        pytest.param(lambda house: house.wants("b", 200), ["b"], id="a-count-never-fits"),
        pytest.param(
            lambda house: house.gate.ledger.turns.granted(house.ref("b"), 2), ["b"], id="another-gate-grants-it"
        ),
        pytest.param(
            lambda house: house.gate.ledger.turns.granted(house.ref("b"), 2, by_count=False), [], id="with-an-object"
        ),
        pytest.param(lambda house: dearer(house, 2), [], id="the-object-is-granted"),
    ],
)
def test_a_count_ends_only_a_place_that_waits_for_a_count(ends: Callable[[House], object], line: list[str]):
    house = full()
    dearer(house, 4)
    assert house.line() == ["b"], "it waits for a dearer template"
    house.has("c", 1)
    ends(house)
    assert house.line() == line


def test_other_gates_know_what_a_place_waits_for():
    house, other = full(), full()
    dearer(house, 4)
    told(house, other)
    other.gate.ledger.turns.granted(other.ref("b"), 2)
    assert other.line() == ["b"]


def news(house: House) -> bool:
    """Whether there is something to be told, once another gate has written what this one had said last."""
    turns = house.gate.ledger.turns
    turns.taken(turns.texts(), house.ask.now_s)
    return turns.has_news


def test_that_a_turn_has_passed_is_told():
    one, _ = in_line_at_both(turn_s=60, wants=9)
    for _ in range(8):
        one.passes(10)
        one.wants("b", 9)
        assert one.gate.ledger.turns.has_news == (one.ask.now_s == 80)
    assert one.gate.ledger.turns.lines["root"].waiters[one.ref("b")].laps == 1
    assert news(one)


def test_what_another_gate_has_said_of_an_ask_is_not_said_again_here():
    one, other = in_line_at_both(turn_s=3600)
    for number in range(31):
        one.ask.now_s += 10
        if number == 20:
            other.ask.now_s = one.ask.now_s
            other.wants("b", 6)
            told(other, one)
        one.wants("b", 6 if number >= 20 else 5)
        one.passes(0)
    assert not one.gate.ledger.turns.has_news


def test_a_tree_without_turns_holds_nobody():
    plain = quota("plain", {GPU: "11"}, namespaces={})
    house = House([root(10), child("a"), child("b"), child("c"), plain], {"a": 4, "b": 1, "c": 5})
    house.wants("b", 5)
    house.has("c", 0)
    assert house.wants("c", 1).verdict is Verdict.ALLOW
    nodes = {node.quota.name: node for node in house.gate.ledger.coverage.tree.nodes}
    assert house.gate.ledger.turns.number(nodes["plain"]) == 0


def test_an_end_is_told_though_quotas_changed_meanwhile():
    house = full()
    house.wants("b", 5)
    told(house, full())
    house.wants("b", 0)
    house.gate.load_quotas(QuotaTree.build([root(11), child("a"), child("b"), child("c")]), 1.0)
    assert house.gate.ledger.turns.has_news


def test_of_texts_with_a_bad_one_none_is_taken():
    one, other = full(), full()
    one.wants("b", 5)
    texts = {**one.gate.ledger.turns.texts(), "root/apps/deployments/c/c": "[]"}
    with pytest.raises(ValueError, match="not as gates write it"):
        other.gate.ledger.turns.taken(texts, 0.0)
    assert other.line() == []


def test_nothing_is_said_again_before_five_minutes():
    one, other = full(3600), full(3600)
    one.passes(1000)
    other.passes(1000)
    one.wants("b", 5)
    told(one, other)
    one.passes(10)
    one.wants("b", 5)
    one.passes(1)
    assert not one.gate.ledger.turns.has_news


TWO_TREES = [root(10), child("a"), quota("second", {GPU: "10"}, namespaces={"team": "a"}, turn_s=60)]


@pytest.mark.parametrize("ends", ["leave", "granted"])
def test_of_two_trees_it_leaves_the_one_that_it_waits_in(ends: str):
    house = House(TWO_TREES, {"a": 2})
    turns, ref = house.gate.ledger.turns, House.ref("a")
    turns.stand(ref, place("second"), 0.0)
    assert (house.line(), house.line("second")) == ([], ["a"])
    turns.leave(ref) if ends == "leave" else turns.granted(ref, 2)
    assert house.line("second") == []


def test_who_counts_in_two_children_stands_where_both_have_a_place():
    turns = full().gate.ledger.turns
    for number in range(MAX_IN_CHILD):
        turns.stand(House.ref(f"a-{number}"), place("root")._replace(children=("a",)), 0.0)
    turns.stand(House.ref("c"), place("root")._replace(children=("a", "c")), 0.0)
    assert House.ref("c") not in turns.lines["root"].waiters
    turns.stand(House.ref("c"), place("root")._replace(children=("c",)), 0.0)
    assert House.ref("c") in turns.lines["root"].waiters


def test_all_lines_together_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("extauthz.core.ledger.line.MAX_IN_ALL", 2)
    house = full()
    for name in ("a", "b", "c"):
        house.wants(name, 9)
    assert len(house.line()) == 2


def test_a_turn_goes_on_though_another_gate_tells_of_its_asks():
    one, other = full(turn_s=60), full(turn_s=3600)
    one.wants("b", 9)
    told(one, other)
    for number in range(8):
        one.passes(10)
        other.passes(10)
        other.wants("b", 8 - number % 2)
        told(other, one)
    assert one.gate.ledger.turns.lines["root"].waiters[one.ref("b")].laps == 1


def test_what_another_gate_was_asked_for_last_is_known_here_unless_this_one_was_asked_since():
    one, other = in_line_at_both()
    one.wants("b", 3)
    told(one, other)
    assert (other.shown()[0].replicas, other.shown()[0].needs) == (3, {"root": {GPU: 2 * NANO}})
    other.wants("b", 4)
    one.wants("b", 6)
    told(one, other)
    assert other.shown()[0].replicas == 4


def test_who_asked_two_gates_waits_since_the_first():
    one, other = full(), full()
    one.wants("b", 5)
    one.passes(10)
    other.passes(10)
    other.wants("b", 5)
    told(one, other)
    assert other.shown()[0].waits_s == 10.0


def test_who_left_another_gate_and_came_again_waits_since_then():
    one, other = in_line_at_both()
    other.wants("b", 0)
    other.passes(20)
    one.passes(20)
    other.wants("b", 5)
    told(other, one)
    assert one.shown()[0].waits_s == 0.0


def test_what_ended_here_does_not_come_back_when_it_is_told_once_more():
    one, other = in_line_at_both()
    other.gate.ledger.turns.leave(other.ref("b"))
    one.wants("b", 6)
    told(one, other)
    assert (other.line(), other.gate.ledger.turns.has_news) == ([], True)


@pytest.mark.parametrize("wants", [5, 0])
def test_a_gate_without_turns_has_nothing_to_tell(wants: int):
    assert not gate([]).ledger.turns.has_news
    house = full()
    house.wants("b", 5)
    told(house, full())
    house.wants("c", 9)
    house.wants("b", wants)
    house.gate.load_quotas(QuotaTree.build([root(10, None), child("a"), child("b"), child("c")]), 1.0)
    assert not house.gate.ledger.turns.has_news


def test_the_time_of_the_last_ask_is_news_until_it_is_written():
    one, _ = in_line_at_both(turn_s=3600)
    for _ in range(31):
        one.passes(10)
        one.wants("b", 5)
    assert news(one)


def test_a_place_that_a_lost_object_had_is_told_by_whoever_knows_it():
    _, other = in_line_at_both()
    other.gate.ledger.turns.untold()
    other.gate.ledger.turns.taken({}, other.ask.now_s)
    assert (other.line(), other.gate.ledger.turns.has_news) == (["b"], True)


def test_an_end_that_another_gate_has_told_is_no_news():
    one, _ = in_line_at_both()
    one.wants("b", 0)
    assert one.gate.ledger.turns.has_news
    one.gate.ledger.turns.taken({}, one.ask.now_s)
    assert not one.gate.ledger.turns.has_news


def test_where_nobody_knows_the_line_it_is_told_anew():
    one, _ = in_line_at_both()
    one.gate.ledger.turns.untold()
    assert one.gate.ledger.turns.has_news
    one.gate.ledger.turns.taken({}, 0.0)
    assert one.line() == ["b"]


# Properties.

TEAMS = ("a", "b", "c")
asks = st.lists(st.tuples(st.sampled_from(TEAMS), st.integers(0, 9), st.sampled_from((0, 1, 7, 40))), max_size=25)


@settings(max_examples=150, deadline=None)
@given(asks)
def test_turns_only_refuse_what_would_be_granted(writes: list[tuple[str, int, int]]):
    """And questions change nothing: who asks them first gets the same answers."""
    house, asked = full(30), full(30)
    for name, replicas, later_s in writes:
        plain = House([root(10, None), *map(child, TEAMS)], {team: seen(house, team) for team in TEAMS})
        question = asked.wants(name, replicas, question=True)
        found = house.wants(name, replicas)
        same = asked.wants(name, replicas)
        assert (question.verdict, question.reason, question.evidence) == (same.verdict, same.reason, same.evidence)
        assert (found.verdict, found.reason) == (same.verdict, same.reason)
        alone = plain.wants(name, replicas)
        assert found.verdict is not Verdict.ALLOW or alone.verdict is Verdict.ALLOW
        assert found.reason in (alone.reason, "not-its-turn")
        for one in (house, asked):
            if found.verdict is Verdict.ALLOW:
                one.has(name, replicas)
            one.passes(later_s)
        assert house.line() == asked.line()


def seen(house: House, team: str) -> int:
    entry = house.gate.ledger.get(House.ref(team))
    return entry.observed.replicas


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from([f"{team}-{number}" for team in TEAMS for number in range(3)]), st.integers(1, 6)),
    st.integers(6, 10),
    st.randoms(use_true_random=False),
)
def test_everybody_gets_what_it_waits_for(wants: dict[str, int], hard: int, random: Any):
    """No two hold each other: as long as room comes back, each is granted within its turn."""
    quotas = [root(hard), child("a", 6), child("b", 6), child("c", 6)]
    house = House(quotas, dict.fromkeys(wants, 0))
    open_ones, rounds = dict(wants), 0
    while open_ones:
        rounds += 1
        assert rounds <= 2 * len(wants) + 1, open_ones
        names = sorted(open_ones)
        random.shuffle(names)
        granted = [name for name in names if house.wants(name, open_ones[name]).verdict is Verdict.ALLOW]
        assert granted, "the first of all is held by nobody"
        for name in granted:  # it runs, and ends
            del open_ones[name]
            house.has(name, 0)
        house.passes(2)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(("ask", "less", "write", "other", "lost")), max_size=20))
def test_two_gates_come_to_agree(events: list[str]):
    one, other = full(), full()
    for event in events:
        if event == "ask":
            one.wants("b", 5)
        elif event == "less":
            one.wants("b", 0)
        elif event == "other":
            other.wants("c", 9)
        elif event == "write":
            told(one, other)
        else:
            one.gate.ledger.turns.sent()
    told(one, other)
    told(other, one)
    told(one, other)
    assert one.line() == other.line()
    assert ("b" in one.line()) is ("ask" in events and last(events, "ask") > last(events, "less"))
    assert not one.gate.ledger.turns.has_news
    assert not other.gate.ledger.turns.has_news


def last(events: list[str], event: str) -> int:
    return max((number for number, one in enumerate(events) if one == event), default=-1)
