"""What becomes of a write of the ledger object that fails, or of which it is not known whether it was carried out."""

from __future__ import annotations

import asyncio
import json

import pytest

from extauthz.core.decision.gate import MAX_IDENTICAL
from extauthz.core.model import Verdict
from extauthz.serve.ledger_store import committing, payload
from extauthz.serve.ledger_store.payload import Payload, decode, encode
from extauthz.serve.ledger_store.store import Stored, WriteRefusedError
from extauthz.testing import create, patch, path, quota, scale, workload
from tests.support.memory_store import MemoryStore
from tests.unit.ledger_store.gates import Member, members, tree
from tests.unit.ledger_store.stores import TEN, Barred, Deaf, Odd, Slow
from tests.waiting import until

WEB = workload("web", 1)


async def test_a_write_that_was_carried_out_is_granted_as_it_was_decided():
    """Its answer is lost, and before it can be looked up, the watch brings it. The quota is cut meanwhile."""
    store = Slow()
    async with members(1, TEN, WEB, store=store) as (gate,):

        def cut() -> None:
            store.is_away = True
            gate.gate.load_quotas(tree(quota("acme", {"requests.cpu": "2"})), 0.0)

        store.faults, store.on_fault = ["lost after"], cut
        granted = await gate.ask(scale("web", 9))
        assert (granted.verdict, granted.reason) == (Verdict.ALLOW, "fits")
        assert (gate.agreed, gate.reserved) == ({granted.id}, {"requests.cpu": 8 * 10**9})


async def test_a_retry_is_granted_once_the_object_says_for_how_much_longer_its_write_pends():
    store = Odd()
    async with members(1, TEN, WEB, store=store) as (gate,):
        for _ in range(MAX_IDENTICAL):
            await gate.ask(scale("web", 2))
        await asyncio.sleep(0.05)
        before = until_ms(store)
        store.faults = ["conflict"]
        renewed = await gate.ask(scale("web", 2))
        assert renewed.verdict is Verdict.ALLOW
        assert renewed.id not in before
        after = until_ms(store)
        assert after[renewed.pending_write] > before[renewed.pending_write], "of one of those before"


class Deleted(MemoryStore):
    """The answer to a write comes after the object has gone, and after the watch has told it."""

    is_deleted = False

    async def put(self, payload: str, writes: int, before: Stored | None) -> Stored:
        stored = await super().put(payload, writes, before)
        if self.is_deleted:
            self.is_deleted = False
            await asyncio.sleep(0.01)
            self.delete()
            await asyncio.sleep(0.01)
        return stored


async def test_a_write_into_an_object_that_has_gone_grants_nothing_and_the_next_object_is_made_at_once():
    store = Deleted()
    async with members(1, TEN, WEB, store=store) as (gate,):
        assert (await gate.ask(scale("web", 2))).verdict is Verdict.ALLOW
        store.is_deleted = True
        assert (await gate.ask(scale("web", 3))).reason == "hold", "its ledger is new"
        await until(lambda: store._object is not None and gate.committer.replica.base == store._object)


def until_ms(store: MemoryStore) -> dict[str | None, int]:
    assert store._object is not None
    return {one: json.loads(text)["until_ms"] for one, text in decode(store._object.payload).pending_writes.items()}


@pytest.mark.parametrize(
    ("fault", "told"),
    [("conflict", "conflict"), ("lost before", "unclear"), ("lost after", "unclear"), ("refused", "refused")],
)
async def test_each_write_is_told_with_what_came_of_it_and_how_many_grants_went_with_it(fault: str, told: str):
    store = Odd()
    async with members(1, TEN, WEB, workload("api", 1), store=store) as (gate,):
        gate.writes.clear()
        store.faults = [fault]
        answers = await asyncio.gather(gate.ask(scale("web", 2)), gate.ask(scale("api", 2)))
        assert {answer.verdict for answer in answers} == {Verdict.ALLOW}
        assert gate.writes == [(told, 0), ("ok", 2)]


async def test_one_that_is_too_large_is_told_too(monkeypatch: pytest.MonkeyPatch):
    store = MemoryStore()
    async with members(1, TEN, WEB, store=store) as (gate,):
        gate.writes.clear()
        assert store._object is not None
        monkeypatch.setattr(payload, "GROWTH_TEXT_BYTES", len(store._object.payload) + 20)
        refused = await gate.ask(scale("web", 2))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-full")
        assert (gate.writes, gate.reserved) == ([("too-large", 0)], {})


