"""Several gates grant no more than one would: each grant is in a ledger object before it is answered."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from extauthz.core.ledger.entry import Event
from extauthz.core.model import Requester, Verdict, WorkloadRef
from extauthz.serve.ledger_store import committing, replica
from extauthz.serve.ledger_store.payload import decode
from extauthz.serve.ledger_store.store import Follower, Stored
from extauthz.testing import create, patch, path, pod, put_scale, quota, scale, shown, workload
from extauthz.testing import gate as make_gate
from tests.support.memory_store import MemoryStore
from tests.unit.ledger_store.gates import Member, members
from tests.unit.ledger_store.stores import TEN, Late, Odd, Slow
from tests.waiting import until

CPU = {"requests.cpu": "10"}


def allowed(answers: list) -> int:
    return sum(answer.verdict is Verdict.ALLOW for answer in answers)


async def test_of_many_grants_at_many_gates_only_what_fits_is_granted():
    names = [f"w{n}" for n in range(30)]
    async with members(3, TEN, *(workload(name, 0) for name in names)) as gates:
        answers = await asyncio.gather(*(gates[n % 3].ask(scale(name, 1)) for n, name in enumerate(names)))
        assert allowed(answers) == 10
        assert {answer.verdict for answer in answers} == {Verdict.ALLOW, Verdict.DENY}
        await until(lambda: all(gate.reserved == {"requests.cpu": 10 * 10**9} for gate in gates))


async def test_a_grant_to_who_is_not_bound_is_agreed_upon_and_counts_at_all_gates():
    bound = quota("acme", CPU, requesters={"except": {"users": ["admin"]}})
    async with members(2, [bound], workload("web", 5)) as gates:
        for by, verdict in (("hpa", Verdict.DENY), ("admin", Verdict.ALLOW)):
            assert (await gates[0].ask(scale("web", 30), Requester(by))).verdict is verdict
        await until(lambda: all(gate.reserved == {"requests.cpu": 25 * 10**9} for gate in gates))
        assert (await gates[1].ask(scale("web", 6), Requester("hpa"))).verdict is Verdict.DENY


async def test_arrivals_during_a_write_go_with_the_next():
    names = [f"w{n}" for n in range(50)]
    async with members(1, [quota("acme", {"requests.cpu": "99"})], *(workload(name, 0) for name in names)) as (gate,):
        gate.writes.clear()
        assert allowed(await asyncio.gather(*(gate.ask(scale(name, 1)) for name in names))) == 50
        assert gate.writes in ([("ok", 50)], [("ok", 1), ("ok", 49)])


async def test_what_needs_no_pending_write_writes_nothing():
    async with members(1, TEN, workload("web", 5)) as (gate,):
        gate.writes.clear()
        question = scale("web", 9)._replace(target=scale("web").target + "?dryRun=All")
        answers = [await gate.ask(one) for one in (scale("web", 0), question, scale("web", 99))]
        assert [answer.verdict for answer in answers] == [Verdict.ALLOW, Verdict.ALLOW, Verdict.DENY]
        assert gate.writes == []


async def test_a_pending_write_that_ends_at_one_gate_leaves_all():
    async with members(3, TEN, workload("web", 1)) as gates:
        granted = await gates[0].ask(scale("web", 5))
        await until(lambda: all(gate.gate.ledger.pending.follows(granted.id) for gate in gates))
        gates[1].gate.ledger.pending.settle(granted.id, Event.REFUSED, 0.0)  # the access log came to another gate
        await until(lambda: not any(gate.gate.ledger.pending.follows(granted.id) for gate in gates))
        assert (await gates[2].ask(scale("web", 10))).verdict is Verdict.ALLOW


async def test_who_is_behind_waits_and_grants_nothing():
    async with members(2, TEN, workload("web", 1)) as (first, second):
        first.sight.shown = first.sight.at = {"deployments.apps": 7}
        await first.ask(scale("web", 2))
        await until(lambda: second.committer.replica.behind())
        refused = await second.ask(scale("web", 3))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
        assert "has seen more of deployments.apps" in refused.sentence
        waiting = asyncio.create_task(second.ask(scale("web", 3)))
        await asyncio.sleep(0.05)
        second.sight.at = {"deployments.apps": 7}
        assert (await waiting).verdict is Verdict.ALLOW


async def test_who_is_behind_answers_at_once_what_can_grow_nothing_wherever_it_lands():
    async with members(2, TEN, workload("web", 5)) as (first, second):
        first.sight.shown = first.sight.at = {"deployments.apps": 7}
        await first.ask(scale("web", 6))
        await until(lambda: second.committer.replica.behind())
        for less in (put_scale("web", 3, "1"), put_scale("web", 5, "1"), scale("web", 0)):
            assert (await second.ask(less)).verdict is Verdict.ALLOW


WEB = WorkloadRef("apps", "deployments", "team-a", "web")


@asynccontextmanager
async def one_behind(kind: str = "deployments.apps", *objects: Any) -> AsyncIterator[tuple[Member, Member]]:
    """Two gates, the second of which has seen less of a kind."""
    async with members(2, TEN, workload("web", 5), *objects) as (first, second):
        first.sight.shown = first.sight.at = {kind: 7}
        await first.ask(scale("web", 6))
        await until(lambda: second.committer.replica.behind())
        yield first, second


@pytest.mark.parametrize(("kind", "looks"), [("pods", []), ("deployments.apps", [WEB])])
async def test_less_waits_for_no_watch_and_is_known_to_all_gates(kind: str, looks: list[WorkloadRef]):
    """Nobody may give its room away: somebody else may shrink it further before it lands."""
    async with one_behind(kind) as (first, second):
        less = await second.ask(scale("web", 3))
        assert (less.verdict, second.looks) == (Verdict.ALLOW, looks)
        await until(lambda: less.id in first.agreed)
        assert (await second.ask(scale("web", 7))).reason == "ledger-unavailable", "growth waits"


async def test_less_is_more_where_another_gate_has_seen_it_shrink():
    async with one_behind() as (_, second):

        async def look(ref: WorkloadRef) -> bool:
            second.gate.observe(ref, replace(second.gate.ledger.get(ref).observed, replicas=2, resource_version="7"))
            return True

        second.committer._look = look
        assert (await second.ask(scale("web", 3))).reason == "ledger-unavailable"
        assert second.reserved == {"requests.cpu": 4 * 10**9}, "what the other gate has allowed, and no more"


async def test_less_is_no_less_where_nobody_can_look():
    async with one_behind() as (_, second):
        second.can_look = False
        assert (await second.ask(scale("web", 3))).reason == "ledger-unavailable"


async def test_a_look_that_fails_is_not_tried_again_at_once():
    async with one_behind() as (_, second):
        second.can_look = False
        await second.ask(scale("web", 3), timeout_s=1.0)
        assert 1 < len(second.looks) < 20


async def test_what_another_gate_has_seen_since_the_look_is_looked_at_too():
    async with one_behind("deployments.apps", workload("api", 1)) as (first, second):
        looks = []

        async def look(ref: WorkloadRef) -> bool:
            looks.append(ref)
            if len(looks) == 1:
                first.sight.shown = first.sight.at = {"deployments.apps": 8}
                await first.ask(scale("api", 2))
                await until(lambda: second.committer.replica.mark("deployments.apps") == 8)
            return True

        second.committer._look = look
        assert (await second.ask(scale("web", 3))).verdict is Verdict.ALLOW
        assert looks == [WEB, WEB]


async def test_a_count_that_may_land_on_an_object_that_pends_is_no_less():
    """Another gate may have seen the pods go that made it less."""
    async with one_behind() as (first, second):
        dearer = {"spec": {"replicas": 1, "template": pod({"cpu": "1500m"})}}
        object_ = await first.ask(patch(path("web"), dearer))
        await until(lambda: object_.id in second.agreed)
        assert (await second.ask(scale("web", 3))).reason == "ledger-unavailable"


async def test_who_lists_anew_a_kind_of_which_there_is_nothing_keeps_nobody_waiting():
    async with members(1, TEN, workload("web", 1)) as (gate,):
        gate.sight.shown = {"deployments.apps": 7, "jobs.batch": 0}
        gate.sight.at = {"deployments.apps": 7}
        await gate.ask(scale("web", 2))
        assert gate.committer.replica.payload.watermark == {"deployments.apps": 7}


async def test_a_new_ledger_holds_growth_back_until_w_and_a_list():
    async with members(2, TEN, workload("web", 5), window_s=0.5, released=False) as (first, second):
        await until(lambda: second.committer.replica.holds and first.committer.notes())
        held = await second.ask(scale("web", 6))
        assert (held.verdict, held.reason) == (Verdict.UNAVAILABLE, "hold")
        assert (await second.ask(scale("web", 3))).verdict is Verdict.ALLOW, "shrinking passes"
        made = await second.ask(create(workload("new", 0)))
        assert made.reason == "hold", "a count of an earlier ledger may still land on it"
        await until(lambda: not first.committer.notes() and not second.committer.notes())
        assert first.lists + second.lists >= 1
        assert (await second.ask(scale("web", 6))).verdict is Verdict.ALLOW


async def test_questions_hear_of_a_hold_too_and_of_its_end():
    """Dry runs, ``check``, ``headroom`` and the canary of ``doctor`` reach no ledger."""
    store = MemoryStore()
    async with members(1, TEN, workload("web", 5), store=store, window_s=0.5, released=False) as (gate,):
        reading = shown(gate.gate, scale("web", 6))

        def asked() -> str:
            return gate.gate.decide(reading, "d", time.monotonic(), charge=False).reason

        for _ in range(2):
            assert asked() == "hold"
            await until(lambda: asked() == "fits")
            assert not gate.committer.notes()
            store.delete()
            await until(gate.committer.notes)


async def test_an_object_that_was_deleted_is_made_again_with_all_that_is_agreed_upon():
    store = MemoryStore()
    async with members(2, TEN, workload("web", 5), store=store) as (first, second):
        granted = await first.ask(scale("web", 9))
        store.delete()
        await until(lambda: second.committer.replica.base and second.committer.notes())
        await until(lambda: granted.id in second.agreed)
        assert first.gate.ledger.pending.follows(granted.id)
        assert second.gate.ledger.pending.follows(granted.id)


async def test_a_gate_that_starts_knows_what_others_have_granted():
    store = MemoryStore()
    async with members(1, TEN, workload("web", 5), store=store) as (first,):
        await first.ask(scale("web", 9))
        async with members(1, TEN, workload("web", 5), store=store, released=False) as (late,):
            assert late.reserved == first.reserved
            assert late.committer.notes() == [], "nothing is held: all that is under way is known"


async def test_a_pending_write_of_a_gate_that_died_expires_elsewhere_by_its_own_clock():
    store = MemoryStore()
    async with members(1, TEN, workload("web", 5), store=store) as (first,):
        granted = await first.ask(scale("web", 9))
    async with members(1, TEN, workload("web", 5), store=store, window_s=0.3) as (heir,):
        _, pending_write = heir.gate.ledger.pending.get(granted.id)
        assert heir.gate.ledger.pending.consistent_read(pending_write.expires_s - 0.01) == 0
        assert heir.gate.ledger.pending.consistent_read(pending_write.expires_s) == 1
        await until(lambda: not decode(heir.committer.replica.base.payload).pending_writes)


async def test_a_workload_of_two_trees_is_charged_in_both_at_every_gate():
    both = [quota("acme", CPU), quota("gpu", {"pods": "7"}, namespaces={})]
    async with members(2, both, workload("web", 5), workload("api", 0)) as (first, second):
        granted = await first.ask(scale("web", 7))
        assert granted.verdict is Verdict.ALLOW
        await until(lambda: granted.id in second.agreed)
        assert (await second.ask(scale("api", 1))).evidence.shortages[0].quota == "gpu"
        first.gate.ledger.pending.settle(granted.id, Event.REFUSED, 0.0)
        await until(lambda: not second.gate.ledger.pending.follows(granted.id))
        assert (await second.ask(scale("api", 1))).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "faults", [["refused"], ["conflict"], ["lost before"], ["lost after"], ["conflict", "lost after"]], ids="+".join
)
async def test_a_write_that_fails_is_tried_again_and_granted_once(faults: list[str]):
    async with members(2, TEN, workload("web", 5), store=Odd(*faults)) as (first, second):
        assert (await first.ask(scale("web", 10))).verdict is Verdict.ALLOW
        await until(lambda: second.reserved == {"requests.cpu": 5 * 10**9})
        assert len(second.agreed) == 1


async def test_where_the_object_that_has_a_doubtful_write_becomes_unreadable_the_write_is_decided_anew():
    store = Slow()
    async with members(1, TEN, workload("web", 5), store=store) as (gate,):
        store.faults, store.is_away = ["lost after"], True
        asking = asyncio.create_task(gate.ask(scale("web", 4)))
        await until(lambda: gate.agreed)  # the watch shows that it was carried out after all
        await until(lambda: [event for event, _ in gate.told] == ["ledger-not-written"])
        edited = store._object = store._object._replace(payload="edited", version=str(next(store._versions)))
        gate.committer.changed(edited)
        store.is_away = False
        assert (await asking).verdict is Verdict.ALLOW
        assert [event for event, _ in gate.told] == ["ledger-not-written", "ledger-unreadable"]
        await until(lambda: len(gate.agreed) == 1)


async def test_what_can_not_be_written_is_refused_and_leaves_nothing():
    store = Odd()
    async with members(2, TEN, workload("web", 5), store=store) as (first, second):
        store.faults = ["lost before", *["refused"] * 200]
        store.is_away = True
        refused = await first.ask(scale("web", 10))
        assert (refused.verdict, refused.reason, refused.pending_write) == (
            Verdict.UNAVAILABLE,
            "ledger-unavailable",
            None,
        )
        store.is_away, store.faults = False, []
        await until(lambda: not first.reserved and not second.reserved)
        assert (await second.ask(scale("web", 10))).verdict is Verdict.ALLOW


async def test_a_caller_that_went_away_is_granted_nothing():
    async with members(2, TEN, workload("web", 5)) as (first, second):
        asking = asyncio.create_task(first.ask(scale("web", 10)))
        await asyncio.sleep(0)
        asking.cancel()
        await until(lambda: not first.reserved and not second.reserved)


@pytest.mark.parametrize("seed", range(20))
async def test_no_order_of_things_goes_over(seed: int):
    """Gates that ask, settle and are slow, over two trees and a workload of both."""
    chance = random.Random(seed)
    names = [f"w{n}" for n in range(8)]
    quotas = [quota("acme", CPU), quota("gpu", {"pods": "12"}, namespaces={})]

    class Slow(MemoryStore):
        async def put(self, *args) -> Stored:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            return await super().put(*args)

    async with members(3, quotas, *(workload(name, 0) for name in names), store=Slow()) as gates:
        granted: dict[str, tuple[str, int]] = {}

        async def one(gate: Member) -> None:
            name, replicas = chance.choice(names), chance.randrange(1, 6)
            answer = await gate.ask(scale(name, replicas))
            if answer.verdict is not Verdict.ALLOW:
                return
            granted[answer.id] = name, replicas
            assert sum(max((n for w, n in granted.values() if w == each), default=0) for each in names) <= 10
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            if chance.random() < 0.7:
                del granted[answer.id]
                chance.choice(gates).gate.ledger.pending.settle(answer.id, Event.REFUSED, 0.0)

        for _ in range(4):
            await asyncio.gather(*(one(chance.choice(gates)) for _ in range(30)))


async def test_what_was_decided_while_behind_is_decided_anew():
    """design.md L8: web→9 was settled at version 7, which the second gate has not seen when it decides."""
    objects = workload("web", 1), workload("api", 0)
    async with members(2, TEN, *objects) as (first, second):
        granted = await first.ask(scale("web", 9))
        await until(lambda: second.gate.ledger.pending.follows(granted.id))
        grown = replace(first.gate.ledger.get(WEB).observed, replicas=9, resource_version="7")
        first.gate.observe(WEB, grown)
        first.sight.shown = first.sight.at = {"deployments.apps": 7}
        first.gate.ledger.pending.settle(granted.id, Event.REFUSED, 0.0)  # or a read after its answer: it ends
        await until(lambda: not second.gate.ledger.pending.follows(granted.id))
        waiting = asyncio.create_task(second.ask(scale("api", 5)))
        await asyncio.sleep(0.05)
        second.gate.observe(WEB, grown)
        second.sight.at = {"deployments.apps": 7}
        assert (await waiting).verdict is Verdict.DENY


async def test_an_object_that_is_to_be_made_anew_is_looked_at_first():
    """Another gate may know that it is gone, and have given its room away."""
    async with members(1, TEN, workload("web", 5)) as (gate,):
        made = await gate.ask(create(workload("web", 5)))
        assert made.reason == "no-growth"
        assert gate.looks == [WEB]
        gate.gate.ledger.pending.settle(made.id, Event.REFUSED, 0.0)
        gate.can_look = False
        refused = await gate.ask(create(workload("web", 5)))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
        await gate.ask(create(workload("new", 1)))
        assert gate.looks == [WEB, WEB], "what is not there is growth as it is"


async def test_what_a_look_shows_to_be_gone_is_growth():
    async with members(1, TEN, workload("web", 5), workload("api", 1)) as (gate,):

        async def look(ref: WorkloadRef) -> bool:
            gate.gate.observe(ref, None, version="9")
            api = ref._replace(name="api")
            gate.gate.observe(api, replace(gate.gate.ledger.get(api).observed, replicas=6))
            return True

        gate.committer._look = look
        assert (await gate.ask(create(workload("web", 5)))).verdict is Verdict.DENY


async def test_one_large_ledger_refuses_what_does_not_fit_in_it(monkeypatch: pytest.MonkeyPatch):
    async with members(2, TEN, workload("web", 1)) as (first, second):
        monkeypatch.setattr("extauthz.serve.ledger_store.payload.GROWTH_TEXT_BYTES", 100)
        refused = await first.ask(scale("web", 2))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-full")
        assert not first.reserved
        monkeypatch.undo()
        assert (await second.ask(scale("web", 2))).verdict is Verdict.ALLOW


# Rules of the shared ledger that ``make mutants`` found to have no test.


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


async def test_a_write_waits_for_other_gates_as_long_as_its_asker_does(monkeypatch: pytest.MonkeyPatch):
    store = Odd()
    async with members(1, TEN, workload("web", 1), store=store) as (gate,):
        monkeypatch.setattr(committing, "WITHIN_S", 0.0)
        store.faults = ["refused", "refused"]
        assert (await gate.ask(scale("web", 2), timeout_s=60.0)).verdict is Verdict.ALLOW
        monkeypatch.setattr(committing, "WITHIN_S", 600.0)
        store.faults = ["refused"] * 1_000
        assert (await gate.ask(scale("web", 3), timeout_s=0.6)).reason == "ledger-unavailable"
        monkeypatch.setattr(committing, "MOST_S", 0.1)
        assert (await gate.ask(scale("web", 3), timeout_s=600.0)).reason == "ledger-unavailable"


async def test_of_many_who_wait_only_some_are_decided_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(committing, "AT_ONCE", 3)
    async with members(1, [quota("acme", {"pods": "20"})], *(workload(f"web{one}", 1) for one in range(10))) as (gate,):
        answers = await asyncio.gather(*(gate.ask(scale(f"web{one}", 2)) for one in range(10)))
        assert allowed(answers) == 10
        assert sum(grants for _, grants in gate.writes) == 10
        assert max(grants for _, grants in gate.writes) == 3


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
