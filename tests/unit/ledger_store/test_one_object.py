"""One ledger object for the whole cluster, whatever becomes of it, of the gates, and of the quotas."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from extauthz.core.ledger.entry import Event
from extauthz.core.model import Verdict
from extauthz.core.objects.workloads import observe
from extauthz.serve.ledger_store import committing, payload, replica
from extauthz.serve.ledger_store.payload import Payload, decode, encode
from extauthz.serve.ledger_store.store import WriteRefusedError
from extauthz.testing import create, patch, path, pod, quota, scale, workload
from tests.support.memory_store import MemoryStore
from tests.unit.ledger_store.gates import members, tree
from tests.unit.ledger_store.stores import Barred, Deaf, Late, Odd
from tests.waiting import until

PODS = {"pods": "10"}
TEN = [quota("acme", PODS)]
WEB, API = workload("web", 1), workload("api", 1)


def newest(store: MemoryStore) -> Payload:
    assert store._object is not None
    return decode(store._object.payload)


# Deciding and writing are one step.


async def test_what_another_gate_wrote_since_the_first_look_counts_when_the_write_begins():
    store = Barred()
    async with members(2, TEN, WEB, API, workload("cron", 0), store=store) as (first, second):
        go_on = store.bar()
        early = asyncio.create_task(first.ask(scale("web", 2)))
        await until(lambda: store.waiting == 1)
        waits = asyncio.create_task(first.ask(scale("api", 7)))
        await asyncio.sleep(0)
        store.lift()
        assert (await second.ask(scale("cron", 6))).verdict is Verdict.ALLOW
        go_on()
        assert (await early).verdict is Verdict.ALLOW
        assert (await waits).reason == "exceeded-quota"


async def test_a_caller_that_leaves_while_it_waits_for_its_turn_leaves_nothing_in_memory():
    store = Barred()
    async with members(1, TEN, WEB, API, store=store) as (gate,):
        go_on = store.bar()
        early = asyncio.create_task(gate.ask(scale("web", 2)))
        await until(lambda: store.waiting == 1)
        leaves = asyncio.create_task(gate.ask(scale("api", 5)))
        await asyncio.sleep(0.01)
        leaves.cancel()
        go_on()
        store.lift()
        granted = await early
        await until(lambda: {one.id for _, one in gate.gate.ledger.pending} == {granted.id} == gate.agreed)


async def test_a_caller_that_leaves_during_the_write_is_granted_nothing_and_is_taken_out_again():
    store = Barred()
    async with members(2, TEN, WEB, store=store) as (first, second):
        go_on = store.bar()
        leaves = asyncio.create_task(first.ask(scale("web", 9)))
        await until(lambda: store.waiting == 1)
        leaves.cancel()
        await asyncio.sleep(0)
        go_on()
        store.lift()
        await until(lambda: not newest(store).pending_writes and not first.reserved and not second.reserved)


async def test_a_write_whose_answer_was_lost_and_that_comes_late_grants_nothing_to_whom_was_refused():
    store = Late()
    async with members(2, TEN, WEB, API, store=store) as (first, second):
        store.is_late = True
        leaves = asyncio.create_task(first.ask(scale("web", 9)))
        await until(lambda: not store.is_late)
        leaves.cancel()
        came = await store.carry_out()
        await until(lambda: not newest(store).pending_writes)
        assert isinstance(came, bool)
        assert (await second.ask(scale("api", 9))).verdict is Verdict.ALLOW
        assert not first.gate.ledger.pending.follows("d-late")


async def test_a_lost_answer_that_cannot_be_looked_up_is_no_second_grant():
    store = Odd("lost after")
    async with members(2, TEN, WEB, API, store=store) as (first, second):
        store.is_away = True
        asking = asyncio.create_task(first.ask(scale("web", 9)))
        await asyncio.sleep(0.02)
        store.is_away = False
        granted = await asking
        assert granted.verdict is Verdict.ALLOW
        await until(lambda: second.agreed == {granted.id})
        assert (await second.ask(scale("api", 3))).reason == "exceeded-quota"


async def test_a_decision_that_fails_is_refused_in_time_and_the_writer_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(committing, "WITHIN_S", 0.2)
    async with members(1, TEN, WEB) as (gate,):
        decide = gate.gate.decide

        def fails(*args, charge: bool = True, **named):
            if charge:
                raise ZeroDivisionError
            return decide(*args, charge=charge, **named)

        gate.committer._gate = SimpleNamespace(decide=fails, ledger=gate.gate.ledger, release=gate.gate.release)
        assert (await gate.ask(scale("web", 2))).reason == "ledger-unavailable"
        assert "ledger-writer-failed" in [event for event, _ in gate.told]
        gate.committer._gate = gate.gate
        assert (await gate.ask(scale("web", 2))).verdict is Verdict.ALLOW


# What is written where.


async def test_a_write_that_no_quota_covers_yet_counts_at_the_gate_where_it_is_labelled_into_one():
    """Scale web to 100 (no quota, slow) at one gate; label web into a quota of 10 at another."""
    front = quota("front", PODS, namespaces={}, workloads={"tier": "front"})
    async with members(2, [front], workload("web", 1, labels={"app": "web"})) as (first, second):
        slow = await first.ask(scale("web", 100))
        assert slow.verdict is Verdict.ALLOW
        await until(lambda: slow.id in second.agreed)
        labelled = await second.ask(patch(path("web"), {"metadata": {"labels": {"tier": "front"}}}))
        assert labelled.reason == "exceeded-quota", labelled.sentence


@pytest.mark.parametrize(
    "there", [quota("other", PODS), quota("acme", PODS, mode="Audit")], ids=["no-quota-covers-it", "quotas-only-audit"]
)
async def test_where_nothing_can_be_refused_none_waits_for_the_ledger_and_the_others_are_told(there):
    async with members(2, [there], WEB, API) as (first, second):
        free = await first.ask(scale("web", 9))
        assert (free.verdict, free.evidence.afterwards) == (Verdict.ALLOW, True)
        await until(lambda: free.id in second.agreed)
        second.gate.load_quotas(tree(quota("acme", PODS)), 0.0)
        assert (await second.ask(scale("api", 5))).reason == "exceeded-quota"


async def test_so_is_a_count_for_an_object_that_is_not_there_yet():
    async with members(2, [quota("other", PODS)], API) as (first, second):
        early = await first.ask(scale("web", 9))
        await until(lambda: early.id in second.agreed)
        second.gate.load_quotas(tree(quota("acme", PODS)), 0.0)
        second.gate.observe(*observe(workload("web", 1)))
        assert (await second.ask(scale("api", 5))).reason == "exceeded-quota"


async def test_a_retry_that_renews_a_write_is_told_to_the_others():
    async with members(2, [quota("acme", {"pods": "100"})], WEB) as (first, second):
        answers = [await first.ask(scale("web", 5)) for _ in range(20)]
        assert all(one.verdict is Verdict.ALLOW for one in answers)
        assert len(first.agreed) == 16, "retries are one write"
        renewed = next(one.pending_write for one in reversed(answers))
        assert renewed != answers[-1].id
        await until(lambda: second.gate.ledger.pending.get(renewed)[1].renewed)


async def test_a_quota_that_moves_to_another_root_and_back_has_the_same_pending_writes():
    acme, corp = quota("acme", PODS), quota("corp", {"pods": "100"}, namespaces={})
    below = quota("acme", PODS, parent="corp")
    async with members(2, [acme, corp], WEB, API) as (first, second):
        await first.ask(scale("web", 9))
        for quotas in ([below, corp], [acme, corp]):
            for gate in (first, second):
                gate.gate.load_quotas(tree(*quotas), 0.0)
            assert (await second.ask(scale("api", 3))).reason == "exceeded-quota"


async def test_a_gate_whose_watch_of_the_ledger_is_late_grants_nothing_on_old_knowledge():
    """A namespace moves from one root to another meanwhile; the compare-and-swap shows what the watch has not."""
    quotas = [quota("acme", {"pods": "100"}), quota("zoo", PODS)]
    store = Deaf(hear=1)
    await store.put(encode(Payload()), 0, None)
    async with members(2, quotas, WEB, API, store=store, released=False) as (first, deaf):
        granted = await first.ask(scale("web", 9))
        assert granted.id not in deaf.agreed, "it was told of nothing"
        for gate in (first, deaf):
            gate.gate.observe_namespace("team-a", {"workspace": "zoo"})
        refused = await deaf.ask(scale("api", 3))
        assert refused.reason == "exceeded-quota"
        assert granted.id in deaf.agreed


async def test_a_quota_that_is_deleted_and_made_again_has_them_too():
    async with members(2, TEN, WEB, API) as (first, second):
        await first.ask(scale("web", 9))
        for quotas in ([], TEN):
            for gate in (first, second):
                gate.gate.load_quotas(tree(*quotas), 0.0)
        assert (await second.ask(scale("api", 3))).reason == "exceeded-quota"


def large(name: str, containers: int, replicas: int = 0) -> dict:
    made = workload(name, replicas)
    made["spec"]["template"] = pod({"cpu": "1"})
    each = made["spec"]["template"]["spec"]["containers"][0]
    many = [{**each, "name": f"{name}-{number}-{'x' * 40}"} for number in range(containers)]
    made["spec"]["template"]["spec"]["containers"] = many
    return made


async def test_one_tenants_large_templates_leave_room_for_its_neighbours():
    quotas = [
        quota("site", {"pods": "1000"}, namespaces={}),
        quota("acme", {"pods": "1000"}, namespaces={}, workloads={"app": "acme"}, parent="site"),
        quota("zoo", {"pods": "1000"}, namespaces={}, workloads={"app": "zoo"}, parent="site"),
    ]
    async with members(2, quotas, workload("lion", 1, labels={"app": "zoo"})) as (first, second):
        answers = []
        for number in range(12):
            made = large(f"big{number}", 200)
            made["metadata"]["labels"] = {"app": "acme"}
            made["spec"]["template"]["spec"]["containers"][0]["name"] = f"no other's {number}"
            answers.append(await first.ask(create(made)))
        assert {one.reason for one in answers if one.verdict is not Verdict.ALLOW} == {"ledger-full"}
        assert (await second.ask(scale("lion", 5))).verdict is Verdict.ALLOW
        assert not any(one.id in first.agreed for one in answers if one.verdict is not Verdict.ALLOW)


async def test_counts_that_no_quota_covers_leave_room_for_everybody_else():
    """For 4,000 names that need not exist: half of them filled the object."""
    mine = [quota("acme", {"pods": "10"}, namespaces={"workspace": "acme"})]
    known = {"team-a": {"workspace": "acme"}, "elsewhere": {}}
    async with members(2, mine, workload("web", 2), namespaces=known) as (first, second):
        for number in range(4000):
            name = Random(number).randbytes(100).hex()
            passed = await first.ask(scale(name, 2, namespace="elsewhere"))
            assert passed.verdict is Verdict.ALLOW
            if number % 500 == 0:
                await asyncio.sleep(0)
        answers = [await gate.ask(scale("web", count)) for gate in (first, second) for count in (3, 1)]
        assert [one.verdict for one in answers] == [Verdict.ALLOW] * 4
        await until(lambda: first.agreed == {one.id for _, one in first.gate.ledger.pending} == second.agreed)


async def test_less_needs_no_room_in_the_object(monkeypatch: pytest.MonkeyPatch):
    """Neither of its tenant nor of all, decided with growth or alone."""
    monkeypatch.setattr(replica, "MAX_TENANT_BYTES", 10)
    async with members(1, TEN, workload("web", 3), API) as (gate,):
        assert (await gate.ask(scale("api", 2))).reason == "ledger-full"
        assert (await gate.ask(scale("web", 2))).verdict is Verdict.ALLOW
        monkeypatch.undo()
        monkeypatch.setattr(payload, "GROWTH_TEXT_BYTES", 10)
        grows, lowers = await asyncio.gather(gate.ask(scale("api", 2)), gate.ask(scale("web", 1)))
        assert (grows.reason, lowers.verdict) == ("ledger-full", Verdict.ALLOW)
        assert {lowers.id} < gate.agreed


async def test_a_template_stands_once_however_many_writes_name_it():
    store = MemoryStore()
    async with members(2, [quota("acme", {"pods": "1000"})], store=store) as (first, second):
        for number in range(5):
            await first.ask(create({**(made := large("w", 3)), "metadata": {**made["metadata"], "name": f"w{number}"}}))
        await until(lambda: len(second.agreed) == 5)
        texts = newest(store).texts.values()
        assert len([one for one in texts if one.startswith("{")]) == 1
        seen = [one.templates for _, one in second.gate.ledger.pending]
        assert len(seen) == 5
        assert len(set(seen)) == 1


def charted(number: int) -> dict:
    """As a chart makes it: many labels, and its name in some of them and in its container."""
    name = f"shop-{number}"
    labels = {"app": name, "app.kubernetes.io/name": name} | {f"platform.example.com/{n}": "x" * 40 for n in range(20)}
    made = workload(name, 1, labels=labels)
    made["spec"]["template"] = pod({"cpu": "10m"})
    made["spec"]["template"]["spec"]["containers"][0]["name"] = name
    return made


async def test_a_tenant_makes_hundreds_of_objects_that_differ_by_their_names_at_once():
    """43 of these were all, while each had its own labels."""
    async with members(2, [quota("acme", {"pods": "1000"})]) as (first, second):
        answers = []
        for fifty in range(6):  # so that no answer takes long on a busy machine
            numbers = range(50 * fifty, 50 * fifty + 50)
            answers += await asyncio.gather(*(first.ask(create(charted(number))) for number in numbers))
        granted = [one.id for one in answers if one.verdict is Verdict.ALLOW]
        assert {one.reason for one in answers} == {"fits", "ledger-full"}
        assert 200 < len(granted) < 300
        await until(lambda: second.agreed == set(granted))
        here, there = (
            {one.id: (one.templates, one.labels) for _, one in gate.gate.ledger.pending} for gate in (first, second)
        )
        assert here == there


# The object itself.


@pytest.mark.parametrize("text", ["gibberish", "", base64.b64encode(zlib.compress(b"{}")).decode()])
async def test_an_object_that_no_gate_wrote_takes_no_room_away_holds_growth_and_is_mended(text: str):
    store = MemoryStore()
    async with members(2, [quota("acme", {"pods": "20"})], WEB, API, store=store, window_s=0.6) as (first, second):
        granted = await first.ask(scale("web", 9))
        await store.put(text, 0, await store.get())
        await until(lambda: first.committer.notes() and store._object.payload != text)
        assert granted.id in newest(store).pending_writes
        assert "ledger-unreadable" in [event for event, _ in first.told]
        assert first.gate.ledger.pending.follows(granted.id)
        assert second.gate.ledger.pending.follows(granted.id)
        assert (await first.ask(scale("api", 2))).reason == "hold"
        await until(lambda: not first.committer.notes())
        first.gate.ledger.pending.settle(granted.id, Event.REFUSED, 0.0)
        assert (await first.ask(scale("api", 2))).verdict is Verdict.ALLOW


async def test_an_object_without_content_is_none_that_a_gate_wrote_at_its_start_either():
    store = MemoryStore()
    await store.put("", 0, None)
    async with members(1, TEN, WEB, store=store, window_s=30.0, released=False) as (gate,):
        assert "ledger-unreadable" in [event for event, _ in gate.told]
        assert (await gate.ask(scale("web", 2))).reason == "hold"


@pytest.mark.parametrize(
    "line",
    ['{"workload":[]}', f'{{"workload":["apps","deployments","team-a","web"],"replicas":2,"until_ms":1{"0" * 400}}}'],
    ids=["no-workload", "no-time"],
)
async def test_a_line_that_cannot_be_read_makes_the_whole_object_unreadable_and_nothing_is_forgotten(line: str):
    store = MemoryStore()
    async with members(1, TEN, WEB, store=store, window_s=30.0) as (gate,):
        granted = await gate.ask(scale("web", 9))
        held = newest(store)
        await store.put(encode(replace(held, pending_writes={"odd": line})), 1, await store.get())
        await until(gate.committer.notes)
        assert gate.gate.ledger.pending.follows(granted.id)


async def test_an_object_of_another_release_is_left_alone_and_nothing_is_granted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(committing, "WITHIN_S", 0.2)
    store = MemoryStore()
    async with members(1, [quota("acme", {"pods": "20"})], WEB, API, store=store) as (gate,):
        granted = await gate.ask(scale("web", 9))
        header = json.dumps({"format": 99})
        text = base64.b64encode(zlib.compress(header.encode())).decode()
        theirs = await store.put(text, 0, await store.get())
        await until(gate.committer.notes)
        refused = await gate.ask(scale("api", 2))
        assert (refused.verdict, refused.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable")
        assert "its format is 99" in refused.sentence
        less = await gate.ask(scale("web", 1))
        assert (less.verdict, less.reason) == (Verdict.UNAVAILABLE, "ledger-unavailable"), "nobody could know of it"
        assert (await gate.ask(scale("web", 0))).verdict is Verdict.ALLOW
        assert await store.get() == theirs
        assert gate.gate.ledger.pending.follows(granted.id)


async def test_a_ledger_that_is_made_anew_while_the_one_before_holds_holds_for_a_whole_window():
    store = MemoryStore()
    async with members(1, TEN, WEB, store=store, window_s=1.0, released=False) as (gate,):
        await until(lambda: store._object is not None)
        await asyncio.sleep(0.6)
        store.delete()
        await until(lambda: gate.committer.replica.base is None)
        await until(lambda: gate.committer.replica.base is not None)
        found = newest(store)
        assert found.holds
        assert found.hold_ends_ms - found.clock_ms >= 1000, "from its making"


async def test_a_hold_ends_by_a_list_and_not_by_the_clock():
    store = MemoryStore()
    async with members(1, TEN, WEB, store=store, window_s=0.3, released=False) as (gate,):
        lists = asyncio.Event()

        async def slow() -> None:
            await lists.wait()
            gate.sight.shown = gate.sight.at = {"deployments.apps": 9}

        gate.committer._list_anew = slow
        await asyncio.sleep(1.0)
        assert (await gate.ask(scale("web", 2))).reason == "hold"
        lists.set()
        await until(lambda: not gate.committer.notes())
        assert newest(store).watermark == {"deployments.apps": 9}, (
            "what the list has shown is in the write that ends it"
        )


async def test_gates_that_restart_faster_than_the_window_free_what_nobody_answered_all_the_same():
    store = MemoryStore()
    window_s = 1.2
    async with members(1, TEN, WEB, store=store, window_s=window_s) as (first,):
        granted = await first.ask(scale("web", 9))
        expiry = newest(store).pending_writes[granted.id]
    until_ms = json.loads(expiry)["until_ms"]
    clock = newest(store).clock_ms
    for _ in range(8):
        async with members(1, TEN, WEB, store=store, window_s=window_s, released=False):
            await asyncio.sleep(window_s / 3)
    passed_ms = newest(store).clock_ms - clock
    assert passed_ms > 1000 * window_s
    assert json.loads(newest(store).pending_writes[granted.id])["until_ms"] == until_ms
    async with members(1, TEN, WEB, store=store, window_s=window_s, released=False) as (last,):
        _, pending_write = last.gate.ledger.pending.get(granted.id)
        left_s = pending_write.expires_s - last.committer._clock()
        assert left_s <= (until_ms - clock - passed_ms) / 1000 + 0.1, "what has passed counts"


async def test_a_store_without_the_definition_is_not_asked_without_end():
    class Undefined(Odd):
        async def put(self, payload, writes, before):
            self.puts += 1
            raise WriteRefusedError("there is no such kind")

    store = Undefined()
    async with members(1, TEN, WEB, store=store, released=False):
        await asyncio.sleep(2.2)
        assert store.puts + store.gets <= 10


async def test_a_store_that_always_says_conflict_is_not_asked_without_end():
    store = Odd(*["conflict"] * 1000)
    async with members(1, TEN, WEB, store=store) as (gate,):
        before = store.puts
        assert (await gate.ask(scale("web", 2))).reason == "ledger-unavailable"
        assert store.puts - before <= 40


async def test_an_idle_gate_writes_nothing():
    async with members(2, TEN, WEB, window_s=2.0) as (first, second):
        first.writes.clear(), second.writes.clear()
        await asyncio.sleep(1.0)
        assert first.writes == second.writes == []


async def test_the_clock_of_the_ledger_is_never_ahead_of_real_time():
    store = MemoryStore()
    async with members(3, [quota("acme", {"pods": "1000"})], WEB, store=store) as gates:
        loop = asyncio.get_running_loop()
        started_s, clock = loop.time(), newest(store).clock_ms
        for number in range(2, 40):
            await gates[number % 3].ask(scale("web", number))
        assert newest(store).clock_ms - clock <= (loop.time() - started_s) * 1000 + 1


def test_what_tenants_may_fill_leaves_room_for_others():
    assert 6 * replica.MAX_TENANT_BYTES * 4 // 3 <= payload.MAX_TEXT_BYTES, "six of them fill it at the worst"
