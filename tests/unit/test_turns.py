"""One at a time, each source in its turn."""

from __future__ import annotations

import asyncio

import pytest

from extauthz.serve.rpc.places import FullError, Place, Places, Turns
from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.bodies import MOST, REST, Share


async def asked(turns: Turns, *sources: str) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(turns.enter(one)) for one in sources]
    await asyncio.sleep(0)
    return tasks


async def served(tasks: dict[str, asyncio.Task[None]], turns: Turns) -> list[str]:
    """Names in the order in which they were let in, each leaving before the next."""
    order = []
    while waiting := {name: task for name, task in tasks.items() if name not in order}:
        await asyncio.sleep(0)
        (name,) = (name for name, task in waiting.items() if task.done())
        order.append(name)
        turns.leave()
    return order


async def test_one_who_asks_much_waits_behind_one_who_asks_once():
    turns = Turns(99)
    names = ["a1", "a2", "a3", "a4", "b1", "c1", "c2"]
    tasks = await asked(turns, *(name[0] for name in names))
    assert await served(dict(zip(names, tasks, strict=True)), turns) == ["a1", "a2", "b1", "c1", "a3", "c2", "a4"]


async def test_who_leaves_while_waiting_takes_no_turn_and_no_place():
    turns = Turns(2)
    first, second, third = await asked(turns, "a", "a", "b")
    second.cancel()
    await asyncio.sleep(0)
    (fourth,) = await asked(turns, "c")
    turns.leave()
    await asyncio.sleep(0)
    assert (first.done(), third.done(), fourth.done()) == (True, True, False)


async def test_who_leaves_in_the_moment_of_being_let_in_passes_the_turn_on():
    turns = Turns(9)
    first, second, third = await asked(turns, "a", "b", "c")
    turns.leave()
    second.cancel()
    await asyncio.wait([second])
    await asyncio.sleep(0)
    assert first.done()
    assert second.cancelled()
    assert third.done()
    turns.leave()
    await turns.enter("d")


async def test_two_who_leave_at_once_leave_the_turn_free():
    turns = Turns(9)
    _, second = await asked(turns, "a", "b")
    second.cancel()
    turns.leave()
    await asyncio.wait([second])
    await asyncio.wait_for(turns.enter("c"), 5)


async def test_a_full_queue_gives_up_a_place_of_the_peer_that_has_most():
    turns = Turns(4)
    served, *many, one = await asked(turns, "many", "many", "many", "many", "one")
    (another,) = await asked(turns, "another")
    await asyncio.sleep(0)
    assert [type(task.exception()) for task in many if task.done()] == [FullError], "that which waited longest"
    await asked(turns, *["many"] * 9)
    await asyncio.sleep(0)
    assert not one.done(), "who comes often takes from himself"
    assert not another.done()
    for _ in range(3):
        turns.leave()
    await asyncio.sleep(0)
    assert (served.done(), one.done(), another.done()) == (True, True, True)


async def test_so_many_have_a_turn_at_once():
    turns = Turns(9, at_once=2)
    tasks = await asked(turns, "a", "a", "b")
    assert [task.done() for task in tasks] == [True, True, False]
    turns.leave()
    await asyncio.sleep(0)
    assert tasks[2].done()


class Held(Place):
    """Says when it is given up."""

    def __init__(self, peer: str, size: int = 1) -> None:
        super().__init__(peer, size)
        self.is_given_up = False

    def give_up(self) -> None:
        self.is_given_up = True


@pytest.mark.parametrize(
    ("held", "comes", "leaves"),
    [
        pytest.param("aab", "b", "a", id="the-peer-that-has-most"),
        pytest.param("aab", "a", "a", id="itself-if-it-has-most"),
        pytest.param("abc", "d", "a", id="of-equals-the-first"),
        pytest.param("abb", "a", "b", id="one-that-has-as-many"),
    ],
)
def test_who_gives_up_a_place(held: str, comes: str, leaves: str):
    places, there = Places(3), [Held(peer) for peer in held]
    assert all(places.enter(one) for one in there)
    assert places.enter(Held(comes))
    assert [one.peer for one in there if one.is_given_up] == [leaves]
    assert [one.is_given_up for one in there].index(True) == held.index(leaves), "the one that has waited longest"


def test_what_works_is_not_given_up_and_who_comes_then_has_no_place():
    places, working, waiting = Places(2), Held("a"), Held("a")
    for one in (working, waiting):
        places.enter(one)
    places.works(working)
    assert places.enter(Held("b"))
    assert (working.is_given_up, waiting.is_given_up) == (False, True)
    places.leave(working)
    assert not places.resize(working, 3), "it has left"
    assert not places.waits(working)


def test_of_a_budget_the_largest_of_the_peer_that_holds_most_leaves_and_it_may_be_the_one_that_grows():
    places, small, large, other = Places(10), Held("a", 1), Held("a", 5), Held("b", 3)
    assert all(places.enter(one) for one in (small, large, other))
    assert places.resize(other, 5)
    assert (small.is_given_up, large.is_given_up) == (False, True)
    assert not places.resize(other, 11)
    assert places.resize(small, 10), "it holds nothing any more"


def test_who_waits_already_keeps_its_place_in_the_order():
    """A connection waits from when it is accepted: its handshake makes it no newer."""
    places, first, second, third = Places(2), Held("a"), Held("a"), Held("a")
    for one in (first, second):
        places.enter(one)
    assert places.waits(first)
    places.enter(third)
    assert (first.is_given_up, second.is_given_up) == (True, False)
    places.works(second)
    assert places.waits(second)
    places.enter(Held("b"))
    assert (second.is_given_up, third.is_given_up) == (False, True)


def test_a_peer_takes_no_more_than_its_share():
    places, first = Places(9, each=1), Held("a")
    assert places.enter(first)
    assert places.enter(Held("a"))
    assert first.is_given_up


class Loop:
    """Virtual time: work takes what it says, and what is to be done later is done when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.later: list[tuple[float, object]] = []

    def work(self, takes_s: float) -> str:
        self.now_s += takes_s
        return "done"


async def test_questions_take_a_tenth_of_the_loop_and_who_was_answered_does_not_wait_for_the_rest():
    loop = Loop()
    share = Share(lambda: loop.now_s, lambda after_s, call: loop.later.append((after_s, call)))
    assert await share.of("jane", lambda: loop.work(0.02)) == "done"
    assert [after_s for after_s, _ in loop.later] == [pytest.approx(0.02 * REST)]
    second = asyncio.create_task(share.of("joe", lambda: loop.work(0.01)))
    await asyncio.sleep(0)
    assert not second.done()
    loop.later.pop()[1]()
    assert await second == "done"


async def test_work_that_fails_ends_its_turn_and_too_many_are_told():
    loop = Loop()
    share = Share(lambda: loop.now_s, lambda after_s, call: loop.later.append((after_s, call)))
    with pytest.raises(ZeroDivisionError):
        await share.of(None, lambda: 1 // 0)
    tasks = [asyncio.create_task(share.of("jane", lambda: 1)) for _ in range(MOST)]
    await asyncio.sleep(0)
    last = asyncio.create_task(share.of("jane", lambda: 1))
    with pytest.raises(Problem, match="too many questions wait"):
        await tasks[0]
    for task in [*tasks[1:], last]:
        loop.later.pop()[1]()
        assert await task == 1
