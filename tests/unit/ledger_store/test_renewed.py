"""A pending write that stands for later requests too: at which gate they were asked for, and who left meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extauthz.core.decision.gate import MAX_IDENTICAL
from extauthz.core.ledger.entry import Event, State
from extauthz.core.model import Verdict, WorkloadRef
from extauthz.core.policies import Fate
from extauthz.serve.ledger_store import committing, payload
from extauthz.serve.ledger_store.payload import decode
from extauthz.testing import scale, workload
from tests.support.memory_store import MemoryStore
from tests.unit.ledger_store.gates import Member, members
from tests.unit.ledger_store.stores import TEN, Barred, Odd, Seat, W
from tests.waiting import until

WEB = WorkloadRef("apps", "deployments", "team-a", "web")
TO_NINE = scale("web", 9)


def sixteen() -> tuple[Seat, Seat, list[str]]:
    """Two gates that both follow as many identical writes as are kept; the first one has allowed them."""
    first, second = Seat("a"), Seat("b", 7.0)
    asked = [first.ask(TO_NINE) for _ in range(MAX_IDENTICAL)]
    second.replica.take(first.write(1))
    return first, second, asked


def refuse(seat: Seat, asked: list[str]) -> None:
    for one in asked:
        seat.ledger.pending.settle(one, Event.REFUSED, seat.now_s)


# Gates tell each other.


def test_a_retry_at_another_gate_is_told_even_if_it_adds_no_time():
    first, second, asked = sixteen()
    renewed = second.ask(TO_NINE)
    assert renewed in asked
    assert second.replica.wants_write()
    first.replica.take(second.write(2))
    refuse(first, asked)
    assert [one.id for _, one in first.ledger.pending] == [renewed], "the retry was not refused"


def test_so_is_one_more_retry_of_a_write_that_was_renewed_already():
    first, second, _ = sixteen()
    renewed = first.ask(TO_NINE)
    text = first.write(2)
    second.now_s += 30
    second.replica.take(text)
    assert second.ask(TO_NINE) == renewed
    assert second.replica.wants_write()
    text = second.write(3)
    first.now_s += 30
    first.replica.take(text)
    assert first.left_s(renewed) >= W


def test_who_has_written_a_renewal_does_not_write_it_again():
    first, second, _ = sixteen()
    second.ask(TO_NINE)
    first.replica.take(second.write(2))
    for seat in (first, second):
        assert not seat.replica.wants_write()


def test_an_answer_from_before_another_gate_renewed_the_write_does_not_end_it():
    first, second, _ = sixteen()
    renewed = second.ask(TO_NINE)
    first.ledger.pending.settle(renewed, Event.ANSWERED_OK, first.now_s)
    first.replica.take(second.write(2))
    first.ledger.pending.read(WEB, first.now_s + 1)
    assert first.ledger.pending.follows(renewed)
    assert first.ledger.pending.due(first.now_s) == []


def test_a_write_that_this_gate_has_renewed_since_stays_if_another_gate_ends_it():
    first, second, asked = sixteen()
    renewed = second.ask(TO_NINE)
    refuse(first, asked)
    second.replica.take(first.write(2))
    assert [one.id for _, one in second.ledger.pending] == [renewed]
    assert second.replica.wants_write()


def test_one_that_the_object_has_as_renewed_is_forgotten_if_another_gate_ends_it():
    first, second, _ = sixteen()
    renewed = second.ask(TO_NINE)
    first.replica.take(second.write(2))
    first.ledger.pending.forget(renewed)
    second.replica.take(first.write(3))
    assert not second.ledger.pending.follows(renewed)


def test_a_write_keeps_its_place_in_the_order_of_expiry_when_another_gate_renews_it():
    first, second, _ = sixteen()
    later = first.ask(scale("web", 8))
    first.now_s += 30
    second.now_s += 30
    renewed = second.ask(TO_NINE)
    first.replica.take(second.write(2))
    first.now_s += W - 30 + 1
    assert first.ledger.pending.tick(first.now_s) == MAX_IDENTICAL
    assert first.pending(later).state is State.EXPIRED
    assert first.left_s(renewed) > 0


# What a gate knows better.


def test_what_another_gate_renews_has_not_ended_for_policies():
    first, second, _ = sixteen()
    told: list[tuple[str, Fate]] = []
    first.ledger.pending.on_end = lambda one, fate: told.append((one, fate))
    renewed = second.ask(TO_NINE)
    first.replica.take(second.write(2))
    assert told == []
    first.ledger.pending.forget(renewed)
    assert told == [(renewed, Fate.WITHDRAWN)]


# Who leaves, and whose write stands for others.


def test_a_write_that_is_given_up_stays_if_it_was_renewed():
    first, _, asked = sixteen()
    renewed = first.ask(TO_NINE)
    for one in asked:
        first.replica.abandon(one)
    assert [one.id for _, one in first.ledger.pending] == [renewed]


def test_a_write_that_is_given_up_is_taken_back_if_another_gate_has_renewed_it():
    first, second, asked = sixteen()
    renewed = second.ask(TO_NINE)
    for one in asked:
        first.replica.abandon(one)
    first.replica.take(second.write(2))
    assert [one.id for _, one in first.ledger.pending] == [renewed]


def test_one_that_another_gate_only_wrote_anew_is_not():
    first, second = Seat("a"), Seat("b", 7.0)
    asked = first.ask(scale("web", 2))
    second.replica.take(first.write(1))
    second.pending(asked).expires_s += 5
    first.replica.abandon(asked)
    first.replica.take(second.write(2))
    assert not first.ledger.pending.follows(asked)


async def fifteen(gate: Member) -> None:
    for _ in range(MAX_IDENTICAL - 1):
        await gate.ask(TO_NINE)


async def two_at_once(gate: Member, store: Barred) -> tuple[asyncio.Task[Any], asyncio.Task[Any], Any]:
    """The sixteenth write and the seventeenth, which renews it, while the object is being written."""
    go_on = store.bar()
    asking = [asyncio.create_task(gate.ask(TO_NINE)) for _ in range(2)]
    await until(lambda: store.waiting == 1)
    store.lift()
    return asking[0], asking[1], go_on


async def test_a_caller_that_leaves_takes_nothing_from_one_whose_write_is_the_same():
    store = Barred()
    async with members(2, TEN, workload("web", 1), workload("api", 1), store=store) as (gate, other):
        await fifteen(gate)
        leaves, stays, go_on = await two_at_once(gate, store)
        leaves.cancel()
        await asyncio.sleep(0)
        go_on()
        granted = await stays
        assert granted.verdict is Verdict.ALLOW
        for one in list(gate.gate.ledger.pending):
            gate.gate.ledger.pending.settle(one[1].id, Event.REFUSED, 0.0)
        await until(lambda: other.agreed == {granted.pending_write})
        assert (await other.ask(scale("api", 3))).reason == "exceeded-quota"


@pytest.mark.parametrize("fault", ["conflict", "refused", "lost before"])
async def test_both_are_decided_anew_if_the_object_was_not_written(fault: str):
    store = Odd()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        await fifteen(gate)
        store.faults = [fault]
        one, two = await asyncio.gather(gate.ask(TO_NINE), gate.ask(TO_NINE))
        assert [one.verdict, two.verdict] == [Verdict.ALLOW] * 2
        assert one.pending_write == two.pending_write == one.id
        assert "ledger-writer-failed" not in [event for event, _ in gate.told]


async def test_of_two_that_have_no_room_in_the_object_none_is_left(monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        await fifteen(gate)
        assert store._object is not None
        monkeypatch.setattr(payload, "GROWTH_TEXT_BYTES", len(store._object.payload))
        answers = await asyncio.gather(gate.ask(TO_NINE), gate.ask(TO_NINE))
        assert [one.reason for one in answers] == ["ledger-full"] * 2
        assert gate.gate.ledger.pending_writes == MAX_IDENTICAL - 1


async def test_a_write_that_stands_for_one_that_was_allowed_stays_and_is_not_decided_anew():
    """One that no quota covers is answered at once, and may renew a write that waits for the object."""
    store = Odd()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        await fifteen(gate)

        def renew() -> None:
            *_, (_, newest) = gate.gate.ledger.pending
            gate.gate.ledger.pending.renew(newest, newest.expires_s)

        store.faults, store.on_fault = ["conflict"], renew
        refused = await gate.ask(TO_NINE)
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
        assert committing.STANDS in refused.sentence, "answered at once, and not when its time is over"
        await until(lambda: refused.id in gate.agreed)
        assert decode(store._object.payload).pending_writes.keys() == gate.agreed
