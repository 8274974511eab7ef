"""The way of an answer: what is heard of a request ends its pending write, or has its workload read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from extauthz.core.intake.counts import read
from extauthz.core.ledger.entry import Event
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.inputs.settlement import reads
from extauthz.inputs.settlement.answers import Fate, Settlement
from extauthz.inputs.settlement.reads import Brought, ConsistentReads, Result
from extauthz.testing import Asker, gate, quota, scale, workload
from tests.waiting import until

WEB = WorkloadRef("apps", "deployments", "team-a", "web")
WINDOW_S = 90.0


class Told:
    """A gate with one pending write, and what its settlement does."""

    def __init__(self, *, reads: bool = True) -> None:
        self.ask = Asker(gate([quota("acme", {"pods": "9"})], workload("web", 2)))
        self.now_s = 10.0
        self.heard: list[Event] = []
        self.read: list[WorkloadRef] = []
        self.pending = self.ask.gate.ledger.pending
        self.settlement = Settlement(self.pending, self.heard.append, lambda: self.now_s)
        if reads:
            self.settlement.reads = ConsistentReads(self._bring, self.pending, lambda *_: None, lambda: self.now_s)
        granted = self.ask(scale("web", 5))
        assert granted.verdict is Verdict.ALLOW
        self.id = granted.id

    async def _bring(self, ref: WorkloadRef) -> Brought:
        self.read.append(ref)
        return Brought(Result.OK, True)

    def hear(self, code: int) -> None:
        self.settlement.answered(self.id, Fate(code, "via_upstream", frozenset(), attempts=1, sent=True))


def test_a_refusal_of_the_api_server_ends_the_write_at_once():
    told = Told()
    told.hear(409)

    assert (len(told.pending), told.heard, told.read) == (0, [Event.REFUSED], [])


async def test_a_success_is_read_and_that_ends_the_write():
    told = Told()
    told.hear(200)
    assert len(told.pending) == 1, "what it has done is not observed yet"
    told.now_s += 1.0

    assert told.settlement.reads is not None
    assert await told.settlement.reads.read_anew(WEB)
    assert (len(told.pending), told.read) == (0, [WEB])


def test_an_unclear_answer_leaves_the_write_to_the_landing_window():
    told = Told()
    told.hear(504)
    told.settlement.tick(WINDOW_S - 1)
    assert (told.pending.due(WINDOW_S - 1), told.heard) == ([], [Event.ANSWERED_UNCLEAR])

    told.settlement.tick(WINDOW_S)
    assert told.pending.due(WINDOW_S) == [WEB]
    assert len(told.pending) == 1, "only a read ends it"


def test_where_nobody_can_be_asked_a_success_waits_for_the_landing_window():
    told = Told(reads=False)
    told.hear(200)

    assert len(told.pending) == 1


@pytest.mark.parametrize(("is_believed", "left"), [(True, 0), (False, 1)], ids=["believed", "refused"])
def test_the_word_of_a_state_file_counts_from_the_end_of_the_window_on(is_believed: bool, left: int):
    told = Told(reads=False)
    told.settlement.is_believed = lambda: is_believed
    told.settlement.tick(WINDOW_S - 1)
    assert len(told.pending) == 1

    told.settlement.tick(WINDOW_S)
    assert len(told.pending) == left


def test_an_answer_to_a_request_that_nobody_decided_changes_nothing():
    told = Told()
    told.settlement.answered("another", Fate(409, "via_upstream", frozenset(), attempts=1, sent=True))

    assert len(told.pending) == 1


OK = Fate(200, "via_upstream", frozenset(), attempts=1, sent=True)


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


async def test_of_what_checks_could_not_read_only_so_much_is_read_again(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
):
    """Names are free, and a kind may not be readable for ever."""
    monkeypatch.setattr(reads, "WAITING_AT_MOST", 3)
    reader.source.answers = refuse
    for number in range(9):
        assert not await reader.reads.look(WEB._replace(name=f"w{number}"))
    assert len(reader.reads._queue) == len(reader.reads._waits) == 3


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


NAMES = [f"w{number}" for number in range(reads.SEVERAL)]


class Several(Reader):
    """Reads for a gate that knows as many as a watch shows at once, with a write of each that was answered."""

    def __init__(self, known: Sequence[str] = NAMES) -> None:
        super().__init__()
        self.caught_up = True
        self.waited: list[Sequence[WorkloadRef]] = []
        self.gate = gate([quota("acme", {"pods": "99"})], *(workload(name, 2) for name in known))
        self.reads = ConsistentReads(
            self.source.bring, self.gate.ledger.pending, self._tell, lambda: self.now_s, self._catch_up
        )
        for name in known:
            assert self.gate.decide(read(scale(name, 3)), name, self.now_s).pending_write
            self.gate.ledger.pending.settle(name, Event.ANSWERED_OK, self.now_s)
        self.now_s += 1

    async def _catch_up(self, refs: Sequence[WorkloadRef]) -> Sequence[WorkloadRef]:
        self.waited.append(refs)
        return refs if self.caught_up else refs[:1]

    def hold_up(self) -> asyncio.Event:
        """Let the watch catch up no sooner than the event."""
        go_on, catch_up = asyncio.Event(), self._catch_up

        async def late(refs: Sequence[WorkloadRef]) -> Sequence[WorkloadRef]:
            await go_on.wait()
            return await catch_up(refs)

        self.reads._catch_up = late
        return go_on

    @property
    def left(self) -> int:
        return self.gate.ledger.pending_writes


@asynccontextmanager
async def reading(several: Several, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Several]:
    monkeypatch.setattr(reads, "TICK_S", 0.01)
    task = asyncio.create_task(several.reads.run())
    yield several
    task.cancel()
    await asyncio.wait([task])


async def test_a_watch_that_catches_up_ends_what_several_wait_for(monkeypatch: pytest.MonkeyPatch):
    async with reading(Several(), monkeypatch) as several:
        await until(lambda: several.left == 0)
    assert several.source.asked == []
    assert [len(refs) for refs in several.waited] == [len(NAMES)]
    assert several.told == [(Result.OK, 1)] * len(NAMES)


async def test_what_a_watch_does_not_show_soon_is_read_one_by_one(monkeypatch: pytest.MonkeyPatch):
    several = Several()
    several.caught_up = False
    async with reading(several, monkeypatch):
        await until(lambda: several.left == 0)
    assert [ref.name for ref in several.source.asked] == NAMES[1:], "the first was shown"
    assert len(several.waited) == 1


async def test_a_watch_is_waited_for_once_by_all_of_its_kind_and_by_no_other(monkeypatch: pytest.MonkeyPatch):
    """It shows every namespace, and nothing of the next kind."""
    several = Several(())
    kinds = [
        [WorkloadRef("apps", plural, f"team-{number}", "web") for number in range(reads.SEVERAL)]
        for plural in ("deployments", "statefulsets")
    ]
    for ref in (*kinds[0], *kinds[1]):
        several.reads.soon(ref)
    several.now_s += reads.COALESCE_S
    async with reading(several, monkeypatch):
        await until(lambda: len(several.told) == 2 * reads.SEVERAL)
    assert (several.waited, several.source.asked) == (kinds, [])


async def test_few_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch):
    async with reading(Several(NAMES[1:]), monkeypatch) as several:
        await until(lambda: several.left == 0)
    assert [ref.name for ref in several.source.asked] == NAMES[1:]
    assert several.waited == []


async def test_a_write_that_is_answered_while_a_watch_catches_up_waits_for_the_next(monkeypatch: pytest.MonkeyPatch):
    several = Several()
    go_on = several.hold_up()
    async with reading(several, monkeypatch):
        await ticks(5)
        assert several.gate.decide(read(scale(NAMES[0], 4)), "again", several.now_s).pending_write
        several.gate.ledger.pending.settle("again", Event.ANSWERED_OK, several.now_s)
        go_on.set()
        await until(lambda: several.left == 1)
        assert several.gate.ledger.pending.follows("again")
        several.now_s += 1
        await until(lambda: several.left == 0)
    assert [ref.name for ref in several.source.asked] == [NAMES[0]], "it alone was left"


async def test_what_failed_before_a_watch_has_shown_it_waits_no_more(monkeypatch: pytest.MonkeyPatch):
    several = Several()
    several.source.answers = refuse
    async with reading(several, monkeypatch):
        assert not await several.reads.read(ref_of(NAMES[0]))
        several.now_s += 10
        await until(lambda: several.left == 0)
    assert several.reads._waits == {}


async def test_a_check_reads_its_workload_while_the_watch_catches_up(monkeypatch: pytest.MonkeyPatch):
    several = Several()
    go_on = several.hold_up()
    async with reading(several, monkeypatch):
        await ticks(5)
        assert await several.reads.look(ref_of(NAMES[1]))
        assert several.left == len(NAMES) - 1, "what its write waited for"
        go_on.set()
        await until(lambda: several.left == 0)
    assert several.source.asked == [ref_of(NAMES[1])]


async def test_who_is_read_one_by_one_waits_for_no_tick(monkeypatch: pytest.MonkeyPatch):
    """As soon as one was read, the next is."""
    several = Several()
    several.caught_up = False
    monkeypatch.setattr(reads, "AT_ONCE", 1)
    async with reading(several, monkeypatch):
        await until(lambda: bool(several.source.asked))
        monkeypatch.setattr(reads, "TICK_S", 1000.0)
        await until(lambda: several.left == 0)


async def test_so_many_watches_at_most_are_waited_for_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "AT_ONCE", 0)
    async with reading(Several(), monkeypatch) as several:
        await ticks(5)
        assert (several.waited, several.left) == ([], len(NAMES))


async def test_what_many_writes_wait_for_leaves_checks_their_reads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "WAITING_AT_MOST", len(NAMES))
    several = Several()
    go_on = several.hold_up()
    async with reading(several, monkeypatch):
        await ticks(5)
        assert await several.reads.look(ref_of("unseen"))
        go_on.set()


async def test_decisions_have_their_turn_while_many_writes_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "AT_ONCE", 2)
    several = Several()
    seen: set[int] = set()
    async with reading(several, monkeypatch):
        while several.left:
            await asyncio.sleep(0)
            seen.add(several.left)
    assert seen == {0, 2, 4}


def ref_of(name: str) -> WorkloadRef:
    """The Deployment of that name."""
    return WorkloadRef("apps", "deployments", "team-a", name)
