"""When workloads are read, how many at once, and how often after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from extauthz.core.intake.counts import read
from extauthz.core.ledger.pending_write import Event
from extauthz.core.model import WorkloadRef
from extauthz.settlement import reads
from extauthz.settlement.reads import Brought, ConsistentReads, Result
from extauthz.testing.builders import gate, quota, scale, workload
from tests.waiting import until

WEB = WorkloadRef("apps", "deployments", "team-a", "web")


class Source:
    """Brings that there is nothing of a workload, or does what a test says."""

    def __init__(self) -> None:
        self.asked: list[WorkloadRef] = []
        self.answers: Callable[[], Awaitable[object]] = self.at_once

    async def at_once(self) -> None:
        pass

    async def bring(self, ref: WorkloadRef) -> Brought:
        self.asked.append(ref)
        return Brought(Result.UNREACHABLE, False, "no answer") if await self.answers() is False else BROUGHT


BROUGHT = Brought(Result.OK, True)


class Reader:
    """Reads for a gate that knows ``web``. Its clock stands still unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.source = Source()
        self.told: list[tuple[Result, int]] = []
        self.gate = gate([quota("acme", {"pods": "9"})], workload("web", 2))
        pending = self.gate.ledger.pending
        self.reads = ConsistentReads(self.source.bring, pending, self._tell, clock=lambda: self.now_s)

    def _tell(self, result: Result, ref: WorkloadRef, ended: int, why: str) -> None:
        self.told.append((result, ended))

    def answered_write(self) -> None:
        """One that a read has to end."""
        decision = self.gate.decide(read(scale("web", 3)), "d1", self.now_s)
        assert decision.pending_write
        self.gate.ledger.pending.settle(decision.id, Event.ANSWERED_OK, self.now_s)
        self.now_s += 1


async def ticks(number: int) -> None:
    """Let the reader look so many times for what to read."""
    for _ in range(number):
        await asyncio.sleep(reads.TICK_S)


@pytest.fixture
async def reader(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reader]:
    monkeypatch.setattr(reads, "TICK_S", 0.01)
    made = Reader()
    task = asyncio.create_task(made.reads.run())
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_as_many_as_may_be_readat_once_make_room_for_the_next(reader: Reader, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "AT_ONCE", 2)
    for number in range(7):
        reader.reads.soon(WEB._replace(name=f"w{number}"))
    reader.now_s += reads.COALESCE_S
    await until(lambda: len(reader.told) == 7)
    reader.source.answers = asyncio.Event().wait
    for number in range(7):
        reader.reads.soon(WEB._replace(name=f"x{number}"))
    reader.now_s += reads.COALESCE_S
    await until(lambda: len(reader.source.asked) == 9)
    await ticks(5)
    assert len(reader.source.asked) == 9, "two more"


async def test_one_that_is_being_read_is_read_again_only_afterwards(reader: Reader):
    go_on = asyncio.Event()
    reader.source.answers = go_on.wait
    reader.answered_write()
    await until(lambda: reader.source.asked)
    reader.reads.soon(WEB)
    reader.now_s += reads.COALESCE_S
    await ticks(5)
    assert len(reader.source.asked) == 1
    go_on.set()
    await until(lambda: len(reader.source.asked) == 2)


async def test_a_read_that_fails_after_a_while_is_not_tried_again_before_its_time(reader: Reader):
    """Meanwhile the gate has asked for it once more."""
    fail = asyncio.Event()

    async def late() -> bool:
        await fail.wait()
        return False

    reader.source.answers = late
    reader.answered_write()
    await until(lambda: reader.source.asked)
    await ticks(5)
    fail.set()
    await until(lambda: reader.told == [(Result.UNREACHABLE, 0)])
    await ticks(5)
    assert len(reader.source.asked) == 1
    reader.now_s += 2
    await until(lambda: len(reader.source.asked) == 2)


async def refuse() -> bool:
    return False


async def test_what_a_check_could_not_read_is_read_again_though_nobody_asks(reader: Reader):
    reader.source.answers = refuse
    assert not await reader.reads.look(WEB)
    reader.source.answers = reader.source.at_once
    await ticks(3)
    assert len(reader.told) == 1
    reader.now_s += 1.7
    await until(lambda: reader.told[1:] == [(Result.OK, 0)])


async def test_after_a_good_read_the_waits_begin_anew(reader: Reader):
    for number in range(6):
        reader.source.answers = refuse
        assert not await reader.reads.read(WEB)
        reader.source.answers = reader.source.at_once
        reader.now_s += 1.7
        await until(lambda tried=2 * number + 2: len(reader.told) == tried)


async def test_what_could_not_be_read_is_said_to_whom_waits_for_it(reader: Reader):
    reader.source.answers = refuse
    assert not await reader.reads.read(WEB)
    assert not await reader.reads.look(WEB)
    assert not await reader.reads.read_anew(WEB)
    reader.source.answers = reader.source.at_once
    assert await reader.reads.read_anew(WEB)


async def test_what_is_to_be_read_soon_is_read_after_others_had_time_to_ask_for_it_and_once(reader: Reader):
    for _ in range(3):
        reader.reads.soon(WEB)
        await ticks(3)
    assert reader.source.asked == []
    reader.now_s += reads.COALESCE_S
    await until(lambda: reader.told)
    await ticks(3)
    assert len(reader.source.asked) == 1


async def test_a_read_anew_begins_after_the_one_under_way_has_ended(reader: Reader):
    go_on = asyncio.Event()
    reader.source.answers = go_on.wait
    early = asyncio.create_task(reader.reads.read(WEB))
    await asyncio.sleep(0)
    anew = asyncio.create_task(reader.reads.read_anew(WEB))
    await ticks(2)
    assert len(reader.source.asked) == 1
    go_on.set()
    assert await early
    assert await anew
    assert len(reader.source.asked) == 2


async def test_what_many_look_for_and_is_not_there_is_looked_for_once_each(reader: Reader):
    absent = [WEB._replace(name=f"absent{number}") for number in range(40)]
    assert [await reader.reads.look(one) for one in absent] == [True] * 40
    assert [await reader.reads.look(one) for one in absent] == [False] * 40


async def test_whoever_reads_is_stopped_with_all_that_is_under_way():
    reader = Reader()
    reader.source.answers = asyncio.Event().wait
    run = asyncio.create_task(reader.reads.run())
    read = asyncio.create_task(reader.reads.read(WEB))
    await until(lambda: reader.source.asked)
    run.cancel()
    await asyncio.wait([run, read], timeout=10)
    assert asyncio.all_tasks() == {asyncio.current_task()}
