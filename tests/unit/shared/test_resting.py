"""What was found to grow nothing beside a grant that is not agreed upon yet does not outlive it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from extauthz.core.ledger.intents import Event
from extauthz.core.ledger.payload import decode, encode
from extauthz.core.model import Decision, Verdict
from extauthz.shared.memory import MemoryStore
from extauthz.shared.store import Stored
from extauthz.testing.builders import quota, scale, workload
from tests.unit.shared.gates import Member, members, until

PODS = quota("acme", {"pods": "7"}, workloads={"tier": "front"})
WIDE = quota("wide", {"pods": "12"}, namespaces={})


class Barred(MemoryStore):
    """Writes of a root wait where it is barred."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: dict[str, asyncio.Event] = {}
        self.waiting = 0

    def bar(self, root: str) -> Callable[[], None]:
        """What comes until the next bar waits until what is returned is called."""
        bar = self._bars[root] = asyncio.Event()
        return bar.set

    def lift(self, root: str) -> None:
        """Bar no more; who waits, waits on."""
        del self._bars[root]

    async def put(self, root: str, payload: str, intents: int, before: Stored | None) -> Stored:
        if (bar := self._bars.get(root)) is not None:
            self.waiting += 1
            await bar.wait()
        return await super().put(root, payload, intents, before)


def asking(gate: Member, *counts: int) -> list[asyncio.Task[Decision]]:
    """All for the same workload, in this order."""
    return [asyncio.create_task(gate.ask(scale("web", count))) for count in counts]


async def granted(*tasks: asyncio.Task[Any]) -> int:
    return sum([(await task).verdict is Verdict.ALLOW for task in tasks])


FRONT = {"tier": "front"}
WORKLOADS = tuple(workload(name, n, labels=FRONT) for name, n in (("web", 1), ("api", 4), ("cron", 0)))


async def test_growth_that_came_before_another_gates_is_not_carried_by_what_came_after_it():
    store = Barred()
    async with members(2, [PODS], *WORKLOADS, store=store) as (first, second):
        go_on = store.bar("acme")
        early = asking(first, 3)
        await until(lambda: store.waiting == 1)
        store.lift("acme")
        assert (await second.ask(scale("cron", 2))).verdict is Verdict.ALLOW, "now there is no room left"
        await until(lambda: len(first.committer.books["acme"].payload.intents) == 1)
        late = asking(first, 2, 3)
        await asyncio.sleep(0.02)
        go_on()
        assert await granted(*early, *late) == 0
        assert first.reserved == {"pods": 2 * 10**9}


async def test_a_hold_lets_nothing_pass_because_of_what_it_held_back():
    async with members(1, [PODS], *WORKLOADS, window_s=5.0, released=False) as (gate,):
        await until(lambda: gate.committer.books["acme"].payload.holds)
        assert await granted(*asking(gate, 3, 3, 2)) == 0
        assert (await gate.ask(scale("web", 1))).verdict is Verdict.ALLOW, "it grows nothing"


@pytest.mark.parametrize("late", [[2, 3], [3, 2], [3]], ids=str)
async def test_nor_does_it_pass_the_second_root_by_resting_on_what_is_doubted_there(late: list[int]):
    store = Barred()
    async with members(2, [PODS, WIDE], *WORKLOADS, workload("far", 5), store=store) as (first, second):
        let_far_land = store.bar("wide")
        far = asyncio.create_task(second.ask(scale("far", 7)))
        await until(lambda: store.waiting == 1)
        let_early_go_on = store.bar("wide")
        early = asking(first, 3)
        await until(lambda: store.waiting == 2)
        let_far_land()
        assert await granted(far) == 1, "now there is no room left"
        await until(lambda: len(first.committer.books["wide"].payload.intents) == 1)
        store.lift("wide")
        after = asking(first, *late)
        await asyncio.sleep(0.02)
        let_early_go_on()
        assert await granted(*early, *after) == 0
        await until(lambda: first.reserved == second.reserved == {"pods": 2 * 10**9})


async def test_nothing_rests_on_what_another_gate_has_ended_and_only_one_of_its_two_objects_tells_so_far():
    store = Barred()
    both = workload("web", 1, labels=FRONT | {"wide": "yes"})
    wide = quota("wide", {"pods": "12"}, namespaces={}, workloads={"wide": "yes"})
    async with members(2, [PODS, wide], both, *WORKLOADS[1:], store=store) as (first, second):
        ended = await second.ask(scale("web", 3))
        await until(lambda: first.reserved == {"pods": 2 * 10**9})
        go_on = store.bar("wide")
        second.gate.settle(ended.id, Event.REFUSED, 0.0)
        await until(lambda: store.waiting == 1)
        assert (await second.ask(scale("cron", 2))).verdict is Verdict.ALLOW, "now there is no room left"
        await until(lambda: len(first.committer.books["acme"].payload.intents) == 1)
        store.lift("wide")
        assert await granted(*asking(first, 3)) == 0
        go_on()
        await until(lambda: not second.committer.books["wide"].payload.intents)
        assert not first.gate.ledger.follows(ended.id)


async def made_up(store: MemoryStore, root: str, *keep: str) -> None:
    """The object of ``root``, with no intents but those."""
    held = await store.get(root)
    payload = decode(held.payload)
    intents = {one: payload.intents[one] for one in keep}
    await store.put(root, encode(replace(payload, intents=intents)), len(intents), held)


@pytest.mark.parametrize("root", ["acme", "gpu"])
async def test_nothing_rests_on_what_only_one_of_two_objects_holds(root: str):
    """Its gate died before it had written the other, or has ended it there: either way there may be no room for it."""
    both = [quota("acme", {"requests.cpu": "10"}), quota("gpu", {"pods": "9"}, namespaces={})]
    objects = [workload("web", 5)]
    store = MemoryStore()
    async with members(1, both, *objects, store=store) as (granter,):
        granted = await granter.ask(scale("web", 7))
    await made_up(store, root)
    async with members(1, both, *objects, store=store, released=False) as (gate,):
        rests = await gate.ask(scale("web", 7))
        assert (rests.verdict, rests.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
        assert granted.id not in gate.committer.books[root].payload.intents, "nobody has found room for it there"
        assert (await gate.ask(scale("web", 0))).verdict is Verdict.ALLOW
        gate.gate.settle(granted.id, Event.REFUSED, 0.0)
        assert (await gate.ask(scale("web", 7))).reason == "fits"
