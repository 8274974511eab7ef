"""``spec.overrides``: other amounts between two moments, and clocks that are off."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extauthz.core.quota.overrides import MARGIN_S
from extauthz.core.quota.spec import QuotaSpecError, WorkspaceQuota, parse, salvage
from extauthz.core.quota.tree import QuotaTree
from extauthz.core.texts import seconds, stamp

BEGIN, END = "2027-02-01T00:00:00Z", "2027-02-01T01:00:00Z"
AT = 1801440000.0
PODS = 10**9


def tree(*overrides: Any, **spec: Any) -> Any:
    spec = {
        "hard": {"pods": "8", "requests.cpu": "4"},
        "guaranteed": {"pods": "2"},
        "overrides": list(overrides),
    } | spec
    return {"apiVersion": "extauthz.dev/v1alpha1", "kind": "WorkspaceQuota", "metadata": {"name": "acme"}, "spec": spec}


def override(**fields: Any) -> Any:
    return {"name": "launch", "from": BEGIN, "until": END, "hard": {"pods": "12"}, "reason": "a launch"} | fields


def refused(*overrides: Any, **spec: Any) -> list[str]:
    with pytest.raises(QuotaSpecError) as caught:
        parse(tree(*overrides, **spec))
    return sorted(map(str, caught.value.problems))


def test_it_is_read_with_its_times():
    (one,) = parse(tree(override(guaranteed={"requests.cpu": "1"}))).overrides
    assert (one.name, one.from_s, one.until_s, one.reason) == ("launch", AT, AT + 3600, "a launch")
    assert (one.hard, one.guaranteed) == ({"pods": 12 * PODS}, {"requests.cpu": PODS})
    (plain,) = parse(tree({key: value for key, value in override().items() if key != "reason"})).overrides
    assert (plain.reason, plain.guaranteed) == ("", {})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2027-02-01T00:00:00Z", AT), ("2027-02-01t01:00:00.5+01:00", AT + 0.5), ("2027-02-01T00:00:00", None),
        ("2027-02-30T00:00:00Z", None), ("2027-02-01", None), ("2027-02-01 00:00:00Z", None), ("tomorrow", None),
    ],
)  # fmt: skip
def test_a_time_is_one_of_rfc_3339_with_a_zone(text: str, found: float | None):
    assert seconds(text) == found


def test_a_time_is_shown_in_utc():
    assert stamp(AT, "seconds") == BEGIN


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ([override(until=BEGIN)], "spec.overrides.[0].until: it is not after from; write a later time"),
        ([override(**{"from": "2027-02-01T00:00:00"})], "is not a time of RFC 3339; write for example 2027-02-01T12:"),
        ([override(**{"from": None})], "spec.overrides.[0].from: null is not a string; give it a value"),
        ([override(hard={"requests.memory": "1"})], "spec.overrides.[0].hard[requests.memory]: spec.hard does not"),
        ([override(guaranteed={"count/pods": 1})], "guaranteed[count/pods]: spec.hard does not limit it; write a"),
        ([override(hard={"pods": "1"})], "spec.overrides.[0].hard.pods: 2 is guaranteed then, and hard is 1"),
        ([override(guaranteed={"pods": 13})], "guaranteed.pods: 13 is guaranteed then, and hard is 12; change"),
        ([override(hard={"pods": "much"})], "spec.overrides.[0].hard.pods: 'much' is not a quantity"),
        ([override(until="2027")], "spec.overrides.[0].until: '2027' is not a time of RFC 3339"),
        ([override(), override()], 'spec.overrides.[1].name: there is another override "launch"; rename or remove one'),
        ([override(), override(name="b")], 'spec.overrides.[1]: "launch" holds at the same time, with pods too; let'),
        ([override(when="now")], 'spec.overrides.[0].when: unknown field "when"; known fields: name, from'),
        ([override(name=str(n)) for n in range(17)], "there are 17 overrides; write at most 16 in a quota"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_place_and_cure(overrides: Any, problem: str):
    assert problem.replace(".[", "[") in "\n".join(refused(*overrides))


def test_as_many_as_are_allowed_are_read():
    hours = [f"2027-02-01T{hour:02}:00:00Z" for hour in range(17)]
    many = [override(name=str(n), **{"from": hours[n], "until": hours[n + 1]}) for n in range(16)]
    assert len(parse(tree(*many)).overrides) == 16


def test_all_of_a_limit_may_be_guaranteed():
    (one,) = parse(tree(override(guaranteed={"pods": 12}))).overrides
    assert one.guaranteed == one.hard


def test_it_says_when_it_ends_or_begins():
    (one,) = parse(tree(override())).overrides
    named = {"name": "launch", "reason": "a launch"}
    assert one.told(ends=True) == {**named, "until": END}
    assert one.told(ends=False) == {**named, "from": BEGIN}


def test_two_may_follow_each_other_or_differ_in_keys():
    after = override(name="after", **{"from": END, "until": "2027-02-01T02:00:00Z"})
    beside = override(name="beside", hard={"requests.cpu": "1"})
    assert len(parse(tree(override(), after, beside)).overrides) == 3
    assert len(parse(tree(after, override())).overrides) == 2


def test_of_a_bad_spec_none_is_left():
    assert salvage(tree(override(until=BEGIN))).overrides == ()


def test_near_an_edge_the_smaller_limit_and_the_larger_guarantee_hold():
    quota = parse(tree(override(guaranteed={"pods": "5"})))

    def at(wall_s: float) -> tuple[int, int]:
        return quota.hard_at(wall_s)["pods"] // PODS, quota.guaranteed_at(wall_s)["pods"] // PODS

    spec, launch, edge = (8, 2), (12, 5), (8, 5)
    assert [at(AT + off) for off in (-5.5, -5, 0, 4.9, 5, 3594.9, 3595, 3600, 3604.9, 3605)] == [
        spec, edge, edge, edge, launch, launch, edge, edge, edge, spec,
    ]  # fmt: skip


def test_one_that_is_shorter_than_the_margin_lowers_and_never_raises():
    short = {"from": BEGIN, "until": "2027-02-01T00:00:02Z"}
    lower = parse(tree(override(hard={"pods": "3"}, **short)))
    higher = parse(tree(override(hard={"pods": "12"}, **short)))
    assert {off: lower.hard_at(AT + off)["pods"] // PODS for off in (-6, -4, 1, 6.9, 7)} == {
        -6: 8,
        -4: 3,
        1: 3,
        6.9: 3,
        7: 8,
    }
    assert {higher.hard_at(AT + off)["pods"] // PODS for off in (-6, -4, 1, 6, 8)} == {8}


def quotas() -> list[WorkspaceQuota]:
    return [parse(tree(override(guaranteed={"pods": "5"}))), WorkspaceQuota("zoo", hard={"pods": PODS})]


@pytest.mark.parametrize(
    ("off", "lasts", "hard", "now", "then"),
    [
        (-9, (-inf, -5), 8, None, "launch"),
        (-1, (-5, 0), 8, None, "launch"),
        (1, (0, 5), 8, "launch", None),
        (5, (5, 3595), 12, "launch", None),
        (3604, (3600, 3605), 8, None, None),
        (3605, (3605, inf), 8, None, None),
    ],
)
def test_a_tree_says_how_long_its_amounts_hold(off: float, lasts: Any, hard: int, now: Any, then: Any):
    written = QuotaTree.build(quotas())
    found = written.at(AT + off)
    assert found.lasts == (AT + lasts[0], AT + lasts[1])
    acme = found.nodes[0]
    assert acme.hard["pods"] == hard * PODS
    assert (acme.override and acme.override.name, acme.next_override and acme.next_override.name) == (now, then)
    assert found.at(AT - 9).nodes[0].hard["pods"] == 8 * PODS, "a tree of one time is as good as what was written"


def test_without_overrides_a_tree_is_the_same_at_all_times():
    plain = QuotaTree.build([WorkspaceQuota("zoo")])
    assert plain.at(AT) is plain
    assert plain.lasts is None


@given(st.floats(-10, 3620), st.floats(-MARGIN_S, MARGIN_S))
def test_a_clock_that_is_off_by_the_margin_never_believes_in_more_than_there_is(off: float, skew: float):
    quota = parse(tree(override(guaranteed={"pods": "5"}), override(name="b", hard={"requests.cpu": "1"})))
    true = dict(quota.hard)
    for one in quota.overrides:
        true |= one.hard if one.holds(AT + off) else {}
    believed = quota.hard_at(AT + off + skew)
    assert all(believed[key] <= true[key] for key in true)


@pytest.mark.parametrize("amounts", [{}, {"hard": {}}, {"hard": None, "guaranteed": {}}])
def test_an_override_without_amounts_is_refused(amounts: Any):
    times = {key: value for key, value in override().items() if key not in ("hard", "guaranteed")}
    assert any("it has no amounts, so it changes nothing" in problem for problem in refused(times | amounts))
