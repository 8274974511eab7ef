"""The virtual loop: time that costs nothing, order that a seed decides, processes that stop and end."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.worlds.loop import StandstillError, VirtualLoop


def loop(seed: int = 1) -> VirtualLoop:
    return VirtualLoop(Random(seed))


def test_an_hour_of_sleep_takes_no_time():
    world = loop()

    async def main():
        await asyncio.sleep(3600)

    world.run(main())
    assert 3600 <= world.time() < 3601


def test_timeouts_run_on_virtual_time():
    world = loop()
    seen = []

    async def main():
        try:
            async with asyncio.timeout(5):
                await asyncio.sleep(50)
        except TimeoutError:
            seen.append(round(world.time()))

    world.run(main())
    assert seen == [5]


def test_who_waits_for_what_never_comes_is_told():
    world = loop()

    async def main():
        await asyncio.Event().wait()

    with pytest.raises(StandstillError):
        world.run(main())


def order(seed: int) -> str:
    """In which two processes take their turns."""
    world = loop(seed)
    said: list[str] = []

    async def says(word: str):
        for number in range(4):
            said.append(f"{word}{number}")
            await asyncio.sleep(0)

    async def main():
        tasks = [world.process(word).start(says(word)) for word in "ab"]
        await asyncio.gather(*tasks)

    world.run(main())
    return " ".join(said)


def test_the_seed_decides_who_is_first_and_each_process_keeps_its_own_order():
    orders = {order(seed) for seed in range(20)}
    assert len(orders) > 5
    assert order(3) == order(3)
    for one in orders:
        assert [word for word in one.split() if word[0] == "a"] == ["a0", "a1", "a2", "a3"]


async def counts(said: list[int]):
    for number in range(100):
        said.append(number)
        await asyncio.sleep(1)


def test_a_stopped_process_does_nothing_until_it_goes_on():
    world = loop()
    said: list[int] = []

    async def main():
        process = world.process("p")
        process.start(counts(said))
        await asyncio.sleep(2.5)
        process.stopped = True
        await asyncio.sleep(20)
        assert said == [0, 1, 2]
        process.stopped = False
        await asyncio.sleep(1.5)
        assert said == [0, 1, 2, 3, 4]

    world.run(main())


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_process_ends_after_any_of_its_callbacks(steps):
    world = loop()
    said: list[int] = []
    told: list[float] = []

    async def main():
        process = world.process("p")
        process.ends_at = steps
        process.on_end.append(lambda: told.append(world.time()))
        process.start(counts(said))
        await asyncio.sleep(200)
        assert process.ended
        assert len(told) == 1

    world.run(main())
    assert len(said) <= steps


def test_what_ends_with_a_process_wakes_nobody_outside():
    world = loop()

    async def main():
        process = world.process("p")
        task = process.start(asyncio.sleep(1000))
        await asyncio.sleep(1)
        world.call_soon(world.end, process)
        done, _ = await asyncio.wait((task,), timeout=5)
        assert done == {task}
        assert task.cancelled()

    world.run(main())
