"""What an answer and the passing of time make of pending writes, and when."""

from __future__ import annotations

import asyncio

import pytest

from extauthz.core.decision.gate import MAX_IDENTICAL
from extauthz.core.model import WorkloadRef
from extauthz.settlement import reads
from extauthz.settlement.answers import Fate, Settlement
from extauthz.settlement.reads import Brought, ConsistentReads, Result
from extauthz.testing.builders import Asker, gate, quota, scale, workload

OK = Fate(200, "via_upstream", frozenset(), attempts=1, sent=True)


async def test_a_write_that_was_answered_is_read_after_others_had_time_to_be_answered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reads, "TICK_S", 0.01)
    ask = Asker(gate([quota("acme", {"pods": "9"})], workload("web", 2)))
    read: list[WorkloadRef] = []

    async def bring(ref: WorkloadRef) -> Brought:
        read.append(ref)
        return Brought(Result.OK, True)

    settlement = Settlement(ask.gate.ledger.pending, lambda event: None, lambda: ask.now_s)
    settlement.reads = ConsistentReads(bring, ask.gate.ledger.pending, lambda *_: None, lambda: ask.now_s)
    run = asyncio.create_task(settlement.reads.run())
    for count in (3, 4):
        settlement.answered(ask(scale("web", count)).id, OK)
        for _ in range(5):
            await asyncio.sleep(reads.TICK_S)
    assert (read, len(ask.gate.ledger.pending)) == ([], 2)
    ask.now_s += reads.COALESCE_S
    async with asyncio.timeout(10):
        while len(ask.gate.ledger.pending):  # noqa: ASYNC110 (of things that tell nobody)
            await asyncio.sleep(0.01)
    assert len(read) == 1
    run.cancel()
    await asyncio.wait([run])


def test_a_write_whose_window_has_elapsed_stands_for_no_new_one():
    ask = Asker(gate([quota("acme", {"pods": "9"})], workload("web", 2)))
    for _ in range(MAX_IDENTICAL):
        ask(scale("web", 3))
    ask.now_s = 200.0
    Settlement(ask.gate.ledger.pending, lambda event: None, lambda: ask.now_s).tick(ask.now_s)
    asked = ask(scale("web", 3))
    assert asked.pending_write == asked.id
