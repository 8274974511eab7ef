"""Rules of the shared ledger that ``make mutants`` found to have no test."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from contextlib import suppress

import pytest

from extauthz.core.model import Verdict, WorkloadRef
from extauthz.ledger_store import committing, replica
from extauthz.ledger_store.payload import decode
from extauthz.ledger_store.store import Follower, MemoryStore
from extauthz.testing.builders import create, quota, scale, workload
from extauthz.testing.builders import gate as make_gate
from tests.unit.ledger_store.gates import Member, members
from tests.unit.ledger_store.stores import Late, Odd
from tests.waiting import until

TEN = [quota("acme", {"requests.cpu": "10"})]
WEB = WorkloadRef("apps", "deployments", "team-a", "web")


async def test_a_create_of_what_is_there_is_refused_where_another_gate_wrote_since_the_look():
    """What the look has shown is older than what that gate may have seen: the object may be gone."""
    store = Odd()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        store.faults = ["conflict"]
        refused = await gate.ask(create(workload("web", 5)))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
        assert "is behind another gate" in refused.sentence
        assert (gate.looks, gate.reserved) == ([WEB], {})


async def test_once_an_object_of_another_release_is_deleted_another_one_is_made_and_growth_goes_on():
    store = MemoryStore()
    async with members(1, TEN, workload("web", 1), store=store, window_s=0.5) as (gate,):
        granted = await gate.ask(scale("web", 5))
        theirs = base64.b64encode(zlib.compress(json.dumps({"format": 99}).encode())).decode()
        await store.put(theirs, 0, await store.get())
        await until(gate.committer.notes)
        store.delete()
        await until(lambda: granted.id in gate.agreed and not gate.committer.notes())
        assert (await gate.ask(scale("web", 10))).verdict is Verdict.ALLOW


async def test_one_tenants_writes_that_are_decided_together_are_bounded_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replica, "MAX_TENANT_BYTES", 2000)
    names = [f"w{number}" for number in range(40)]
    async with members(1, [quota("acme", {"pods": "99"})], *(workload(name, 0) for name in names)) as (gate,):
        answers = await asyncio.gather(*(gate.ask(scale(name, 1)) for name in names))
        assert {answer.reason for answer in answers} == {"fits", "ledger-full"}
        assert sum(map(len, gate.committer.replica.payload.pending_writes.values())) <= 2000


async def test_a_write_that_is_carried_out_after_its_caller_left_is_taken_out_and_holds_no_room():
    store = Late()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        store.is_late = True
        asking = asyncio.create_task(gate.ask(scale("web", 9)))
        await until(lambda: store._waiting)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await until(lambda: not gate.committer.replica._lines)
        assert await store.carry_out()
        await until(lambda: not decode(store._object.payload).pending_writes)
        assert gate.reserved == {}


async def test_why_the_ledger_is_not_written_is_told_once_and_not_at_every_try():
    store = Odd()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        store.faults = ["refused", "refused"]
        assert (await gate.ask(scale("web", 2))).verdict is Verdict.ALLOW
        told = [fields for event, fields in gate.told if event == "ledger-not-written"]
        assert told == [{"level": "warning", "why": "etcd is away"}]


async def test_who_waits_for_a_look_that_never_ends_is_told_what_he_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(committing, "WITHIN_S", 0.05)
    async with members(1, TEN, workload("web", 1)) as (gate,):

        async def look(_: WorkloadRef) -> bool:
            return await asyncio.Event().wait()

        gate.committer._look = look
        refused = await gate.ask(create(workload("web", 5)))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
        assert "it could not be read" in refused.sentence


async def test_nothing_is_written_before_it_is_known_whether_there_is_an_object(monkeypatch: pytest.MonkeyPatch):
    class Silent(MemoryStore):
        async def run(self, follower: Follower) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(committing, "WITHIN_S", 0.05)
    store = Silent()
    gate = Member(make_gate(TEN, workload("web", 1)), store)
    gate.committer.replica.released = True
    task = asyncio.create_task(gate.committer.run())
    refused = await gate.ask(scale("web", 2))
    assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
    assert await store.get() is None
    task.cancel()


async def test_while_nobody_waits_an_obstacle_makes_the_next_one_wait_no_longer():
    store = MemoryStore()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        theirs = base64.b64encode(zlib.compress(json.dumps({"format": 99}).encode())).decode()
        await store.put(theirs, 1, await store.get())
        await until(lambda: gate.committer.replica.unreadable)
        assert await gate.committer._round() == 0.0
