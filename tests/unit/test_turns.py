"""One at a time, each source in its turn."""

from __future__ import annotations

import asyncio

import pytest

from extauthz.serve.servers.api.rights import Problem
from extauthz.serve.servers.bodies import MOST_EACH, REST, FullError, Share, Turns


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
    turns = Turns(99, 99)
    names = ["a1", "a2", "a3", "a4", "b1", "c1", "c2"]
    tasks = await asked(turns, *(name[0] for name in names))
    assert await served(dict(zip(names, tasks, strict=True)), turns) == ["a1", "a2", "b1", "c1", "a3", "c2", "a4"]


async def test_who_leaves_while_waiting_takes_no_turn_and_no_place():
    turns = Turns(2, 2)
    first, second, third = await asked(turns, "a", "a", "b")
    with pytest.raises(FullError):
        await turns.enter("c")
    second.cancel()
    await asyncio.sleep(0)
    (fourth,) = await asked(turns, "c")
    turns.leave()
    await asyncio.sleep(0)
    assert (first.done(), third.done(), fourth.done()) == (True, True, False)


async def test_who_leaves_in_the_moment_of_being_let_in_passes_the_turn_on():
    turns = Turns(9, 9)
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
    turns = Turns(9, 9)
    _, second = await asked(turns, "a", "b")
    second.cancel()
    turns.leave()
    await asyncio.wait([second])
    await asyncio.wait_for(turns.enter("c"), 5)


@pytest.mark.parametrize(("most", "most_each"), [(2, 9), (9, 2)])
async def test_what_waits_is_bounded_in_all_and_of_each(most: int, most_each: int):
    turns = Turns(most, most_each)
    tasks = await asked(turns, "a", "a", "a")
    with pytest.raises(FullError):
        await turns.enter("a")
    for task in tasks:
        task.cancel()


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
    tasks = [asyncio.create_task(share.of("jane", lambda: 1)) for _ in range(MOST_EACH)]
    await asyncio.sleep(0)
    with pytest.raises(Problem, match="too many questions wait"):
        await share.of("jane", lambda: 1)
    for task in tasks:
        loop.later.pop()[1]()
        assert await task == 1