class Late(MemoryStore):
    """Nobody has made its definition yet when the first gate comes."""

    is_defined = False

    async def put(self, text: str, writes: int, before: Stored | None) -> Stored:
        if not self.is_defined:
            raise WriteRefusedError("no definition")
        return await super().put(text, writes, before)


async def test_the_very_first_write_may_fail():
    store = Late()
    async with members(1, TEN, WEB, store=store, released=False) as (gate,):
        await until(lambda: gate.writes)
        store.is_defined = True
        await until(lambda: gate.committer.replica.base)
        assert gate.told == [("ledger-not-written", {"level": "warning", "why": "no definition"})]


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(scale("web", 2), id="scale"),
        pytest.param(patch(path("web"), {"spec": {"replicas": 2}}), id="patch-of-the-object"),
        pytest.param(create(workload("new", 2)), id="create-of-what-is-not-there"),
    ],
)
async def test_only_what_makes_an_object_anew_is_looked_at_first(request_):
    async with members(1, TEN, WEB) as (gate,):
        assert (await gate.ask(request_)).verdict is Verdict.ALLOW
        assert gate.looks == []


async def test_what_another_gate_was_first_with_is_decided_anew_without_a_pause(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(committing, "AGAIN_S", 60.0)
    store = Odd()
    async with members(1, TEN, WEB, store=store) as (gate,):

        def first() -> None:
            assert store._object is not None
            store._object = store._object._replace(version=str(int(store._object.version) + 1))

        store.faults, store.on_fault = ["conflict"], first
        assert (await gate.ask(scale("web", 2))).verdict is Verdict.ALLOW


@pytest.mark.parametrize("faults", [[], ["lost after"]])
async def test_after_a_write_that_was_carried_out_the_next_one_begins_at_once(
    faults: list[str], monkeypatch: pytest.MonkeyPatch
):
    """Were there a pause of a second, it would come too late."""
    monkeypatch.setattr(committing, "WITHIN_S", 0.9)
    store = Odd()
    async with members(1, TEN, WEB, store=store) as (gate,):
        store.faults = faults
        assert [(await gate.ask(scale("web", count))).verdict for count in (2, 3, 1)] == [Verdict.ALLOW] * 3


async def test_an_object_that_is_gone_and_of_which_no_watch_tells_is_made_anew_and_holds():
    store = Deaf(hear=0)
    async with members(1, TEN, WEB, store=store) as (gate,):
        granted = await gate.ask(scale("web", 2))
        assert granted.verdict is Verdict.ALLOW
        store.delete()
        assert (await gate.ask(scale("web", 3))).reason == "hold"
        await until(lambda: store._object is not None and granted.id in gate.agreed)


async def test_what_is_refused_at_its_turn_writes_nothing():
    async with members(1, TEN, WEB, released=False) as (gate,):
        await until(lambda: gate.committer.replica.base is not None)
        gate.writes.clear()
        assert [(await gate.ask(scale("web", count))).reason for count in (2, 3)] == ["hold"] * 2
        assert gate.writes == []


# A hold ends by a list of the very object that held.


OVER = encode(Payload(clock_ms=10**6, holds=True, hold_ends_ms=0))
"""Of another hold, whose time has passed as well."""


@pytest.mark.parametrize("what", ["made-anew", "deleted"])
async def test_a_list_that_was_begun_for_another_object_ends_no_hold(what: str, monkeypatch: pytest.MonkeyPatch):
    store = Barred()

    async def list_anew(self: Member) -> None:
        self.lists += 1
        if self.lists > 1:
            return
        lists_end = store.bar()
        if what == "deleted":
            store.delete()
        else:
            assert store._object is not None
            store._object = Stored(OVER, str(int(store._object.version) + 1), "another")
            store._tell(store._object)
        await until(lambda: self.committer.replica.base == store._object)
        store.lift()
        asyncio.get_running_loop().call_later(0.3, lists_end)

    monkeypatch.setattr(Member, "_list_anew", list_anew)
    async with members(1, TEN, WEB, store=store, window_s=0.2, released=False) as (gate,):
        await until(lambda: gate.lists and not gate.committer.notes())
        assert gate.lists == 2
        assert (await gate.ask(scale("web", 5))).verdict is Verdict.ALLOW
