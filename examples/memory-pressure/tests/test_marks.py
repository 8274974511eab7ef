"""A pool of nodes holds growth from its upper mark on, and lets it go from its lower one down, in steps."""

from __future__ import annotations

import pytest
from memory_pressure.marks import Marks, Next, Pausing, Pool

MARKS = Marks(upper=90, lower=80, patience=2, step=2)


def pool(*uses: int) -> Pool:
    """One that was looked at with each use (percent), a second apart."""
    made = Pool(MARKS, forget_s=10)
    for second, use in enumerate(uses):
        made.look(use, 100, second)
    return made


def line(held: Pool, *names: str, now_s: float = 0) -> None:
    for name in names:
        held.turned_away(name, now_s)


@pytest.mark.parametrize(
    ("uses", "is_held"),
    [
        ((), False),
        ((89,), False),
        ((90,), True),
        ((100, 89), True),
        ((100, 81), True),
        ((100, 80), False),
        ((85,), False),
        ((100, 80, 85), False),
    ],
)
def test_a_pool_is_held_from_its_upper_mark_until_its_lower_one(uses, is_held):
    assert pool(*uses).is_held is is_held
    assert pool(*uses).passes("web") is not is_held


def test_marks_are_compared_exactly_where_a_percent_is_no_whole_number_of_bytes():
    held = Pool(MARKS, forget_s=10)
    held.look(89_999, 100_000, 0)
    assert not held.is_held
    held.look(90_000, 100_000, 0)
    assert held.is_held


def test_the_oldest_of_the_line_go_first_and_a_step_at_a_time():
    held = pool(95)
    line(held, "a", "b", "c")
    held.turned_away("a", 0)  # asking again loses no place
    assert not any(map(held.passes, "abcd"))
    held.look(80, 100, 1)
    assert [held.passes(name) for name in "abcd"] == [True, True, False, False]
    held.let_go("b")
    assert [held.passes(name) for name in "acd"] == [True, False, False]
    held.let_go("a")
    assert [held.passes(name) for name in "cd"] == [False, False]
    assert held.waiting == ("c",)


def test_the_next_step_comes_after_the_patience_and_only_at_the_lower_mark():
    held = pool(95)
    line(held, "a", "b", "c")
    held.look(80, 100, 1)
    for name in "ab":
        held.let_go(name)
    held.look(80, 100, 2)
    assert not held.passes("c"), "one round of two"
    held.look(81, 100, 3)
    assert not held.passes("c"), "above the lower mark"
    held.look(80, 100, 4)
    assert held.passes("c")


def test_whoever_comes_later_passes_where_the_line_leaves_room_in_the_step():
    held = pool(95)
    line(held, "a")
    held.look(80, 100, 1)
    assert held.passes("new")
    held.let_go("new")
    assert held.passes("a")
    assert not held.passes("newer")


def test_the_upper_mark_ends_a_step():
    held = pool(95)
    line(held, "a", "b", "c")
    held.look(80, 100, 1)
    held.look(90, 100, 2)
    assert not held.passes("a")
    held.look(80, 100, 3)
    assert held.passes("a"), "the patience begins anew"


def test_a_pool_opens_once_nobody_stands_in_line():
    held = pool(95)
    line(held, "a")
    held.look(80, 100, 1)
    held.let_go("a")
    assert held.is_held
    held.look(80, 100, 2)
    assert not held.is_held


def test_who_no_longer_asks_is_forgotten():
    held = pool(95)
    line(held, "gone", now_s=1)
    line(held, "b", now_s=5)
    held.look(95, 100, 11)
    assert held.waiting == ("gone", "b")
    held.look(95, 100, 12)
    assert held.waiting == ("b",)


def test_growth_through_an_open_pool_uses_up_no_step():
    free = pool(50)
    free.let_go("a")
    free.look(95, 100, 1)
    line(free, "a", "b", "c")
    free.look(80, 100, 2)
    assert [free.passes(name) for name in "abc"] == [True, True, False]


@pytest.mark.parametrize(
    ("rounds", "what"),
    [
        ([(89, False)], [Next.WAIT]),
        ([(90, False)], [Next.PAUSE]),
        ([(90, False), (85, True), (85, True), (85, True)], [Next.PAUSE, Next.WAIT, Next.PAUSE, Next.WAIT]),
        ([(90, False), (80, True)], [Next.PAUSE, Next.RELEASE]),
        ([(90, False), (81, True), (90, False)], [Next.PAUSE, Next.WAIT, Next.PAUSE]),
        ([(90, False), (95, True), (90, False), (95, True)], [Next.PAUSE, Next.WAIT, Next.PAUSE, Next.WAIT]),
        ([(85, True), (85, True)], [Next.WAIT, Next.PAUSE]),
    ],
)
def test_pausing_goes_on_after_its_patience_and_ends_at_the_lower_mark(rounds, what):
    pausing = Pausing(MARKS)
    assert [pausing.look(use, 100, is_any) for use, is_any in rounds] == what


def test_who_gives_way_stands_last_and_its_turn_is_the_next_ones():
    held = pool(95)
    line(held, "a", "b", "c")
    held.look(80, 100, 1)
    held.gives_way("a", 1)
    assert held.waiting == ("b", "c", "a")
    assert [held.passes(name) for name in "abc"] == [False, True, True]
    held.gives_way("new", 1)
    assert held.waiting == ("b", "c", "a")
