"""Groups of calls: everyone gets its own answer, in the order of the calls, and nobody waits for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from extauthz.servers import grouping
from extauthz.servers.grouping import LARGEST, PATIENCE, Grouping

GROWN = PATIENCE * (LARGEST - 1)
"""After so many calls groups are as large as they get: so many of each size below."""


class Door:
    """Answers a number with its double, and remembers which it answered without a pause in between."""

    def __init__(self) -> None:
        self.answered: list[list[int]] = []
        self._in_a_row = False
        self.unheard: list[int] = []
        self.group = Grouping(self._answer, self.unheard.append)

    def _answer(self, number: int) -> int:
        if not self._in_a_row:
            self._in_a_row = True
            asyncio.get_running_loop().call_soon(self._pause)
            self.answered.append([])
        self.answered[-1].append(number)
        if number < 0:
            raise ValueError(number)
        return 2 * number

    def _pause(self) -> None:
        self._in_a_row = False

    async def crowd(self, calls: int, at_once: int = LARGEST) -> None:
        """So many calls, so many of them under way at any time."""
        numbers = iter(range(calls))

        async def caller() -> None:
            for number in numbers:
                assert await self.group(number) == 2 * number

        await asyncio.gather(*(caller() for _ in range(at_once)))


@pytest.fixture
def give_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how long a call waits for others; an hour means for ever."""

    def within(seconds: float) -> None:
        monkeypatch.setattr(grouping, "LONGEST_S", seconds)

    within(3600)
    return within


def given_up(door: Door, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets longer each time that calls have waited for too few others."""
    times: list[int] = []
    monkeypatch.setattr(door.group, "_give_up", lambda: (times.append(1), Grouping._give_up(door.group)))
    return times


async def crowded(give_up: Callable[[float], None]) -> Door:
    """A door at which calls have come thick for a while."""
    door = Door()
    await asyncio.wait_for(door.crowd(GROWN + 1000 * LARGEST), 30)
    door.answered.clear()
    return door


async def alone(door: Door, number: int) -> int:
    """A call as gRPC brings it: in a task of its own, so that there is a pause before the next one."""
    return await asyncio.wait_for(asyncio.create_task(door.group(number)), 30)


async def test_a_call_that_comes_by_itself_is_answered_at_once(give_up) -> None:
    door = Door()
    for number in range(PATIENCE):
        assert await alone(door, number) == 2 * number
    assert door.answered == [[number] for number in range(PATIENCE)]


async def test_calls_that_come_thick_are_answered_in_groups_and_in_order(give_up) -> None:
    door = await crowded(give_up)
    await asyncio.wait_for(door.crowd(10 * LARGEST), 30)
    assert door.answered == [list(range(first, first + LARGEST)) for first in range(0, 10 * LARGEST, LARGEST)]


async def test_a_call_waits_for_others_no_longer_than_allowed(give_up) -> None:
    door = await crowded(give_up)
    give_up(0)
    assert await alone(door, 7) == 14


async def test_when_fewer_come_fewer_are_waited_for(give_up) -> None:
    door = await crowded(give_up)
    give_up(0)
    for number in range(LARGEST.bit_length() - 1):  # a half, a quarter, …, one by itself
        assert await alone(door, number) == 2 * number
    give_up(3600)
    assert await alone(door, 4) == 8


async def test_where_no_more_come_than_so_many_more_are_waited_for_ever_more_rarely(give_up, monkeypatch) -> None:
    give_up(0.001)
    door = Door()
    waited = given_up(door, monkeypatch)
    await asyncio.wait_for(door.crowd(12_000, at_once=3), 60)
    assert 5 < len(waited) < 20
    assert len(door.answered) < 4_100, "the others were answered by threes"


async def test_after_a_pause_groups_soon_are_as_large_as_before(give_up) -> None:
    door = await crowded(give_up)
    give_up(0)
    for number in range(LARGEST.bit_length() - 1):
        await alone(door, number)
    give_up(3600)
    door.answered.clear()
    await asyncio.wait_for(door.crowd(GROWN + 10 * LARGEST), 30)
    assert [len(group) for group in door.answered[-11:]] == [LARGEST // 2] + [LARGEST] * 10


async def test_of_calls_that_come_one_by_one_few_are_made_to_wait(give_up, monkeypatch) -> None:
    give_up(0)
    door = Door()
    waited = given_up(door, monkeypatch)
    for number in range(5_000):
        await alone(door, number)
    assert 5 < len(waited) < 20


async def test_once_more_do_come_groups_grow_as_fast_as_ever(give_up) -> None:
    give_up(0)
    door = Door()
    patience = PATIENCE
    for _ in range(3):
        for number in range(patience + 1):  # the last one waits in vain
            await alone(door, number)
        patience *= 2
    give_up(3600)
    door.answered.clear()
    await asyncio.wait_for(door.crowd(patience + GROWN - PATIENCE + 10 * LARGEST), 30)
    assert [len(group) for group in door.answered[-11:]] == [LARGEST // 2] + [LARGEST] * 10


async def test_a_call_whose_caller_has_gone_is_not_answered(give_up) -> None:
    door = await crowded(give_up)
    calls = [asyncio.ensure_future(door.group(number)) for number in range(LARGEST - 1)]
    await asyncio.sleep(0)
    calls[2].cancel()
    await alone(door, 99)
    await asyncio.wait(calls)
    assert door.answered == [[*(number for number in range(LARGEST - 1) if number != 2), 99]]


async def test_an_answer_whose_caller_leaves_before_it_is_heard_is_told(give_up) -> None:
    door = await crowded(give_up)
    calls = [asyncio.ensure_future(door.group(number)) for number in range(LARGEST - 1)]
    await asyncio.sleep(0)
    last = door.group(99)
    with pytest.raises(StopIteration):
        last.send(None)  # all are answered, and nobody has woken yet
    calls[2].cancel()
    await asyncio.wait(calls)
    assert door.unheard == [4]


async def test_what_goes_wrong_with_one_call_is_no_other_callers(give_up) -> None:
    door = await crowded(give_up)
    answers = await asyncio.wait_for(
        asyncio.gather(*(door.group(number - 3) for number in range(LARGEST)), return_exceptions=True), 30
    )
    assert [type(answer) for answer in answers] == [ValueError] * 3 + [int] * (LARGEST - 3)
